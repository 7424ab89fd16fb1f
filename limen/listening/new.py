"""A new study, ready to be served: a commented file from a template, a table of items, and their audio.

Clips are from a run folder or, without one, from the embedded spoken commands, attacked with the shipped
model. No listener hears a pair twice: a run with too few clips is refused. Every clip is available in both
conditions, and items are ordered so that those of one word, one attack and one loudness alternate and each is
heard in either condition equally often.
"""

import csv
import random
import re
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from limen.audio.loudness import Loudness
from limen.core.errors import UserError
from limen.listening.from_run import ClipPair, balanced, different, enough, pairs
from limen.listening.server.identifiers import new_completion_code
from limen.listening.study import read_study

HERE = Path(__file__).parent / "templates"
LEVELS: tuple[Loudness, ...] = ("low", "medium", "high")
EXPERIMENTS, CLIPS, TRIALS = 3, 12, 6
"""The published study: experiments for each loudness level, clips of part 1 and trials of part 2 of each."""
CLIPS_NEEDED = re.compile(r"(?m)^# Clips: (\d+) ")
"""The comment of a template with the number of different clips that each listener needs."""


def templates() -> dict[str, str]:
    """Name -> purpose, the first line of the file."""
    return {
        p.stem: p.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for p in sorted(HERE.glob("*.yaml"))
    }


def new_study(
    folder: Path,
    template: str,
    run: Path | None = None,
    attack: str | None = None,
    seed: int | None = None,
    value: str | None = None,
) -> Path:
    """Write study.yaml, items.csv, sources.csv and audio/ into a new folder; returns the study file. Without
    a `seed` the study gets one that cannot be guessed, because it determines the right answers."""
    if template not in templates():
        raise UserError(f'There is no template "{template}". There are: {", ".join(templates())}.')
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise UserError(f"{folder}: already exists and is not empty. Give another name, or remove it first.")
    seed = secrets.randbelow(2**53) if seed is None else seed
    partial = folder.with_name(folder.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    levels: tuple[Loudness | None, ...] = LEVELS if template == "seed000" else (None,)
    needed, of_all = (
        (CLIPS + TRIALS, EXPERIMENTS * (CLIPS + TRIALS))
        if template == "seed000"
        else 2 * (_clips_needed(template),)
    )
    try:
        if run is not None:
            found = pairs(run, attack, value)
        else:
            from limen.listening.demo_pairs import demo_pairs

            found = demo_pairs(
                partial / "made", of_all * len(levels), LEVELS if template == "seed000" else LEVELS[2:], seed
            )
        by_level = {level: [p for p in found if level in (None, p.loudness)] for level in levels}
        _refuse_few(template, by_level, needed, run, attack, value)
        chosen = {level: balanced(mine, of_all, seed) for level, mine in by_level.items()}
        if template == "seed000":
            rows = [row for level, mine in chosen.items() for row in _experiments(str(level), mine, seed)]
        else:
            rows = [_row(pair) for pair in alternating(chosen[None], seed)]
        _write(partial, template, folder.resolve().name, seed, rows)
        shutil.rmtree(partial / "made", ignore_errors=True)
        read_study(partial / "study.yaml")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder / "study.yaml"


def _clips_needed(template: str) -> int:
    """Number of different clips that each listener needs."""
    found = CLIPS_NEEDED.search((HERE / f"{template}.yaml").read_text(encoding="utf-8"))
    assert found, f"the template {template} has no comment `# Clips: N`"
    return int(found[1])


def _refuse_few(
    template: str,
    by_level: Mapping[Loudness | None, Sequence[ClipPair]],
    needed: int,
    run: Path | None,
    attack: str | None,
    value: str | None,
) -> None:
    """Raise a UserError if a listener would hear a clip twice."""
    there = {level: different(mine) for level, mine in by_level.items()}
    if all(n >= needed for n in there.values()):
        return
    each = " of each loudness (low, medium and high)" if len(there) > 1 else ""
    has = ", ".join(f"{n} {level}" for level, n in there.items()) if len(there) > 1 else str(there[None])
    where = "the embedded speech" if run is None else str(run)
    raise UserError(
        f"{where}: the template {template} needs {needed} different clips{each} that the model had right and "
        f"the attack made wrong, so that no listener hears a pair twice, but there are {has}."
        + (f" {enough(run, attack, value, min(there.values()) / needed)}" if run else "")
        + (" The templates abx and naturalness take clips of any loudness." if len(there) > 1 else "")
    )


def alternating(chosen: Sequence[ClipPair], seed: int) -> list[ClipPair]:
    """Pairs in an order in which similar ones are at odd and even places equally often: trials give every
    second item the other condition. Words have priority, because the word would reveal the condition to a
    listener who hears all clips of a word in one condition; then loudness and attack. Otherwise the order is
    random."""
    chance = random.Random(seed)
    alike = sorted(chance.sample(chosen, len(chosen)), key=lambda p: (p.answer, p.loudness, p.attack))
    halves = _balanced_halves([alike[0::2], alike[1::2]])
    odd, even = (chance.sample(half, len(half)) for half in halves)
    return [pair for two in zip_longest(odd, even) for pair in two if pair is not None]


def _balanced_halves(halves: list[list[ClipPair]]) -> list[list[ClipPair]]:
    """Swap pairs between the halves as long as that makes them more similar."""
    odd, even = halves
    best = _imbalance(odd, even)
    while True:
        swaps = [(i, k) for i in range(len(odd)) for k in range(len(even))]
        swapped = [
            ([*odd[:i], even[k], *odd[i + 1 :]], [*even[:k], odd[i], *even[k + 1 :]]) for i, k in swaps
        ]
        least = min(swapped, key=lambda two: _imbalance(*two), default=(odd, even))
        if _imbalance(*least) >= best:
            return [odd, even]
        (odd, even), best = least, _imbalance(*least)


def _imbalance(odd: Sequence[ClipPair], even: Sequence[ClipPair]) -> tuple[int, int]:
    """Squared differences between the halves: in words, then in loudness and attack."""

    def squared(of: Callable[[ClipPair], str]) -> int:
        n = Counter(map(of, odd))
        n.subtract(map(of, even))
        return sum(v * v for v in n.values())

    return squared(lambda p: p.answer), squared(lambda p: p.loudness) + squared(lambda p: p.attack)


def _row(pair: ClipPair, **more: Any) -> dict[str, Any]:
    files = {"file:clean": pair.clean, "file:adversarial": pair.adversarial}
    swept = {} if pair.value == "none" else {"value": pair.value}
    return {
        "id": pair.id,
        "answer": pair.answer,
        **more,
        **files,
        "loudness": pair.loudness,
        "attack": pair.attack,
        **swept,
        "source:clip": pair.id,
        "source:heard_as": pair.heard_as,
    }


def _experiments(level: str, mine: Sequence[ClipPair], seed: int) -> list[dict[str, Any]]:
    """Items of three experiments of a loudness level: 12 clips of part 1, 6 pairs of part 2, all different. A
    level with fewer than 54 pairs uses some in several experiments; a listener takes part in one, and
    intervals generalise over clips."""
    rows = []
    for k in range(EXPERIMENTS):
        turn = [mine[(k * (len(mine) // EXPERIMENTS) + i) % len(mine)] for i in range(CLIPS + TRIALS)]
        ordered = [*alternating(turn[:CLIPS], seed + k), *alternating(turn[CLIPS:], seed + k)]
        for i, pair in enumerate(ordered):
            row = _row(pair, group=f"{level} {k + 1}", part=1 if i < CLIPS else 2)
            rows.append({**row, "id": f"{level}-{k + 1}-{i + 1:02d}"})
    return rows


def _write(folder: Path, template: str, name: str, seed: int, rows: list[dict[str, Any]]) -> None:
    (folder / "audio").mkdir(parents=True, exist_ok=True)
    copies: dict[Path, str] = {}
    for row in rows:
        for key in [k for k in row if k.startswith("file:")]:
            source = row[key]
            if source not in copies:
                copies[source] = f"audio/{len(copies):04d}{source.suffix}"
                shutil.copyfile(source, folder / copies[source])
            row[key] = copies[source]
    # the model's prediction is a result of the attack and no factor of the design, so it is not in the items
    known = list(
        dict.fromkeys(
            ["id", "file:clean", "file:adversarial", "answer", "group", *(k for row in rows for k in row)]
        )
    )
    there = [c for c in known if any(c in row for row in rows)]
    _table(folder / "items.csv", [c for c in there if not c.startswith("source:")], rows)
    _table(folder / "sources.csv", ["id", *(c for c in there if c.startswith("source:"))], rows)
    text = (HERE / f"{template}.yaml").read_text(encoding="utf-8")
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:64] or template
    text = re.sub(r"(?m)^name: .*$", f"name: {slug}", text)
    text = re.sub(r"(?m)^seed: 0", f"seed: {seed}", text)
    text = re.sub(r"(?m)^  code: null      ", f'  code: "{new_completion_code()}"', text)
    words = sorted({row["answer"] for row in rows})
    text = text.replace(
        "identify: true ", f"identify: {_flow(words)} "
    )  # the same choices for every experiment
    (folder / "study.yaml").write_text(text, encoding="utf-8")


def _table(path: Path, columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([c.removeprefix("source:") for c in columns])
        writer.writerows([row.get(c, "") for c in columns] for row in rows)


def _flow(words: Sequence[str]) -> str:
    import json

    return (
        "["
        + ", ".join(
            w
            if re.fullmatch(r"[A-Za-z][A-Za-z ]*", w) and w not in ("true", "false", "null")
            else json.dumps(w)
            for w in words
        )
        + "]"
    )

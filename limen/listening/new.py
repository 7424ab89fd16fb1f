"""A new study that can be served at once: a commented file from a template, a table of items, and their audio.

Clips come from a run folder, or, without one, from the embedded spoken commands, attacked here with the shipped model.
"""

import csv
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limen.audio.loudness import Loudness
from limen.errors import UserError
from limen.listening.from_run import Pair, balanced, pairs
from limen.listening.keys import new_code
from limen.listening.study import read_study

HERE = Path(__file__).parent / "templates"
LEVELS: tuple[Loudness, ...] = ("low", "medium", "high")
EXPERIMENTS, CLIPS, TRIALS = 3, 12, 6
"""Of the published study: experiments for each loudness level, clips of part 1 and trials of part 2 of each."""
COUNTS = {"mushra": 6, "same_different_jnd": 6, "seed000": len(LEVELS) * EXPERIMENTS * (CLIPS + TRIALS)}
FEW = 12
"""Pairs of the other templates."""


def templates() -> dict[str, str]:
    """Name -> what it is for, the first line of the file."""
    return {p.stem: p.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for p in sorted(HERE.glob("*.yaml"))}


def new_study(folder: Path, template: str, run: Path | None = None, attack: str | None = None, seed: int = 0) -> Path:
    """Write study.yaml, items.csv and audio/ into the folder; returns the study file. Nothing that is there is overwritten."""
    if template not in templates():
        raise UserError(f'There is no template "{template}". There are: {", ".join(templates())}.')
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise UserError(f"{folder}: is there already and not empty. Give another name, or remove it first.")
    count, by_loudness = COUNTS.get(template, FEW), template == "seed000"
    beside = folder.with_name(folder.name + ".part")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        if run is not None:
            chosen = balanced(pairs(run, attack), count, seed, by_loudness=True)
        else:
            from limen.listening.made_pairs import made_pairs

            chosen = made_pairs(beside / "made", count, LEVELS if by_loudness else LEVELS[2:], seed)
        rows = _experiments(chosen) if by_loudness else [_row(pair) for pair in chosen]
        _write(beside, template, folder.resolve().name, seed, rows)
        shutil.rmtree(beside / "made", ignore_errors=True)
        read_study(beside / "study.yaml")
        shutil.rmtree(folder, ignore_errors=True)
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder / "study.yaml"


def _row(pair: Pair, only: str | None = None, **more: Any) -> dict[str, Any]:
    files = {f"file:{which}": getattr(pair, which) for which in ("clean", "adversarial") if only in (None, which)}
    return {"id": pair.id, "answer": pair.answer, **more, **files, "loudness": pair.loudness, "attack": pair.attack,
            "heard_as": pair.heard_as}  # fmt: skip


def _experiments(chosen: Sequence[Pair]) -> list[dict[str, Any]]:
    """Items of three experiments for every loudness level there is: 12 clips of part 1, every second one adversarial, 6 pairs of part 2.
    A level with few pairs uses them in several experiments; a listener takes part in one only."""
    rows = []
    for level in LEVELS:
        mine = [p for p in chosen if p.loudness == level]
        for k in range(EXPERIMENTS if mine else 0):
            group, first = f"{level} {k + 1}", k * (CLIPS + TRIALS)
            turn = [mine[(first + i) % len(mine)] for i in range(CLIPS + TRIALS)]
            for i, pair in enumerate(turn):
                who = {"group": group, "part": 1 if i < CLIPS else 2}
                row = _row(pair, ("clean", "adversarial")[i % 2] if i < CLIPS else None, **who)
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
    columns = dict.fromkeys(["id", "file:clean", "file:adversarial", "answer", "group", *(k for row in rows for k in row)])
    with (folder / "items.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [c for c in columns if any(c in row for row in rows)])
        writer.writeheader()
        writer.writerows(rows)
    text = (HERE / f"{template}.yaml").read_text(encoding="utf-8")
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:64] or template
    text = re.sub(r"(?m)^name: .*$", f"name: {slug}", text)
    text = re.sub(r"(?m)^seed: 0", f"seed: {seed}", text)
    text = re.sub(r"(?m)^  code: null      ", f'  code: "{new_code()}"', text)
    words = sorted({row["answer"] for row in rows})
    text = text.replace("identify: true ", f"identify: {_flow(words)} ")  # the same choices for every experiment
    (folder / "study.yaml").write_text(text, encoding="utf-8")


def _flow(words: Sequence[str]) -> str:
    import json

    return "[" + ", ".join(w if re.fullmatch(r"[A-Za-z][A-Za-z ]*", w) and w not in ("true", "false", "null") else json.dumps(w)
                           for w in words) + "]"  # fmt: skip

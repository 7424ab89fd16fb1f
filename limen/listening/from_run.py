"""Pairs for a study from a run folder: clips that the model classified correctly and, attacked, wrongly,
balanced over classes and loudness."""

import csv
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.audio.loudness import Loudness, loudness, mean_db
from limen.core.errors import UserError

NAMELESS = ("silence", "unknown")
"""Classes of clips without a word of the list."""


@dataclass(frozen=True)
class ClipPair:
    """A clean clip and its adversarial one."""

    id: str
    clean: Path
    adversarial: Path
    answer: str
    """The spoken word."""
    heard_as: str
    """The model's prediction for the adversarial clip."""
    attack: str
    loudness: Loudness
    data: str = ""
    """Label of its data set in the run."""
    value: str = "none"
    """Value of a sweep: "eps 0.05"."""


def pairs(run: Path, attack: str | None = None, value: str | None = None) -> list[ClipPair]:
    """All pairs of a run in which the attack reached its goal on a clip the model had right; of one attack if
    it is named, at one value of a sweep, and of the data set that has most of them. Exported sets (`export:
    wav`) hold every clip, examples a few of each cell."""
    if not any(run.glob("cells/*/cell.json")):
        raise UserError(
            f"{run}: is not a run folder (it has no cells). `limen run FILE` makes one and prints its "
            "path at the start."
        )
    _known(run, attack, value)
    found: dict[tuple[str, str], ClipPair] = {}
    for cell, labels, swept in _attacked(run, attack, value):
        for pair in _of_cell(cell, labels["attack"], labels.get("data", ""), swept):
            found.setdefault((pair.attack, pair.id), pair)
    if not found:
        raise UserError(
            f"{run}: has no clip that the model classified correctly and the attack made wrong. "
            "Store more clips: "
            "`export: wav` in the options of the task `samples` or `accuracy` writes every pair."
        )
    # words of one data set and sentences of another do not belong in one study
    most = Counter(data for data, _ in {(pair.data, pair.id) for pair in found.values()}).most_common(1)[0][0]
    return [pair for pair in found.values() if pair.data == most]


def _attacked(
    run: Path, attack: str | None = None, value: str | None = None
) -> Iterable[tuple[Path, Mapping[str, str], str]]:
    """Folder, labels and value of a sweep of each cell that attacks clips, in the order of the run. An audit
    is a probe of the model, whose attacks belong to no condition."""
    cells = [
        (path.parent, json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(run.glob("cells/*/cell.json"))
    ]
    for cell, facts in sorted(cells, key=lambda c: c[1].get("order", 0)):
        labels = facts["labels"]
        if (
            facts.get("kind") != "clip"
            or (facts.get("task_info") or {}).get("diagnostic")
            or labels.get("attack", "none") == "none"
        ):
            continue
        swept = (
            ", ".join(f"{path.rsplit('.', 1)[-1]} {v}" for path, v in (facts.get("variable") or {}).items())
            or "none"
        )
        if attack in (None, labels["attack"]) and value in (None, swept):
            yield cell, labels, swept


def _known(run: Path, attack: str | None, value: str | None) -> None:
    """A UserError for an attack or value that the run does not have, and for several values where none is
    named."""
    attacks = sorted({labels["attack"] for _, labels, _ in _attacked(run)})
    if attack is not None and attack not in attacks:
        raise UserError(f'{run}: no attack "{attack}" on clips. There are: {", ".join(attacks) or "none"}.')
    values: dict[str, list[str]] = defaultdict(list)
    for _, labels, swept in _attacked(run, attack):
        values[labels["attack"]] += [swept] if swept not in values[labels["attack"]] else []
    there = list(dict.fromkeys(v for of_cell in values.values() for v in of_cell))
    if value is not None and value not in there:
        raise UserError(f'{run}: no value "{value}" of a sweep. There are: {", ".join(there) or "none"}.')
    if value is None and (several := [name for name, of_cell in values.items() if len(of_cell) > 1]):
        raise UserError(
            f"{run}: a sweep has several values of {', '.join(several)} ({', '.join(there)}), which one "
            "condition of a study would mix. "
            f'Name one: --value "{there[-1]}".'
        )


def _of_cell(cell: Path, attack: str, data: str, value: str) -> Iterable[ClipPair]:
    from limen.audio.files import clip_header, read_clip

    for row in _rows(cell):
        right = row["clean_prediction"] == row["label"]
        if not (
            right
            and row["adversarial_prediction"] != row["label"]
            and row["success"] in (True, "True", "1", "1.0")
        ):
            continue
        clean, adversarial = (cell / row[which] for which in ("clean", "adversarial"))
        if not clean.is_file() or not adversarial.is_file():
            raise UserError(
                f"{clean if adversarial.is_file() else adversarial}: is named by the run, but does not exist."
            )
        level = loudness(float(mean_db(read_clip(clean, clip_header(clean)[0]))))
        yield ClipPair(
            row["id"],
            clean,
            adversarial,
            row["label"],
            row["adversarial_prediction"],
            attack,
            level,
            data,
            value,
        )


def _rows(cell: Path) -> list[dict[str, Any]]:
    table = cell / "adversarial" / "table.csv"
    if table.is_file():
        renamed = {
            "text": "label",
            "clean_transcript": "clean_prediction",
            "adversarial_transcript": "adversarial_prediction",
        }
        with table.open(newline="", encoding="utf-8") as file:
            rows = [
                {renamed.get(key, key): value for key, value in row.items()} for row in csv.DictReader(file)
            ]
        return [
            {
                **row,
                "clean": f"adversarial/{row['clean']}",
                "adversarial": f"adversarial/{row['adversarial']}",
            }
            for row in rows
        ]
    path = cell / "examples.json"
    examples = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
    return [{**example, **example["files"]} for example in examples]


def balanced(found: Sequence[ClipPair], count: int, seed: int = 0) -> list[ClipPair]:
    """`count` pairs, as balanced as possible over loudness levels, within them over attacks, within these
    over classes; each clip once."""
    chance = random.Random(seed)
    cells: dict[tuple[str, ...], list[ClipPair]] = defaultdict(list)
    for pair in chance.sample(found, len(found)):
        if pair.answer not in NAMELESS:
            cells[(pair.loudness, pair.attack, pair.answer)].append(pair)
    chosen: dict[str, ClipPair] = {}
    taken: dict[tuple[int, str], int] = defaultdict(int)
    while len(chosen) < count and cells:
        # least used level first, then least used attack, then least used class: rows of the table fill up
        # evenly
        key = min(cells, key=lambda k: (*(taken[part] for part in enumerate(k)), k))
        pair = cells[key].pop()
        if not cells[key]:
            del cells[key]
        if pair.id not in chosen:
            chosen[pair.id] = pair
            for part in enumerate(key):
                taken[part] += 1
    return list(chosen.values())


def different(found: Sequence[ClipPair]) -> int:
    """Number of clips with a word; a clip attacked several times counts once."""
    return len({pair.id for pair in found if pair.answer not in NAMELESS})


def enough(run: Path, attack: str | None, value: str | None, share: float) -> str:
    """How to make a run that holds more pairs, if this one has the given share of those that are needed."""
    attacked, fooled, all_kept = 0, set[str](), True
    for cell, _, _ in _attacked(run, attack, value):
        rows = _table(cell / "rows.parquet") if (cell / "rows.parquet").is_file() else {}
        if "success" not in rows:
            continue
        all_kept &= (cell / "adversarial" / "table.csv").is_file()
        attacked = max(attacked, len(rows["id"]))
        columns = (rows[k] for k in ("id", "label", "clean_prediction", "success"))
        fooled |= {
            identity
            for identity, word, predicted, success in zip(*columns, strict=True)
            if predicted == word and success and word not in NAMELESS
        }
    limits = f"raise `limit` of its data and `limit_samples` of its task (at most {attacked} now"
    if all_kept:
        about = math.ceil(1.2 * attacked / share / 10) * 10 if share else 0
        return (
            f"To get more: {limits}{f', about {about} are needed' if about else ''}). Then `limen run` "
            "it again."
        )
    return (
        f"To get more: of {len(fooled)} such clips the run kept only a few examples of each cell: raise "
        "`examples:` of the experiment, or keep every pair by `export: wav` in the options of its task; if "
        f"that is not enough, {limits}). Then `limen run` it again."
    )


def _table(path: Path) -> dict[str, list[Any]]:
    import pyarrow.parquet as pq

    table: dict[str, list[Any]] = pq.read_table(path).to_pydict()
    return table

"""Tables of same/different judgments of pairs, for training a metric: written from a study, and read.

One line per answer: reference, test, label (1: "different"), listener, axis, strength, excluded, item,
response_ms; the codebook next to the table explains them. The clips are the samples that were played, after
every effect but dither, as 16-bit WAV files named by their content; equal clips are written once. Tables with
only the first three columns, with or without a heading, separated by tabs or commas, can be read too: those
of Manocha et al. 2020, https://arxiv.org/abs/2001.04460.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.core.atomic import write_atomic
from limen.core.errors import UserError
from limen.listening.analysis.columns import JUDGMENTS, write_codebook
from limen.listening.analysis.export import safe
from limen.listening.study import Study
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type, trial_types

TABLE = "judgments.tsv"


@dataclass(frozen=True)
class Judgment:
    reference: Path
    test: Path
    label: int
    """1: different, 0: same."""
    listener: str = ""
    axis: str = ""
    strength: float | None = None
    excluded: bool = False
    """A rule of the study excludes the listener."""
    item: str = ""
    response_ms: float | None = None
    """Time from showing the pair to the answer."""


COLUMNS = list(JUDGMENTS)


def jnd_table(
    rows: Sequence[Mapping[str, Any]], folder: str | Path, study: Study, source: str | Path
) -> Path:
    """Write the judgments of a study's adaptive pairs into `folder` and return the path of the table. `rows`
    are those of limen.listening.analysis.export, `source` is the folder of the study file. Sentinels and
    training trials are left out; excluded listeners are marked."""
    from limen.listening.design import screens
    from limen.listening.stimuli import Stimuli, digest

    folder = Path(folder)
    different = {name: trial_type(name).signal for name in trial_types("tracks_thresholds")}
    selected = [
        row
        for row in rows
        if row["kind"] in different and row["role"] == "trial" and row["choice"] is not None
    ]
    if not selected:
        raise UserError(
            f"{study.name}: there are no judgments of pairs to write; they come from the trial types "
            f"{', '.join(different)}."
        )
    exact = study.model_copy(update={"dither": False})
    stimuli = Stimuli(exact, Path(source), Path(source) / ".limen_sounds")  # the cache of the server
    folder.mkdir(parents=True, exist_ok=True)
    planned: dict[int, list[Screen]] = {}
    lines = []
    for row in selected:
        if row["listener"] not in planned:
            planned[row["listener"]] = screens(study, row["group"], row["number"])
        screen = planned[row["listener"]][row["position"]].at(float(row["strength"]))
        names = {}
        for sound, wav in zip(screen.sounds, stimuli.sounds(screen, study.seed), strict=True):
            names[sound.condition] = f"{digest(wav)[:24]}.wav"
            if not (folder / names[sound.condition]).is_file():
                write_atomic(folder / names[sound.condition], wav)
        signal = different[row["kind"]]
        label = int(signal is not None and row["choice"] == signal.answer)
        copied = {name: row[name] for name in COLUMNS if name in row}
        lines.append(copied | {"reference": names["reference"], "test": names["test"], "label": label})
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, delimiter="\t")
    writer.writeheader()
    writer.writerows({name: safe(value) for name, value in line.items()} for line in lines)
    write_codebook(folder / TABLE, JUDGMENTS)
    return write_atomic(folder / TABLE, text.getvalue().encode())


def read_jnd(path: str | Path) -> list[Judgment]:
    """The judgments of a table; clips are relative to its folder."""
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such table of judgments.")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(
            f"{path}: is no text in UTF-8; a table of judgments (reference, test, label) was expected."
        ) from None
    separator = "\t" if "\t" in text.partition("\n")[0] else ","
    lines = [line for line in csv.reader(io.StringIO(text, newline=""), delimiter=separator) if line]
    heading = [cell.strip() for cell in lines[0]] if lines else []
    if {"reference", "test", "label"} <= set(heading):
        lines = lines[1:]
    else:
        heading = COLUMNS[: len(heading)]
    return [_judgment(dict(zip(heading, line, strict=False)), path, n) for n, line in enumerate(lines, 1)]


def _judgment(cells: Mapping[str, str], path: Path, n: int) -> Judgment:
    label, strength, took = (cells.get(name, "").strip() for name in ("label", "strength", "response_ms"))
    try:
        if label not in ("0", "1", "0.0", "1.0") or not cells["reference"] or not cells["test"]:
            raise ValueError
        level, took_ms = (float(number) if number else None for number in (strength, took))
    except ValueError:
        raise UserError(
            f"{path}: judgment {n} holds {dict(cells)}; expected a reference, a test, a label of 0 (same) or "
            "1 (different), and perhaps listener, axis, strength, excluded, item, response_ms."
        ) from None
    where, excluded = path.parent, cells.get("excluded", "").lower() in ("true", "1")
    return Judgment(
        where / cells["reference"],
        where / cells["test"],
        int(float(label)),
        cells.get("listener", ""),
        cells.get("axis", ""),
        level,
        excluded,
        cells.get("item", ""),
        took_ms,
    )

"""Adversarial samples from files, made elsewhere or exported by an earlier run: read by id from a table, so
that every task and metric can evaluate them.

The table (CSV or TSV) has a column `id` with the ids of the data and a column with the path of the file,
relative to the table; the export of the tasks accuracy and samples is one. There is no search, so there is no
budget, and the goal only defines success. The clean samples that belong to an exported set are data too:
{name: transcripts, path: table.csv, audio_column: clean}.
"""

from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem
from limen.audio.files import clip_header, read_clip
from limen.core.errors import UserError
from limen.data.base.tables import find_column, read_rows
from limen.images.files import read_picture


class Imported(AttackOptions):
    example: ClassVar[dict[str, Any]] = {"table": "adversarial/table.csv"}

    own_limit: ClassVar[bool] = True
    """The size of the changes is given by the files."""
    changes_every_sample: ClassVar[bool] = True
    """Samples are used unchanged, whether or not the clean ones reach the goal."""
    uses_gradients: ClassVar[bool] = False
    searches: ClassVar[bool] = False

    table: str
    """A .csv or .tsv file."""
    column: str = "adversarial"
    """Column with the path of the adversarial file."""
    id_column: str = "id"
    """Column with the ids of the data."""

    def cost(self, classes: int | None = None) -> float:
        return 0.0


def imported(problem: Problem, options: Imported) -> Tensor:
    if problem.budget is not None:
        raise UserError(
            "The attack imported uses samples unchanged and keeps no budget: leave the budget out. "
            "The metrics report how large the changes are; constrained_accuracy scales them."
        )
    files = _files(Path(options.table).expanduser(), options)
    x_adv = torch.zeros_like(problem.x)
    for i, name in enumerate(problem.ids):
        if name not in files:
            some = ", ".join(list(files)[:3])
            raise UserError(
                f"{options.table}: has no row with the id {name!r}. Its ids: "
                f"{some}{', ...' if len(files) > 3 else ''}. The data must be the one the set was made from, "
                "or the table's own clean files."
            )
        if problem.x.dim() == 2:
            n = problem.x.shape[1] if problem.lengths is None else int(problem.lengths[i])
            x_adv[i, :n] = _clip(files[name], n, problem.model.rate_hz).to(x_adv)
        else:
            x_adv[i] = _picture(files[name], tuple(problem.x.shape[1:])).to(x_adv)
    return x_adv


def _files(table: Path, options: Imported) -> dict[str, Path]:
    """Id -> file."""
    if not table.is_file():
        raise UserError(
            f"{table}: there is no such file; a .csv or .tsv table of adversarial samples was expected."
        )
    columns, rows = read_rows(table)
    path_column = find_column(table, columns, options.column, (), "column")
    id_column = find_column(table, columns, options.id_column, (), "id_column")
    files: dict[str, Path] = {}
    for number, row in rows:
        if row[id_column] in files:
            raise UserError(
                f"{table}: line {number} repeats the id {row[id_column]!r}; one adversarial sample per id "
                "was expected."
            )
        files[row[id_column]] = table.parent / row[path_column]
    return files


def _clip(path: Path, n: int, rate_hz: int | None) -> Tensor:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file, but the table of adversarial samples names it.")
    own_hz, _ = clip_header(path)
    if rate_hz is not None and own_hz != rate_hz:
        # resampling would change the perturbation, and what it does to the model
        raise UserError(
            f"{path}: has {own_hz} samples a second, but the model takes {rate_hz}. Resample the set with "
            "the tool that made it."
        )
    x = read_clip(path, own_hz)
    if len(x) != n:
        raise UserError(
            f"{path}: has {len(x)} samples, but the clean clip has {n}: they cannot be compared sample by "
            "sample. Export the set with its clean clips, or judge it as data of its own, without an attack."
        )
    return x


def _picture(path: Path, shape: tuple[int, ...]) -> Tensor:
    if not path.is_file():
        raise UserError(f"{path}: there is no such file, but the table of adversarial samples names it.")
    x = read_picture(path, 1 if shape[0] == 1 else 3)
    if tuple(x.shape) != shape:
        raise UserError(f"{path}: has the shape {tuple(x.shape)}, but the clean picture has {shape}.")
    return x

"""Curves of accuracy or word error rate against the size of the change, read from a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from limen.report.run import CellResult, number
from limen.report.worst_case.cells import NAME, Together, along

RESULT = {"wer": ("wer", "wer_low", "wer_high"), "accuracy": ("accuracy", "low", "high")}
"""Keys of a curve's values and of their interval."""
COLUMN = {"wer": "wer", "accuracy": "correct"}
"""The column of the cells of a sweep that holds the same."""

Numbers = Sequence[float | None]


@dataclass(frozen=True)
class Curve:
    cell: CellResult
    x: Sequence[float]
    y: Numbers
    low: Numbers
    high: Numbers
    name: str
    """The attack, or the name of the control."""
    noise: bool = False

    @property
    def place(self) -> tuple[str, str]:
        return self.cell.net, self.cell.defense


def measured(cell: CellResult) -> str:
    """What a curve of the cell shows: the word error rate of a recogniser, or accuracy."""
    has = cell.curve if cell.curve else cell.columns
    return "wer" if cell.output == "transcript" and "wer" in has else "accuracy"


def constrained_curves(cells: Sequence[CellResult], what: str) -> list[Curve]:
    """The curves of cells that hold a result at each value of a constraint, and of all attacks together."""
    unions = [(u, u.column(COLUMN[what])) for u in along(cells)]
    found = [Curve(u.cells[0], u.values, *columns, NAME) for u, columns in unions if None not in columns[0]]
    return found + [curve for cell in cells for curve in _of_result(cell, what)]


def _of_result(cell: CellResult, what: str) -> list[Curve]:
    """The curve of a cell, and that of the noise that its task tried along with the attack."""
    out = []
    control = None if cell.control else cell.curve.get("control")
    for result, name, noise in (
        (cell.curve, cell.attack, cell.control),
        (control, _noise_name(control), True),
    ):
        if not isinstance(result, dict) or not result.get(RESULT[what][0]):
            continue
        order = sorted(range(len(cell.curve["values"])), key=lambda k: float(cell.curve["values"][k]))
        y, low, high = (
            [number((result.get(key) or {k: None for k in order})[k]) for k in order] for key in RESULT[what]
        )
        out.append(Curve(cell, [float(cell.curve["values"][k]) for k in order], y, low, high, name, noise))
    return out


def _noise_name(control: object) -> str:
    return str(control.get("name") or "noise") if isinstance(control, dict) else "noise"


def swept_curves(cells: Sequence[CellResult], key: str, unions: Sequence[Together], what: str) -> list[Curve]:
    """The curves through the cells of a sweep of one option, and through all attacks together."""
    found = _of_unions([u for u in unions if tuple(u.variable) == (key,)], key, what)
    for net, defense, attack in dict.fromkeys((c.net, c.defense, c.attack) for c in cells):
        selected = [c for c in cells if (c.net, c.defense, c.attack) == (net, defense, attack)]
        selected.sort(key=lambda c: float(c.variable[key]))
        mean, low, high = zip(*(c.stat(COLUMN[what]) for c in selected), strict=True)
        x = [float(c.variable[key]) for c in selected]
        found.append(Curve(selected[0], x, mean, low, high, attack, selected[0].control))
    return found


def _of_unions(unions: Sequence[Together], key: str, what: str) -> list[Curve]:
    out = []
    for place in dict.fromkeys((u.net, u.defense) for u in unions):
        selected = [u for u in unions if (u.net, u.defense) == place and number(u.variable[key]) is not None]
        selected.sort(key=lambda u: float(u.variable[key]))
        mean, low, high = (
            zip(*(u.stat(COLUMN[what]) for u in selected), strict=True) if selected else ((), (), ())
        )
        if selected and None not in mean:
            out.append(
                Curve(selected[0].cells[0], [float(u.variable[key]) for u in selected], mean, low, high, NAME)
            )
    return out

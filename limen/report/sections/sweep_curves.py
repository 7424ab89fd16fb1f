"""Accuracy or word error rate against the values of a sweep, with noise of the same size."""

from limen.report.blocks import Block, Section
from limen.report.curves.curve import COLUMN, measured, swept_curves
from limen.report.curves.figures import curve_figures
from limen.report.parts import Part
from limen.report.run import CellResult, number


def sweep_curves(part: Part) -> Section | None:
    swept = [c for c in part.rated if len(c.variable) == 1]
    blocks: list[Block] = []
    for key in dict.fromkeys(k for c in swept for k in c.variable):
        group = [c for c in swept if number(c.variable.get(key)) is not None and _rate(c) is not None]
        if len({c.variable[key] for c in group}) < 2:
            continue
        option, what = key.rsplit(".", 1)[-1], measured(group[0])
        clean = {
            (c.net, c.defense): r for c in part.rated if c.attack == "none" and (r := _rate(c)) is not None
        }
        curves = swept_curves(group, key, part.unions, what)
        blocks += curve_figures(curves, what, option, _axis(group[0], key), part.colours, "", clean)
    return Section(blocks=blocks, order=120) if blocks else None


def _rate(cell: CellResult) -> float | None:
    return cell.value(COLUMN[measured(cell)])


def _axis(cell: CellResult, key: str) -> str:
    """The label that the budget declares, if its bound is swept; otherwise the path of the option."""
    info = cell.budget_info
    return str(info.get("heading") or key) if key == f"attack.budget.{info.get('option')}" else key

"""Accuracy or word error rate at each value of a constraint, with noise of the same size."""

from limen.report.blocks import Block, Section
from limen.report.curves.curve import constrained_curves as curves_of
from limen.report.curves.curve import measured
from limen.report.curves.figures import curve_figures
from limen.report.formatting import fmt
from limen.report.parts import Part


def constrained_curves(part: Part) -> Section | None:
    cells = [c for c in part.cells if c.curve]
    blocks: list[Block] = []
    for constraint, what in dict.fromkeys((str(c.curve["constraint"]), measured(c)) for c in cells):
        group = [c for c in cells if (str(c.curve["constraint"]), measured(c)) == (constraint, what)]
        equal = len({c.n for c in group}) == 1
        samples = f" n = {fmt(group[0].n, 'n')} samples at each value." if equal else ""
        axis = str(group[0].curve_info.get("heading") or constraint)
        curves = curves_of(group, what)
        blocks += curve_figures(curves, what, constraint, axis, part.colours, samples)
    return Section(blocks=blocks, order=130) if blocks else None

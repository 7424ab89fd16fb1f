"""The parts of a run: cells of one task on one kind of sample and output, which are compared with each
other."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from limen.report.embedded.choose import choose
from limen.report.rating import harm
from limen.report.run import CellResult, Run
from limen.report.svg.lines import CONTROL
from limen.report.worst_case.cells import Together, together

SUBJECTS = {
    ("picture", "class"): "Images",
    ("clip", "class"): "Clips",
    ("clip", "transcript"): "Speech to text",
}


@dataclass
class Part:
    """What a section of a part of the run is made from."""

    number: int
    title: str
    cells: list[CellResult]
    colours: dict[str, int]
    """Attack -> colour; the same on the entire page."""
    chosen: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Cell -> the examples that are embedded in the page."""

    @cached_property
    def rated(self) -> list[CellResult]:
        """Cells with one number for the model: an accuracy or a word error rate."""
        return [c for c in self.cells if harm(c) is not None]

    @cached_property
    def unions(self) -> list[Together]:
        """All attacks together, for each budget that two attacks or more had."""
        return together(self.rated)

    @property
    def clips(self) -> bool:
        return self.cells[0].kind == "clip"


def parts(run: Run) -> list[Part]:
    """The parts of a run, in the order of its tasks."""
    colours = attack_colours(run.done)
    chosen = choose([c for c in run.done if c.attack != "none"], run.examples, run.megabytes)
    groups: dict[tuple[Any, ...], list[CellResult]] = {}
    for cell in run.done:
        groups.setdefault((cell.task_index, cell.task, cell.kind, cell.output), []).append(cell)
    titles = [_title(cells[0]) for cells in groups.values()]
    repeated = Counter(titles)
    return [
        Part(k, f"{t} (task {c[0].task_index + 1})" if repeated[t] > 1 else t, c, colours, chosen)
        for k, (t, c) in enumerate(zip(titles, groups.values(), strict=True), 1)
    ]


def attack_colours(cells: Sequence[CellResult]) -> dict[str, int]:
    """Each attack keeps its colour on the entire page; the noise control is grey."""
    names = dict.fromkeys(c.attack for c in cells if c.attack != "none" and not c.control)
    return {name: k for k, name in enumerate(names)} | {c.attack: CONTROL for c in cells if c.control}


def _title(cell: CellResult) -> str:
    subject = SUBJECTS.get((str(cell.kind), str(cell.output)), "Results")
    return f"{subject}: {cell.task_info.get('title') or cell.task.replace('_', ' ')}"

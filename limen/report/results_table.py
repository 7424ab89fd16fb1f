"""The table of results: one row per net, defence and attack, and one for all attacks of a budget together."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from limen.report.blocks import Cell, Group, Heading, Row, Table
from limen.report.columns import Declared, headlines
from limen.report.formatting import DASH, fmt, interval, variable_text
from limen.report.rating import worst_ids
from limen.report.run import CellResult
from limen.report.svg.lines import interval_dot
from limen.report.worst_case.budgets import in_words
from limen.report.worst_case.cells import NAME, Together

SUCCESS_OF = {True: "of those right before", False: "of those not at the goal before"}
"""The samples that the share of successes is taken of: if all attacks want any wrong output, and
otherwise."""


class Results:
    """Builds the table of some cells. Columns that no cell has are left out."""

    def __init__(self, cells: Sequence[CellResult], unions: Sequence[Together], label: str):
        self.cells, self.label = cells, label
        ids = {c.id for c in cells}
        self.unions = [u for u in unions if any(c.id in ids and c.variable == u.variable for c in u.cells)]
        self.columns = headlines(cells)
        self.accuracy = any("correct" in c.columns for c in cells)
        self.success = any("success" in c.columns for c in cells)
        self.varied = any(c.variable for c in cells)
        self.worst = worst_ids(cells)

    def table(self, caption: str | Markup = "") -> Table:
        groups = []
        for net in dict.fromkeys(c.net for c in self.cells):
            rows: list[Row] = []
            for defense in dict.fromkeys(c.defense for c in self.cells if c.net == net):
                group = [c for c in self.cells if (c.net, c.defense) == (net, defense)]
                rows += [self._row(c, first=c is group[0], top=not rows) for c in group]
                unions = [u for u in self.unions if (u.net, u.defense) == (net, defense)]
                rows += [self._union(u) for u in unions]
            groups.append(Group(rows, net))
        return Table("", self._headings(), groups, caption, label=self.label, style="main", heading_column=1)

    def _headings(self) -> list[Heading]:
        headings = [Heading("Defence", number=False), Heading("Attack", number=False)]
        headings += [Heading("Varied", number=False)] if self.varied else []
        headings.append(Heading("n"))
        if self.accuracy:
            recogniser = self.cells[0].output == "transcript"
            headings.append(Heading("Exact transcript" if recogniser else "Accuracy", small="of all n"))
            headings.append(Heading("95\u202f% interval", number=False))
        if self.success:
            untargeted = all(
                c.goal["name"] == "untargeted" and c.goal.get("away_from") != "prediction" for c in self.cells
            )
            meaning = "the attack reached its goal, on samples that were not there before"
            headings.append(Heading("Success", meaning, SUCCESS_OF[untargeted]))
        return headings + [Heading(c.heading, c.meaning, c.figure) for c in self.columns]

    def _row(self, cell: CellResult, first: bool, top: bool) -> Row:
        tag = Markup(' <span class="tag">worst</span>') if cell.id in self.worst else Markup("")
        tag += Markup(' <span class="tag quiet">control</span>') if cell.control else Markup("")
        attack = Markup("{}{}").format("none (clean)" if cell.attack == "none" else cell.attack, tag)
        kinds = (("worst", cell.id in self.worst), ("first", first and not top))
        columns = [Cell(*column.shown(cell)) for column in self.columns]
        return Row(
            [
                _defense(cell.defense, first),
                Cell(attack),
                *([Cell(variable_text(cell.variable))] if self.varied else []),
                Cell(fmt(cell.n, "n")),
                *self._rated(cell.stat("correct"), cell.columns.get("success")),
                *columns,
            ],
            " ".join(kind for kind, applies in kinds if applies),
        )

    def _union(self, union: Together) -> Row:
        attacks = ", ".join(_called(c, union) for c in union.cells)
        name = Markup(
            '{} <span class="tag quiet" title="{}">{}</span> <small class="muted">{}</small>'
        ).format(NAME, attacks, worst_of([union]), union.budget)
        return Row(
            [
                _defense(union.defense, False),
                Cell(name),
                *([Cell(variable_text(union.variable))] if self.varied else []),
                Cell(fmt(union.n, "n")),
                *self._rated(union.stat("correct"), union.columns.get("success")),
                *(_union_cell(column, union) for column in self.columns),
            ],
            "together",
        )

    def _rated(self, correct: tuple[Any, Any, Any], success: dict[str, Any] | None) -> list[Cell]:
        cells = []
        if self.accuracy:
            mean, low, high = correct
            dot = Markup("{}<span>{}</span>").format(interval_dot(mean, low, high), interval(low, high))
            cells += [Cell(fmt(mean, "%"), style="strong"), Cell(dot, style="ci")]
        if self.success:
            cells.append(_success(success))
        return cells


def _defense(name: str, first: bool) -> Cell:
    """The name is written once; the rows below repeat it for screen readers and for copying."""
    return Cell(name if first else Markup('<span class="ditto">{}</span>').format(name))


def _success(stat: dict[str, Any] | None) -> Cell:
    if not stat:
        return Cell(DASH)
    return Cell(fmt(stat["mean"], "%"), f"{fmt(stat['count'], 'n')} of {fmt(stat['n'], 'n')}")


def _union_cell(column: Declared, union: Together) -> Cell:
    if column.median or column.name not in union.columns:
        return Cell(DASH)
    value, low, high = union.stat(column.name)
    return Cell(fmt(value, column.format), interval(low, high, column.format))


def _called(cell: CellResult, union: Together) -> str:
    """The attack, with what distinguishes it from the others of the union."""
    own = {k: v for k, v in cell.variable.items() if k not in union.variable}
    name = cell.attack + (f" ({variable_text(own)})" if own else "")
    if not cell.limit:
        return f"{name}, samples whose change fits the budget"
    return name if cell.limit == union.limit else f"{name} under {in_words(cell)}"


def worst_of(unions: Sequence[Together]) -> str:
    """worst of 3, or of 2–3 if the number varies."""
    counts = sorted({len(u.cells) for u in unions})
    return f"worst of {'–'.join(str(k) for k in dict.fromkeys((counts[0], counts[-1])))}"

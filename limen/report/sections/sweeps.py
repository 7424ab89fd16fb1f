"""Accuracy or word error rate for each value of a sweep, one row per net, defence and attack."""

from collections.abc import Sequence

from markupsafe import Markup

from limen.report.blocks import Block, Cell, Group, Heading, Row, Section, Table
from limen.report.formatting import fmt, interval, variable_text
from limen.report.parts import Part
from limen.report.results_table import worst_of
from limen.report.run import CellResult
from limen.report.worst_case.cells import NAME, Together

WORDS = {"wer": "Word error rate", "correct": "Accuracy"}


def sweeps(part: Part) -> Section | None:
    tables: list[Block] = [_table(part, options) for options in swept_options(part)]
    return Section(blocks=tables, order=40) if tables else None


def swept_options(part: Part) -> list[tuple[str, ...]]:
    """The options that were given two values or more, each set of them once."""
    found = dict.fromkeys(tuple(c.variable) for c in part.rated if c.variable)
    return [options for options in found if len(_values(part, options)) > 1]


def _values(part: Part, options: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(variable_text(c.variable) for c in part.rated if tuple(c.variable) == options))


def _table(part: Part, options: tuple[str, ...]) -> Table:
    group = [c for c in part.rated if tuple(c.variable) == options]
    values, column = _values(part, options), group[0].rated_by
    rows = []
    for net, defense in dict.fromkeys((c.net, c.defense) for c in group):
        selected = [c for c in group if (c.net, c.defense) == (net, defense)]
        for attack in dict.fromkeys(c.attack for c in selected):
            cells = _cells([c for c in selected if c.attack == attack], values, column)
            rows.append(Row([net, defense, attack, *cells]))
        unions = [u for u in part.unions if (u.net, u.defense, tuple(u.variable)) == (net, defense, options)]
        if unions:
            name = Markup('{} <span class="tag quiet">{}</span>').format(NAME, worst_of(unions))
            rows.append(Row([net, defense, name, *_cells(unions, values, column)]))
    names = [Heading(text, number=False) for text in ("Model", "Defence", "Attack")]
    title = f"{WORDS[column]} by {', '.join(options)}"
    return Table(title, names + [Heading(v) for v in values], [Group(rows)], heading_column=2)


def _cells(cells: Sequence[CellResult | Together], values: list[str], column: str) -> list[Cell]:
    """One per value of the sweep; empty if there is no cell with it."""
    stats = {variable_text(c.variable): c.stat(column) for c in cells}
    return [Cell(fmt(stats[v][0], "%"), interval(*stats[v][1:])) if v in stats else Cell("") for v in values]

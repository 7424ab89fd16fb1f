"""All attacks on one model combined into one attacker: a sample counts as right only if no attack made it
wrong. Computed from rows, by id.

Attacks are taken together if net, data, defence, samples, budget and the values of a sweep are the same. An
attack under a smaller budget of the same kind also belongs to every larger one, because its changes are
allowed there. An attack that does not have the swept option belongs to every value of the sweep. An attack
without a budget counts for the samples whose change fits the budget, if the rows hold the size of that
change. A sample that was wrong before any attack is wrong; the noise control is no attack.

The union keeps one row per sample, the worst that any attack did to it, and summarises these rows like those
of a cell. So its accuracy is never above that of an attack in it; for a clip the largest number of errors
counts, over the same words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.metrics.base.summary import figure
from limen.report.run import CellResult, read_run
from limen.report.worst_case.budgets import counts, in_words, within
from limen.report.worst_case.rows import key, rows_at, rows_by_id, summary, worst_rows

NAME = "all attacks together"

Rate = tuple[float | None, float | None, float | None]
"""Mean and 95 % interval."""


@dataclass(frozen=True)
class Together:
    """Several attacks on one net behind one defence."""

    cells: list[CellResult]
    first: CellResult
    """One with the largest budget of them."""
    n: int
    columns: dict[str, dict[str, Any]]
    """Summaries like those of a cell. correct: right under every attack. success: some attack reached its
    goal. fooled: some attack changed the prediction. wer, cer: the most errors that any attack caused in each
    clip."""

    @property
    def net(self) -> str:
        return self.cells[0].net

    @property
    def defense(self) -> str:
        return self.cells[0].defense

    @property
    def limit(self) -> dict[str, Any]:
        """The largest budget of them."""
        return self.first.limit

    @property
    def variable(self) -> dict[str, Any]:
        return self.first.variable

    @property
    def budget(self) -> str:
        """The largest budget in a few words: L∞ ≤ 0.1."""
        return in_words(self.first)

    def stat(self, column: str) -> Rate:
        return figure(self.columns[column]) if column in self.columns else (None, None, None)


@dataclass(frozen=True)
class Along:
    """The same at each value of a constraint."""

    cells: list[CellResult]
    values: list[float]
    columns: list[dict[str, dict[str, Any]]]
    """Summaries, one for each value: of the attacks at this size and at every smaller one."""

    def column(self, name: str) -> tuple[list[float | None], list[float | None], list[float | None]]:
        found = [figure(columns[name]) if name in columns else (None, None, None) for columns in self.columns]
        return [r[0] for r in found], [r[1] for r in found], [r[2] for r in found]


def together(cells: Sequence[CellResult]) -> list[Together]:
    """One for each model, budget and value of a sweep with two attacks or more."""
    models: dict[str, list[CellResult]] = {}
    for cell in (c for c in _attacks(cells) if not c.curve):
        models.setdefault(_model(cell), []).append(cell)
    return [
        found
        for attacks in models.values()
        for first in _firsts(attacks)
        if (found := _group(attacks, first)) is not None
    ]


def _firsts(attacks: list[CellResult]) -> list[CellResult]:
    """The first cell of every budget and value of the sweep. A cell without the swept option has no value of
    it."""
    out: dict[str, CellResult] = {}
    for cell in (c for c in attacks if c.limit):
        if not any(c.limit == cell.limit and cell.variable.items() < c.variable.items() for c in attacks):
            out.setdefault(key(cell.limit, cell.variable), cell)
    return list(out.values())


def _group(attacks: list[CellResult], first: CellResult) -> Together | None:
    here = _other_variables(first).items()
    same = _same_samples(
        [c for c in attacks if _other_variables(c).items() <= here and counts(c, first)], first
    )
    if len({_search(c) for c in same}) < 2:
        return None  # one attack at several budgets is no union
    goals = {key(c.goal) for c in same if c.limit == first.limit}
    worst = worst_rows([(c, rows_by_id(c, within(c, first))) for c in same], goals)
    return Together(same, first, len(worst), summary(worst))


def _other_variables(cell: CellResult) -> dict[str, Any]:
    """The values of the sweep apart from those of the budget."""
    return {
        k: v for k, v in cell.variable.items() if k != "attack.budget" and not k.startswith("attack.budget.")
    }


def _same_samples(cells: Sequence[CellResult], first: CellResult) -> list[CellResult]:
    """Cells on the same samples as the first, if it has any: rates of other samples cannot be compared."""
    ids = set(first.rows.get("id", []))
    return [c for c in cells if ids and set(c.rows.get("id", [])) == ids]


def _search(cell: CellResult) -> str:
    """The attack apart from its budget."""
    return key(cell.attack, {k: v for k, v in cell.attack_spec.items() if k != "budget"})


def along(cells: Sequence[CellResult]) -> list[Along]:
    """One for each model and constraint with the curves of two attacks or more."""
    groups: dict[str, list[CellResult]] = {}
    for cell in (c for c in _attacks(cells) if c.curve):
        groups.setdefault(
            key(_model(cell), cell.curve["constraint"], cell.curve["values"], cell.variable), []
        ).append(cell)
    out = []
    for group in (_same_samples(g, g[0]) for g in groups.values()):
        if len(group) < 2:
            continue
        values, goals = sorted(float(v) for v in group[0].curve["values"]), {key(c.goal) for c in group}
        sign = 1 if group[0].curve_info.get("larger_is_stronger", True) else -1
        at = {v: [(c, rows_at(c, v)) for c in group] for v in values}
        worst = [
            worst_rows([m for v in values if sign * v <= sign * value for m in at[v]], goals)
            for value in values
        ]
        out.append(Along(group, values, [summary(rows) for rows in worst]))
    return out


def all_together(run_folder: Path) -> list[dict[str, Any]]:
    """The numbers of a run folder in plain form: {n, columns, ...} of every budget, {constraint, values,
    accuracy, ...} of every curve."""
    cells = read_run(run_folder).done
    tables = [
        {
            "net": u.net,
            "defense": u.defense,
            "attack": f"{NAME} (worst of {len(u.cells)})",
            "budget": u.budget,
            "variable": u.variable,
            "n": u.n,
            "columns": u.columns,
        }
        for u in together(cells)
    ]
    curves = [
        {
            "net": a.cells[0].net,
            "defense": a.cells[0].defense,
            "attack": f"{NAME} (worst of {len(a.cells)})",
            "constraint": a.cells[0].curve["constraint"],
            "values": a.values,
            "accuracy": a.column("correct")[0],
        }
        for a in along(cells)
    ]
    return tables + curves


def _attacks(cells: Sequence[CellResult]) -> list[CellResult]:
    return [
        c
        for c in cells
        if c.done and not c.diagnostic and c.attack != "none" and not c.control and not c.victims
    ]


def _model(cell: CellResult) -> str:
    """What identifies the attacked model: the task, the net and its data, the defence."""
    return key(cell.task_index, cell.net, cell.spec.get("net"), cell.defense, cell.spec.get("defense"))

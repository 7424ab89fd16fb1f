"""All attacks on one model taken as one attacker: a sample counts as right only if no attack made it wrong.
Computed from rows, by id.

Attacks are taken together if net, data, defence, samples, budget and the values of a sweep are the same. An
attack under a smaller budget of the same kind belongs to every larger one, which allows whatever the smaller
one does. An attack that an option of the sweep does not concern stands beside every value of it. An attack
without a budget counts sample by sample, where the change it made fits the budget, if the rows say how large
that change is. A sample that was wrong before any attack is wrong; the noise control is no attack.

The union keeps one row per sample, the worst that any attack did to it, and summarises these rows as every
cell does. So it is never better for the model than an attack in it: of each clip the most errors count, over
the same words.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.core.text import normalised
from limen.metrics.base.error_rates import rate_columns
from limen.metrics.base.summary import figure, summarise
from limen.report.formatting import fmt, variable_text
from limen.report.run import CellResult, number, read_run
from limen.report.transcripts import how_compared
from limen.tasks.base.columns import TASK_COLUMNS

NAME = "all attacks together"
SIZES = {
    "linf": ("eps", "linf", 1),
    "l2": ("eps", "l2", 1),
    "l1": ("eps", "l1", 1),
    "l0": ("count", "l0", 1),
    "snr": ("snr_db", "snr_db", -1),
    "peak_db": ("peak_db", "peak_db", 1),
}
"""Budget -> its option, the column that measures the same thing, and -1 where larger is quieter."""
WORDS = {
    "linf": "L∞ ≤ {}",
    "l2": "L2 ≤ {}",
    "l1": "L1 ≤ {}",
    "l0": "L0 ≤ {}",
    "snr": "SNR ≥ {} dB",
    "peak_db": "peak ≤ {} dB",
}
ROUNDING = 1e-6
"""A change may be larger than the budget by this share of it: norms are computed in single precision."""
RATES = {"wer": "word", "cer": "character"}
COLUMNS = {name: TASK_COLUMNS[name] for name in ("correct", "success", "fooled")} | {
    r: rate_columns(r, unit)[r] for r, unit in RATES.items()
}
"""What can be said of all attacks together."""

Rate = tuple[float | None, float | None, float | None]
"""Mean and 95 % interval."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Together:
    """Several attacks on one net behind one defence."""

    cells: list[CellResult]
    limit: dict[str, Any]
    """The budget of the largest of them."""
    variable: dict[str, Any]
    n: int
    columns: dict[str, dict[str, Any]]
    """Summaries as those of a cell. correct: right under every attack. success: some attack brought the
    sample to its goal. fooled: some attack changed the answer. wer, cer: of each clip the most errors that
    any attack made."""

    @property
    def net(self) -> str:
        return self.cells[0].net

    @property
    def defense(self) -> str:
        return self.cells[0].defense

    @property
    def budget(self) -> str:
        return in_words(self.limit)

    def stat(self, column: str) -> Rate:
        return figure(self.columns[column]) if column in self.columns else (None, None, None)


@dataclass(frozen=True)
class Along:
    """The same along the values of a constraint (task constrained_accuracy)."""

    cells: list[CellResult]
    values: list[float]
    columns: list[dict[str, dict[str, Any]]]
    """Summaries, one for each value: of the attacks at this size and at every smaller one."""

    def column(self, name: str) -> tuple[list[float | None], list[float | None], list[float | None]]:
        found = [figure(columns[name]) if name in columns else (None, None, None) for columns in self.columns]
        return [r[0] for r in found], [r[1] for r in found], [r[2] for r in found]


def in_words(limit: dict[str, Any]) -> str:
    """A budget in a few words: L∞ ≤ 0.1."""
    name = str(limit.get("name") or "")
    if name in SIZES and number(limit.get(SIZES[name][0])) is not None:
        return WORDS[name].format(fmt(float(limit[SIZES[name][0]])))
    return " ".join(
        part for part in (name, variable_text({k: v for k, v in limit.items() if k != "name"})) if part
    )


def together(cells: Sequence[CellResult]) -> list[Together]:
    """One for each model, budget and value of a sweep that met two attacks or more."""
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
    """The first cell of every budget and value of the sweep. A cell that the sweep does not concern stands
    for no value of it."""
    out: dict[str, CellResult] = {}
    for cell in (c for c in attacks if c.limit):
        if not any(c.limit == cell.limit and cell.variable.items() < c.variable.items() for c in attacks):
            out.setdefault(_key(cell.limit, cell.variable), cell)
    return list(out.values())


def _group(attacks: list[CellResult], first: CellResult) -> Together | None:
    here = _beside(first).items()
    same = _same_samples(
        [c for c in attacks if _beside(c).items() <= here and _counts(c, first.limit)], first
    )
    if len({_search(c) for c in same}) < 2:
        return None  # one attack at several budgets is no union
    goals = {_key(c.goal) for c in same if c.limit == first.limit}
    worst = _worst([(c, _rows(c, first.limit)) for c in same], goals)
    return Together(same, first.limit, first.variable, len(worst), _summary(worst))


def _beside(cell: CellResult) -> dict[str, Any]:
    """The values of the sweep apart from those of the budget."""
    return {
        k: v for k, v in cell.variable.items() if k != "attack.budget" and not k.startswith("attack.budget.")
    }


def _same_samples(cells: Sequence[CellResult], first: CellResult) -> list[CellResult]:
    """Cells on the samples of the first, if it has any: rates of other samples cannot be compared."""
    ids = set(first.rows.get("id", []))
    return [c for c in cells if ids and set(c.rows.get("id", [])) == ids]


def _search(cell: CellResult) -> str:
    """The attack apart from its budget."""
    return _key(cell.attack, {k: v for k, v in cell.attack_spec.items() if k != "budget"})


def along(cells: Sequence[CellResult]) -> list[Along]:
    """One for each model and constraint whose curve two attacks or more drew."""
    groups: dict[str, list[CellResult]] = {}
    for cell in (c for c in _attacks(cells) if c.curve):
        groups.setdefault(
            _key(_model(cell), cell.curve["constraint"], cell.curve["values"], cell.variable), []
        ).append(cell)
    out = []
    for group in (_same_samples(g, g[0]) for g in groups.values()):
        if len(group) < 2:
            continue
        values, goals = sorted(float(v) for v in group[0].curve["values"]), {_key(c.goal) for c in group}
        sign = -1 if group[0].curve["constraint"] == "snr_db" else 1
        at = {v: [(c, _rows_at(c, v)) for c in group] for v in values}
        worst = [
            _worst([m for v in values if sign * v <= sign * value for m in at[v]], goals) for value in values
        ]
        out.append(Along(group, values, [_summary(rows) for rows in worst]))
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
        if c.done and c.task != "audit" and c.attack != "none" and not c.control and not c.victims
    ]


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, default=str)


def _model(cell: CellResult) -> str:
    """What is attacked: the task, the net and its data, the defence."""
    return _key(cell.task_index, cell.net, cell.spec.get("net"), cell.defense, cell.spec.get("defense"))


def _counts(cell: CellResult, limit: dict[str, Any]) -> bool:
    """The attack kept to this budget or a smaller one, or has none and the rows measure what the budget
    limits."""
    if cell.limit:
        return cell.limit == limit or inside(cell.limit, limit)
    return SIZES.get(str(limit.get("name")), ("", ""))[1] in cell.rows


def inside(small: dict[str, Any], large: dict[str, Any]) -> bool:
    """Whatever the one budget allows, the other does too: they differ in their size alone."""
    if large.get("name") not in SIZES:
        return False
    option, _, sign = SIZES[large["name"]]
    size, most = number(small.get(option)), number(large.get(option))
    return (
        {**small, option: most} == large
        and size is not None
        and most is not None
        and sign * size <= sign * most
    )


def _rows(cell: CellResult, limit: dict[str, Any]) -> dict[str, Row]:
    """Id -> what became of the sample; `tried` is false where the change of an attack without a budget is too
    large for this one."""
    rows = {str(row["id"]): row | {"tried": True} for row in _listed(cell)}
    if not cell.limit:
        option, column, sign = SIZES[str(limit["name"])]
        most = sign * float(limit[option])
        for row in rows.values():
            size = number(row[column])
            row["tried"] = size is not None and sign * size <= most + ROUNDING * abs(most)
    return rows


def _rows_at(cell: CellResult, value: float) -> dict[str, Row]:
    return {str(row["id"]): row | {"tried": True} for row in _listed(cell) if row["value"] == value}


def _listed(cell: CellResult) -> list[Row]:
    names = list(cell.rows)
    return [dict(zip(names, values, strict=True)) for values in zip(*cell.rows.values(), strict=True)]


def _worst(members: list[tuple[CellResult, dict[str, Row]]], goals: set[str]) -> list[Row]:
    """One row per sample: the worst that any attack did to it. Success is told of attacks that want the same
    as those under the budget itself, if these all want one thing and agree which samples were there
    before."""
    aimed = [(cell, rows) for cell, rows in members if {_key(cell.goal)} == goals]
    worst = []
    for i in members[0][1]:
        sample = [(cell, rows[i]) for cell, rows in members]
        row: Row = {"id": i, "correct": all(_right(cell, row) for cell, row in sample)}
        mine = [rows[i] for _, rows in aimed]
        if mine and all("success" in r for r in mine) and len({bool(r.get("already")) for r in mine}) == 1:
            row |= {
                "success": any(r["tried"] and r["success"] for r in mine),
                "already": bool(mine[0].get("already")),
            }
        if all(r.get("fooled") is not None for _, r in sample):
            row["fooled"] = any(r["tried"] and r["fooled"] for _, r in sample)
        for rate, unit in RATES.items():
            errors, n = _most_errors(sample, f"{unit}_errors"), number(sample[0][1].get(f"{unit}s"))
            row |= {
                f"{unit}_errors": errors,
                f"{unit}s": n,
                rate: errors / n if n and errors is not None else None,
            }
        worst.append(row)
    return worst


def _summary(worst: list[Row]) -> dict[str, dict[str, Any]]:
    """Summaries of the columns that every sample has."""
    has = lambda name: all(row.get(name) is not None for row in worst)
    shown = {name: c for name, c in COLUMNS.items() if has(c.pooled[0] if c.pooled else name)}
    found = summarise(worst, shown)
    return {name: stat for name, stat in found.items() if stat["n"]}


def _right(cell: CellResult, row: Row) -> bool:
    """Right before the attack, and after it if it was tried."""
    return _is(cell, row, "clean_correct", "clean_prediction") and (
        not row["tried"] or _is(cell, row, "correct", "adversarial_prediction")
    )


def _is(cell: CellResult, row: Row, column: str, answer: str) -> bool:
    """The answer is the truth: as the metric says, or as the texts compare."""
    if row.get(column) is not None:
        return bool(row[column])
    plain = (lambda text: normalised(str(text), how_compared(cell))) if cell.output == "transcript" else str
    return plain(row["label"]) == plain(row[answer])


def _most_errors(sample: list[tuple[CellResult, Row]], column: str) -> float | None:
    """The most errors in any answer to this clip; None where they were not counted."""
    known = [
        number(row.get(name))
        for _, row in sample
        for name in (column, f"clean_{column}")
        if name != column or row["tried"]
    ]
    return max((k for k in known if k is not None), default=None)

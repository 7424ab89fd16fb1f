"""All attacks on one model taken as one attacker: a sample counts as right only if no attack made it wrong. Computed from rows, by id.

Attacks are taken together where net, data, defence, budget and the values of a sweep are the same. An attack that an option of the sweep
does not concern stands beside every value of it. An attack without a budget counts where the change it made fits the budget of the others,
if the rows say how large that change is. A sample that was wrong before any attack is wrong; the noise control is no attack.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.report._run import Cell, number, read_run
from limen.report._transcripts import how_compared
from limen.report._words import fmt, variable_text
from limen.statistics import pooled, wilson
from limen.text import normalised

NAME = "all attacks together"
SIZES = {"linf": ("eps", "linf", 1), "l2": ("eps", "l2", 1), "l1": ("eps", "l1", 1), "l0": ("count", "l0", 1),
         "snr": ("snr_db", "snr_db", -1), "peak_db": ("peak_db", "peak_db", 1)}  # fmt: skip
"""Budget -> its option, the column that measures the same thing, and -1 where larger is quieter."""
WORDS = {"linf": "L∞ ≤ {}", "l2": "L2 ≤ {}", "l1": "L1 ≤ {}", "l0": "L0 ≤ {}", "snr": "SNR ≥ {} dB", "peak_db": "peak ≤ {} dB"}
ROUNDING = 1e-6
"""A change may be larger than the budget by this share of it: norms are computed in single precision."""
RATES = {"wer": "word", "cer": "character"}

Rate = tuple[float | None, float | None, float | None]
"""Mean and 95 % interval."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Together:
    """Several attacks on one net behind one defence."""

    cells: list[Cell]
    limit: dict[str, Any]
    """The budget they share."""
    variable: dict[str, Any]
    n: int
    rates: dict[str, Rate]
    """correct: right under every attack. success: some attack reached its goal. wer, cer: of each clip the most errors that any made."""

    @property
    def net(self) -> str:
        return self.cells[0].net

    @property
    def defense(self) -> str:
        return self.cells[0].defense

    @property
    def budget(self) -> str:
        """The budget in a few words: L∞ ≤ 0.1."""
        name = str(self.limit.get("name") or "")
        if name in SIZES and number(self.limit.get(SIZES[name][0])) is not None:
            return WORDS[name].format(fmt(float(self.limit[SIZES[name][0]])))
        return " ".join(part for part in (name, variable_text({k: v for k, v in self.limit.items() if k != "name"})) if part)

    def stat(self, column: str) -> Rate:
        return self.rates.get(column, (None, None, None))


@dataclass(frozen=True)
class Along:
    """The same along the values of a constraint (task constrained_accuracy)."""

    cells: list[Cell]
    values: list[float]
    rates: list[dict[str, Rate]]
    """One for each value."""

    def column(self, name: str) -> tuple[list[float | None], list[float | None], list[float | None]]:
        found = [rates.get(name, (None, None, None)) for rates in self.rates]
        return [r[0] for r in found], [r[1] for r in found], [r[2] for r in found]


def together(cells: Sequence[Cell]) -> list[Together]:
    """One for each model, budget and value of a sweep that met two attacks or more."""
    models: dict[str, list[Cell]] = {}
    for cell in (c for c in _attacks(cells) if not c.curve):
        models.setdefault(_model(cell), []).append(cell)
    return [found for attacks in models.values() for first in _firsts(attacks) if (found := _group(attacks, first)) is not None]


def _firsts(attacks: list[Cell]) -> list[Cell]:
    """The first cell of every budget and value of the sweep. A cell that the sweep does not concern stands for no value of it."""
    out: dict[str, Cell] = {}
    for cell in (c for c in attacks if c.limit):
        if not any(c.limit == cell.limit and cell.variable.items() < c.variable.items() for c in attacks):
            out.setdefault(_key(cell.limit, cell.variable), cell)
    return list(out.values())


def _group(attacks: list[Cell], first: Cell) -> Together | None:
    same = [c for c in attacks if c.variable.items() <= first.variable.items() and _counts(c, first.limit)]
    found = _worst([(c, _rows(c, first.limit)) for c in same]) if len(same) > 1 else None
    return None if found is None else Together(same, first.limit, first.variable, *found)


def along(cells: Sequence[Cell]) -> list[Along]:
    """One for each model and constraint whose curve two attacks or more drew."""
    groups: dict[str, list[Cell]] = {}
    for cell in (c for c in _attacks(cells) if c.curve):
        groups.setdefault(_key(_model(cell), cell.curve["constraint"], cell.curve["values"], cell.variable), []).append(cell)
    out = []
    for group in (g for g in groups.values() if len(g) > 1):
        values = sorted(float(v) for v in group[0].curve["values"])
        found = [_worst([(c, _rows_at(c, value)) for c in group]) for value in values]
        if all(f is not None for f in found):
            out.append(Along(group, values, [f[1] for f in found if f is not None]))
    return out


def all_together(run_folder: Path) -> list[dict[str, Any]]:
    """The numbers of a run folder in plain form: {n, columns, ...} of every budget, {constraint, values, accuracy, ...} of every curve."""
    cells = read_run(run_folder).done
    tables = [
        {"net": u.net, "defense": u.defense, "attack": f"{NAME} (worst of {len(u.cells)})", "budget": u.budget, "variable": u.variable,
         "n": u.n, "columns": {name: {"mean": rate[0]} for name, rate in u.rates.items()}} for u in together(cells)
    ]  # fmt: skip
    curves = [
        {"net": a.cells[0].net, "defense": a.cells[0].defense, "attack": f"{NAME} (worst of {len(a.cells)})",
         "constraint": a.cells[0].curve["constraint"], "values": a.values, "accuracy": a.column("correct")[0]} for a in along(cells)
    ]  # fmt: skip
    return tables + curves


def _attacks(cells: Sequence[Cell]) -> list[Cell]:
    return [c for c in cells if c.done and c.task != "audit" and c.attack != "none" and not c.control and not c.victims]


def _key(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True, default=str)


def _model(cell: Cell) -> str:
    """What is attacked: the task, the net and its data, the defence."""
    return _key(cell.task_index, cell.net, cell.spec.get("net"), cell.defense, cell.spec.get("defense"))


def _counts(cell: Cell, limit: dict[str, Any]) -> bool:
    """The attack kept to this budget, or has none and the rows measure what the budget limits."""
    return cell.limit == limit if cell.limit else SIZES.get(str(limit.get("name")), ("", ""))[1] in cell.rows


def _rows(cell: Cell, limit: dict[str, Any]) -> dict[str, Row]:
    """Id -> what became of the sample; `tried` is false where the change of an attack without a budget is too large for this one."""
    rows = {str(row["id"]): row | {"tried": True} for row in _listed(cell)}
    if not cell.limit:
        option, column, sign = SIZES[str(limit["name"])]
        most = sign * float(limit[option])
        for row in rows.values():
            size = number(row[column])
            row["tried"] = size is not None and sign * size <= most + ROUNDING * abs(most)
    return rows


def _rows_at(cell: Cell, value: float) -> dict[str, Row]:
    return {str(row["id"]): row | {"tried": True} for row in _listed(cell) if row["value"] == value}


def _listed(cell: Cell) -> list[Row]:
    names = list(cell.rows)
    return [dict(zip(names, values, strict=True)) for values in zip(*cell.rows.values(), strict=True)]


def _worst(members: list[tuple[Cell, dict[str, Row]]]) -> tuple[int, dict[str, Rate]] | None:
    """How many samples all attacks have seen, and the rates of the worst that any attack did to each; None if there are none."""
    shared = [i for i in members[0][1] if all(i in rows for _, rows in members)]
    if not shared:
        return None
    samples = [[(cell, rows[i]) for cell, rows in members] for i in shared]
    right = [all(_right(cell, row) for cell, row in sample) for sample in samples]
    rates: dict[str, Rate] = {"correct": _share(right)}
    if len({_key(cell.goal) for cell, _ in members}) == 1 and all("success" in row for sample in samples for _, row in sample):
        rates["success"] = _share([any(row["tried"] and row["success"] for _, row in sample) for sample in samples])
    for rate, unit in RATES.items():
        errors = [_most_errors(sample, f"{unit}_errors") for sample in samples]
        if all(e is not None for e in errors):
            whole = pooled([e or 0.0 for e in errors], [float(sample[0][1][f"{unit}s"]) for sample in samples])
            rates[rate] = (whole["mean"], whole["low"], whole["high"])
    return len(shared), rates


def _share(flags: list[bool]) -> Rate:
    return (sum(flags) / len(flags), *wilson(sum(flags), len(flags)))


def _right(cell: Cell, row: Row) -> bool:
    """Right before the attack, and after it if it was tried."""
    return _is(cell, row, "clean_correct", "clean_prediction") and (not row["tried"] or _is(cell, row, "correct", "adversarial_prediction"))


def _is(cell: Cell, row: Row, column: str, answer: str) -> bool:
    """The answer is the truth: as the metric says, or as the texts compare."""
    if row.get(column) is not None:
        return bool(row[column])
    plain = (lambda text: normalised(str(text), how_compared(cell))) if cell.output == "transcript" else str
    return plain(row["label"]) == plain(row[answer])


def _most_errors(sample: list[tuple[Cell, Row]], column: str) -> float | None:
    """The most errors in any answer to this clip; None where they were not counted."""
    known = [number(row.get(name)) for _, row in sample for name in (column, f"clean_{column}") if name != column or row["tried"]]
    return max((k for k in known if k is not None), default=None)

"""Tables by net x defence x attack, and what was left out of them."""

import json
from collections.abc import Sequence
from typing import Any

from limen.report.formatting import COLUMNS, DASH, fmt, interval, place, variable_text
from limen.report.run import CellResult, number
from limen.report.svg.lines import interval_dot
from limen.report.worst_case import NAME, Together, in_words

MEDIANS = {
    "picture": ("linf", "l2", "l0", "dissimilarity_l2"),
    "clip": ("l2", "snr_db", "peak_db", "peak_db_vocal", "peak_db_background", "pesq", "stoi"),
}
"""Distortions of the main table; the rest stands in the table of every metric."""
SUCCESS_OF = {True: "of those right before", False: "of those not there before"}
"""Who the share of successes is taken of, where every attack wants any wrong answer and else."""
NOT_METRICS = {"forward_calls", "backward_calls", "dead_gradients"}


def harm(cell: CellResult) -> float | None:
    """How badly the model does, larger is worse: error rate of a classifier, word error rate of a recogniser.

    Curves and matrices have no one number.
    """
    if cell.curve or cell.victims:
        return None
    if cell.output == "transcript" and cell.value("wer") is not None:
        return cell.value("wer")
    correct = cell.value("correct")
    return None if correct is None else 1 - correct


def worst(cells: Sequence[CellResult]) -> CellResult | None:
    """The cell in which the model does worst.

    The noise control does not count, nor, where there are others, do attacks without a budget: they always
    win.
    """
    attacked = [c for c in cells if c.attack != "none" and not c.control and harm(c) is not None]
    bounded = [c for c in attacked if c.limit or c.universal]
    return max(bounded or attacked, key=lambda c: harm(c) or 0.0, default=None)


def worst_ids(cells: Sequence[CellResult]) -> set[str]:
    """Per net and defence: the cells in which the model does worst."""
    out: set[str] = set()
    for key in dict.fromkeys((c.net, c.defense) for c in cells):
        group = [c for c in cells if (c.net, c.defense) == key]
        top = worst(group)
        if top is not None:
            out |= {
                c.id
                for c in group
                if harm(c) == harm(top)
                and not c.control
                and bool(c.limit or c.universal) == bool(top.limit or top.universal)
            }
    return out


def main_table(cells: Sequence[CellResult], unions: Sequence[Together] = ()) -> dict[str, Any]:
    """One row per cell, grouped by net, and behind each defence one for all attacks of a budget together.

    Columns that no cell has are left out.
    """
    here = {c.id for c in cells}
    unions = [u for u in unions if any(c.id in here and c.variable == u.variable for c in u.cells)]
    has = lambda column: any(column in c.columns for c in cells)
    # of classifiers fooling says little beside accuracy and success; a transcript that was wrong before can
    # still be changed
    answers = ("fooled",) if cells[0].output == "transcript" else ()
    rates = [c for c in (*answers, "wer", "cer", "over_the_air", "clean_over_the_air") if has(c)]
    medians = [
        c
        for c in MEDIANS.get(cells[0].kind or "", ())
        if has(c) and any(c2.median(c) is not None for c2 in cells if c2.attack != "none")
    ]
    bad = worst_ids(cells)
    nets = []
    for net in dict.fromkeys(c.net for c in cells):
        rows = []
        for defense in dict.fromkeys(c.defense for c in cells if c.net == net):
            mine = [c for c in cells if (c.net, c.defense) == (net, defense)]
            rows += [
                _row(cell, rates, medians, has("correct"), cell.id in bad, cell is mine[0]) for cell in mine
            ]
            rows += [
                _together(u, rates, medians, has("correct"))
                for u in unions
                if (u.net, u.defense) == (net, defense)
            ]
        nets.append({"name": net, "rows": rows})
    return {
        "nets": nets,
        "accuracy": has("correct"),
        "accuracy_name": "Exact transcript" if cells[0].output == "transcript" else "Accuracy",
        "success": any("success" in c.columns for c in cells),
        "success_of": SUCCESS_OF[
            all(c.goal["name"] == "untargeted" and c.goal.get("away_from") != "prediction" for c in cells)
        ],
        "variable": any(c.variable for c in cells),
        "together": bool(unions),
        "rates": [COLUMNS[c] for c in rates],
        "medians": [COLUMNS[c] for c in medians],
        "width": 4 + 2 * has("correct") + len(rates) + len(medians),
    }


def _row(
    cell: CellResult, rates: list[str], medians: list[str], accuracy: bool, is_worst: bool, new_defense: bool
) -> dict[str, Any]:
    mean, low, high = cell.stat("correct")
    return {
        "defense": "none" if cell.defense == "none" else cell.defense,
        "new_defense": new_defense,
        "attack": "none (clean)" if cell.attack == "none" else cell.attack,
        "control": cell.control,
        "together": None,
        "variable": variable_text(cell.variable),
        "n": fmt(cell.n, "n"),
        "worst": is_worst,
        "accuracy": fmt(mean, "%") if accuracy else "",
        "interval": interval(low, high),
        "dot": interval_dot(mean, low, high),
        "success": _success(cell.columns.get("success")),
        "rates": [
            (DASH, "")
            if c == "fooled" and cell.attack == "none"
            else (fmt(cell.value(c), "%"), interval(*cell.stat(c)[1:]))
            for c in rates
        ],
        # an unchanged sample has no distortion to speak of (its SNR would be infinite)
        "medians": [
            fmt(cell.columns.get(c, {}).get("median"), COLUMNS[c][1]) if cell.attack != "none" else "–"
            for c in medians
        ],
    }


def _success(stat: dict[str, Any] | None) -> tuple[str, str]:
    """The share of successes, and how many of how many that is."""
    return (
        (fmt(stat["mean"], "%"), f"{fmt(stat['count'], 'n')} of {fmt(stat['n'], 'n')}")
        if stat
        else (DASH, "")
    )


def _together(union: Together, rates: list[str], medians: list[str], accuracy: bool) -> dict[str, Any]:
    mean, low, high = union.stat("correct")
    return {
        "defense": "none" if union.defense == "none" else union.defense,
        "new_defense": False,
        "attack": NAME,
        "control": False,
        "together": {
            "count": _count([union]),
            "budget": union.budget,
            "attacks": ", ".join(_called(c, union) for c in union.cells),
        },
        "variable": variable_text(union.variable),
        "n": fmt(union.n, "n"),
        "worst": False,
        "accuracy": fmt(mean, "%") if accuracy else "",
        "interval": interval(low, high),
        "dot": interval_dot(mean, low, high),
        "success": _success(union.columns.get("success")),
        "rates": [(fmt(union.stat(c)[0], "%"), interval(*union.stat(c)[1:])) for c in rates],
        "medians": ["–" for _ in medians],
    }


def _called(cell: CellResult, union: Together) -> str:
    """The attack, with what sets it apart from the others of the union."""
    own = {k: v for k, v in cell.variable.items() if k not in union.variable}
    name = cell.attack + (f" ({variable_text(own)})" if own else "")
    if not cell.limit:
        return f"{name} where its change fits the budget"
    return name if cell.limit == union.limit else f"{name} under {in_words(cell.limit)}"


def _count(unions: Sequence[Together]) -> str:
    """worst of 3, or of 2–3 where it is not the same everywhere."""
    counts = sorted({len(u.cells) for u in unions})
    return f"worst of {'–'.join(str(k) for k in dict.fromkeys((counts[0], counts[-1])))}"


def sweep_tables(cells: Sequence[CellResult], unions: Sequence[Together] = ()) -> list[dict[str, Any]]:
    """For every option that was swept: net x defence x attack down, values across, accuracy (or word error
    rate) inside."""
    tables = []
    for key in dict.fromkeys(tuple(c.variable) for c in cells if c.variable):
        group = [c for c in cells if tuple(c.variable) == key and harm(c) is not None]
        values = list(dict.fromkeys(variable_text(c.variable) for c in group))
        if len(values) < 2:
            continue
        recogniser = group[0].output == "transcript"
        column = "wer" if recogniser else "correct"
        rows = []
        for net, defense in dict.fromkeys((c.net, c.defense) for c in group):
            mine = [c for c in group if (c.net, c.defense) == (net, defense)]
            whole = [u for u in unions if (u.net, u.defense, tuple(u.variable)) == (net, defense, key)]
            lines: list[tuple[str, str, Sequence[CellResult | Together]]] = [
                (attack, "", [c for c in mine if c.attack == attack])
                for attack in dict.fromkeys(c.attack for c in mine)
            ]
            lines += [(NAME, _count(whole), whole)] if whole else []
            for attack, tag, them in lines:
                here = {variable_text(c.variable): c.stat(column) for c in them}
                shown = [
                    (fmt(here[v][0], "%"), interval(*here[v][1:])) if v in here else ("", "") for v in values
                ]
                rows.append({"net": net, "defense": defense, "attack": attack, "tag": tag, "cells": shown})
        tables.append(
            {
                "key": ", ".join(key),
                "values": values,
                "rows": rows,
                "what": "Word error rate" if recogniser else "Accuracy",
            }
        )
    return tables


def every_metric(cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """All summary columns of every cell, for the reader who wants the rest; `what` says which number of the
    column it is."""
    return [
        {
            "place": place(cell),
            "column": name,
            "n": fmt(stat.get("n"), "n"),
            "value": fmt(cell.value(name)),
            "what": _what(stat),
            "interval": interval(number(stat.get("low")), number(stat.get("high")), "3g"),
            "median": fmt(stat.get("median")),
            "missing": fmt(stat.get("missing") or 0, "n"),
            "unit": str(stat.get("unit") or ""),
        }
        for cell in cells
        for name, stat in cell.columns.items()
        if name not in NOT_METRICS
    ]


def _what(stat: dict[str, Any]) -> str:
    if "rate" in stat:
        return f"rate: {' / '.join(stat['of'])}"
    return f"share{', unless ' + stat['unless'] if 'unless' in stat else ''}" if "count" in stat else "mean"


def scalars(cells: Sequence[CellResult]) -> list[dict[str, str]]:
    """What tasks added that is a plain number or word."""
    return [
        {
            "place": place(cell),
            "name": str(k),
            "value": fmt(v) if isinstance(v, int | float) and not isinstance(v, bool) else str(v),
        }
        for cell in cells
        for k, v in cell.result.items()
        if isinstance(v, str | int | float) and k not in ("constraint", "n", "proxy")
    ]


def missing_metrics(cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Column and reason -> how many samples of how many cells have no value."""
    found: dict[tuple[str, str], list[int]] = {}
    for cell in cells:
        here: dict[tuple[str, str], int] = {}
        for text in cell.rows.get("missing", []):
            reasons = json.loads(text) if isinstance(text, str) and text else {}
            for column, reason in reasons.items():
                here[(column, str(reason))] = here.get((column, str(reason)), 0) + 1
        for key, count in here.items():
            found.setdefault(key, []).append(count)
    return [
        {"column": column, "reason": reason, "samples": fmt(sum(counts), "n"), "cells": fmt(len(counts), "n")}
        for (column, reason), counts in sorted(found.items(), key=lambda item: -sum(item[1]))
    ]

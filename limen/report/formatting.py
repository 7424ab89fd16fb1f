"""How numbers, intervals, lists and the names of cells are written."""

import math
from collections.abc import Sequence
from typing import Any

from limen.report.run import CellResult

THIN = "\u202f"
DASH = "–"


def signed(text: str) -> str:
    """A real minus sign."""
    return text.replace("-", "−")


def fmt(value: Any, how: str = "3g") -> str:
    """One value: "%" as a percentage, "1f" with one decimal, "3g" with three significant digits, "n" as a
    count."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return DASH
    if isinstance(value, float) and math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if how == "%":
        return f"{100 * value:.1f}{THIN}%"
    if how == "n":
        return f"{int(value):,}".replace(",", THIN)
    if how.endswith("f"):
        return signed(f"{value:.{how[:-1]}f}")
    text = f"{value:.3g}"
    if "e" in text:
        digits, power = text.split("e")
        raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return signed(f"{digits}·10") + raised
    return signed(text)


def interval(low: float | None, high: float | None, how: str = "%") -> str:
    """A 95 % interval without the unit: 94.1–98.9."""
    if low is None or high is None:
        return ""
    scale, digits = (100.0, "1f") if how == "%" else (1.0, how)
    return f"{fmt(scale * low, digits)}{DASH}{fmt(scale * high, digits)}"


def duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def many(count: int, one: str, several: str | None = None) -> str:
    return f"{fmt(count, 'n')} {one if count == 1 else several or one + 's'}"


def listed(words: Sequence[str]) -> str:
    words = list(words)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""


def variable_text(variable: dict[str, Any]) -> str:
    return ", ".join(
        f"{key.rsplit('.', 1)[-1]} {fmt(v) if isinstance(v, int | float) else v}"
        for key, v in variable.items()
    )


def place(cell: CellResult) -> str:
    """The source of a number: net, defence, attack and the values of a sweep."""
    parts = [cell.net, "undefended" if cell.defense == "none" else cell.defense]
    if not cell.diagnostic:
        parts.append("clean" if cell.attack == "none" else cell.attack)
    return " · ".join(parts + ([variable_text(cell.variable)] if cell.variable else []))

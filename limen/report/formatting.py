"""Numbers and sentences: one way to write each, everywhere on the page."""

import math
from collections.abc import Sequence
from typing import Any

from limen.report.run import CellResult

THIN = "\u202f"
DASH = "–"

BLIND = {"kenansville", "yeehaw"}
"""Attacks that ask no model anything, unless told to search."""

COLUMNS: dict[str, tuple[str, str, str, str]] = {
    # column: heading, how it is written, which number of the set it is, what it means
    "linf": ("L∞", "3g", "median", "the largest change of one value"),
    "l2": ("L2", "3g", "median", "Euclidean norm of the change"),
    "l1": ("L1", "3g", "median", "sum of absolute changes"),
    "l0": ("L0", "0f", "median", "number of values changed"),
    "dissimilarity_l2": ("Dissim.", "3g", "median", "Euclidean norm of the change over that of the sample"),
    "snr_db": ("SNR, dB", "1f", "median", "signal-to-noise ratio; larger is quieter"),
    "peak_db": (
        "Peak, dB",
        "1f",
        "median",
        "the loudest change relative to the loudest of the clip; below −32 is called acceptable",
    ),
    "peak_db_vocal": ("vocal", "1f", "median", "peak on the vocal part, dB"),
    "peak_db_background": ("backgr.", "1f", "median", "peak outside the vocal part, dB"),
    "pesq": ("PESQ", "2f", "median", "perceptual quality, 1 to 4.6; larger is better"),
    "stoi": ("STOI", "2f", "median", "intelligibility, 0 to 1; larger is better"),
    "wer": (
        "WER",
        "%",
        "errors / words",
        "word error rate of the whole set: all errors over all words, clips count by their length",
    ),
    "cer": (
        "CER",
        "%",
        "errors / characters",
        "character error rate of the whole set: all errors over all characters",
    ),
    "fooled": (
        "Fooled",
        "%",
        "of all n",
        "the model’s answer is another than before the attack, whatever is right",
    ),
    "over_the_air": (
        "Over the air",
        "%",
        "mean",
        "share of fresh draws of the transforms in which the attack reached its goal",
    ),
    "clean_over_the_air": (
        "Air alone",
        "%",
        "mean",
        "share of these draws in which the transforms alone reached it",
    ),
}


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
    """Where a number comes from: net, defence, attack, variable."""
    parts = [cell.net, "undefended" if cell.defense == "none" else cell.defense]
    if cell.task != "audit":
        parts.append("clean" if cell.attack == "none" else cell.attack)
    return " · ".join(parts + ([variable_text(cell.variable)] if cell.variable else []))


def threats(cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """The threat model of each attack in one sentence; attacks with the same sentence stand together."""
    grouped: dict[str, list[str]] = {}
    for attack in dict.fromkeys(c.attack for c in cells if c.attack != "none"):
        grouped.setdefault(_threat([c for c in cells if c.attack == attack]), []).append(attack)
    return [{"attacks": names, "sentence": sentence} for sentence, names in grouped.items()]


def _threat(cells: Sequence[CellResult]) -> str:
    first = cells[0]
    thing, part = ("clip", "sample of the clip") if first.kind == "clip" else ("picture", "pixel")
    defended = [c for c in cells if c.defense != "none"]
    name = first.attack_spec.get("name")
    if first.control:
        knows = "The control knows nothing about the model: it adds random noise"
    elif first.victims or first.proxies:
        knows = (
            f"The attacker computes the change on {listed(first.proxies) or 'each proxy in turn'} and "
            "hopes that it transfers"
        )
    elif name in BLIND and not first.attack_spec.get("search"):
        knows = "The attacker does not see the model: it takes the same parts out of any sound"
    elif first.queries:
        knows = "The attacker sees the model’s answers only, never a gradient"
    elif defended and not all(c.sees_defense for c in defended):
        knows = (
            "The attacker knows the model but not "
            f"{'every' if any(c.sees_defense for c in defended) else 'the'} defence"
        )
    else:
        knows = f"The attacker knows the model{' and the defence' if defended else ''} (white box)"
    wants = "" if first.control else f", wants {_goal(first)}"
    alone = ", looks for one change that serves every sample" if first.universal else ""
    if first.attack_spec.get("through"):
        alone += (
            ", searches through random draws of "
            f"{listed([one['name'] for one in first.attack_spec['through']])}"
        )
    return (
        f"{knows}{wants}{alone}{',' if wants else ''} and {_budget(cells, thing, part)}; success is "
        f"judged on {_judged(first)}."
    )


def _goal(cell: CellResult) -> str:
    goal = cell.goal
    if goal["name"] == "untargeted":
        return (
            "any answer but the model’s own" if goal.get("away_from") == "prediction" else "any wrong answer"
        )
    if goal["name"] == "target_class":
        target = goal.get("target", "random")
        if isinstance(target, int):
            return f"the class {cell.classes[target] if 0 <= target < len(cell.classes) else target}"
        return "the least likely class" if target == "least_likely" else "a random wrong class"
    if goal["name"] == "transcript":
        if goal.get("among"):
            choice = "drawn at random" if goal.get("choose") == "random" else "the closest in length"
            return f"one of {many(len(goal['among']), 'given transcript')}, {choice}"
        return f"the transcript “{goal.get('text') or ''}”"
    if goal["name"] == "first_word":
        return f"a transcript that begins with “{goal.get('word') or ''}”"
    if goal["name"] == "language":
        return f"the speech to be taken for the language “{goal.get('target') or ''}”"
    return f"the goal {_call(goal)}"


def _budget(cells: Sequence[CellResult], thing: str, part: str) -> str:
    curve = cells[0].curve
    budget = (
        {"name": {"snr_db": "snr"}.get(curve["constraint"], curve["constraint"])}
        if curve
        else cells[0].budget
    )
    name = budget.get("name")
    if name is None and cells[0].limit:
        return f"may change the {thing} within the attack’s own limits ({variable_text(cells[0].limit)})"
    if name is None:
        return (
            "may change the "
            + thing
            + (
                " as the attack sees fit"
                if cells[0].universal or cells[0].control
                else " as much as it needs, by the smallest change it can find"
            )
        )
    key = {"linf": "eps", "l2": "eps", "l1": "eps", "l0": "count", "snr": "snr_db", "peak_db": "peak_db"}.get(
        str(name)
    )
    if curve:
        values = sorted(v for v in curve["values"] if v or name in ("snr", "peak_db"))
    else:
        values = (
            sorted({c.budget[key] for c in cells if isinstance(c.budget.get(key), int | float)})
            if key
            else []
        )
    if not values:
        return f"may change the {thing} within the budget {_call(budget)}"
    size = (
        fmt(float(values[0]))
        if len(values) == 1
        else f"{fmt(float(values[0]))} to {fmt(float(values[-1]))} (several budgets were tried)"
    )
    if name == "linf":
        steps = 255 * values[0]
        if thing == "picture" and len(values) == 1 and abs(steps - round(steps)) < 0.02 and round(steps) > 0:
            size += f" ({round(steps)}/255)"
        return f"may change every {part} by at most {size}"
    return {
        "l2": f"may change the {thing} by at most {size} in Euclidean norm",
        "dissimilarity": f"may change the {thing} by at most {size} of its own Euclidean norm "
        "(dissimilarity)",
        "l1": f"may change the {thing} by at most {size} in total (L1)",
        "l0": f"may change at most {size} values of the {thing}",
        "snr": f"must keep the change at least {size} dB below the signal",
        "peak_db": f"must keep the loudest change at {size} dB or less relative to the loudest sample of "
        "the clip",
    }.get(str(name), f"may change the {thing} within the budget {name} ({size})")


def _judged(cell: CellResult) -> str:
    store = str(cell.meta.get("stored_as") or ("int16" if cell.kind == "clip" else "float"))
    return {"int16": "16-bit audio as stored", "uint8": "8-bit pictures as stored"}.get(
        store, "the values as stored"
    )


def _call(spec: dict[str, Any]) -> str:
    return f"{spec.get('name')}({', '.join(f'{k}={v}' for k, v in spec.items() if k != 'name')})"

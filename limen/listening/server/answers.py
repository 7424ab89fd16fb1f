"""Checking an answer against the widgets of its screen before it is stored; a UserError explains what is
wrong with it."""

import math
from collections.abc import Mapping
from typing import Any

from limen.core.errors import UserError
from limen.trials.base.screen import Screen, Widget

MAX_DEPTH = 6
"""Levels of lists and objects in anything that is stored as it was received."""
LARGEST = 2**53
"""Larger integers are not read alike by all JSON parsers."""


def checked(screen: Screen, answer: Any) -> dict[str, Any]:
    """The answer by widget, with numbers rounded to their grid. Optional widgets without an answer are left
    out."""
    if not isinstance(answer, Mapping):
        raise UserError(
            f"Expected the answer as an object with one key per question, got {_type_name(answer)}."
        )
    widgets = {widget.name: widget for widget in screen.widgets}
    if unknown := [str(name) for name in answer if name not in widgets]:
        raise UserError(
            f"There is no question {short(unknown[0])}. Questions: {', '.join(widgets) or 'none'}."
        )
    result: dict[str, Any] = {}
    for name, widget in widgets.items():
        value = answer.get(name)
        if widget.each_sound:
            value = _each_sound(screen, widget, value)
        else:
            value = _one(widget, value, name)
        if value is not None:
            result[name] = value
    return result


def _each_sound(screen: Screen, widget: Widget, value: Any) -> dict[str, Any] | None:
    labels = [sound.label for sound in screen.sounds if sound.rated]
    if value is None and not widget.required:
        return None
    if not isinstance(value, Mapping) or not set(value) <= set(labels):
        raise UserError(f"{widget.name}: expected one answer for each of the sounds {', '.join(labels)}.")
    values = {label: _one(widget, value.get(label), f"{widget.name} of {label}") for label in labels}
    return {label: v for label, v in values.items() if v is not None}


def _one(widget: Widget, value: Any, name: str) -> Any:
    """The answer to one question; None for an optional question without an answer."""
    if value is None or value == "":
        if widget.required:
            raise UserError(f"{name}: an answer is needed.")
        return None
    return {"choose": _choice, "slide": _number, "type": _text}[widget.kind](widget, value, name)


def _choice(widget: Widget, value: Any, name: str) -> str:
    values = [choice.value for choice in widget.choices]
    if isinstance(value, str) and value in values:
        return value
    if isinstance(value, str) and widget.other and value.startswith("other:"):
        typed = _text(widget, value.removeprefix("other:").strip(), name)
        if typed:
            return f"other:{typed}"
        raise UserError(f"{name}: write what you mean next to {widget.other!r}.")
    raise UserError(f"{name}: expected one of {', '.join(values)}, got {short(value)}.")


def _number(widget: Widget, value: Any, name: str) -> float | int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not widget.low <= value <= widget.high:
        raise UserError(
            f"{name}: expected a number from {widget.low:g} to {widget.high:g}, got {short(value)}."
        )
    steps = (value - widget.low) / widget.step
    if abs(steps - round(steps)) > 1e-6:
        raise UserError(
            f"{name}: expected a number in steps of {widget.step:g} from {widget.low:g}, got {short(value)}."
        )
    number = round(widget.low + round(steps) * widget.step, 9)
    return int(number) if number == int(number) else number


def _text(widget: Widget, value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{name}: expected text, got {_type_name(value)}.")
    if len(value) > widget.longest:
        raise UserError(f"{name}: expected at most {widget.longest} characters, got {len(value)}.")
    storable(value)
    return value


def storable(value: Any, depth: int = 0) -> None:
    """Refuse what a database or another JSON parser would not return unchanged."""
    if isinstance(value, str):
        # PostgreSQL stores no NUL, and UTF-8 has no encoding for half of a surrogate pair
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise UserError("Text may not contain the character NUL or half of a surrogate pair.")
    elif isinstance(value, int | float):
        if abs(value) > LARGEST or not math.isfinite(value):
            raise UserError(f"Expected numbers between -2^53 and 2^53, got {short(value)}.")
    elif isinstance(value, Mapping | list):
        if depth == MAX_DEPTH:
            raise UserError(f"Lists and objects may be nested at most {MAX_DEPTH} levels deep.")
        for part in [*value, *value.values()] if isinstance(value, Mapping) else value:
            storable(part, depth + 1)
    elif value is not None:
        raise UserError(f"Expected JSON, got {_type_name(value)}.")


def short(value: Any) -> str:
    """An untrusted value for a message: plain ASCII, at most a few dozen characters."""
    if isinstance(value, int) and abs(value) > LARGEST:
        text = f"a number of {value.bit_length()} bits"
    else:
        text = ascii(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _type_name(value: Any) -> str:
    return {type(None): "nothing", str: "text", bool: "true or false", list: "a list", dict: "an object"}.get(
        type(value), "a number"
    )

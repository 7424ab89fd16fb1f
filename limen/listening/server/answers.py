"""What a page sends is checked against the widgets of its screen before it is stored; a UserError says what
is wrong with it."""

import math
from collections.abc import Mapping
from typing import Any

from limen.core.errors import UserError
from limen.trials.base.screen import Screen, Widget

DEEPEST = 6
"""Levels of lists and mappings in anything that is stored as it came."""
LARGEST = 2**53
"""Whole numbers beyond this are not the same in every JSON reader."""


def checked(screen: Screen, answer: Any) -> dict[str, Any]:
    """The answer by widget, numbers snapped to their grid; widgets that need no answer and got none are left
    out."""
    if not isinstance(answer, Mapping):
        raise UserError(f"An answer is an object with one key per question, but {_named(answer)} came.")
    known = {widget.name: widget for widget in screen.widgets}
    if strange := [str(name) for name in answer if name not in known]:
        raise UserError(
            f"There is no question called {short(strange[0])}. Questions: {', '.join(known) or 'none'}."
        )
    found: dict[str, Any] = {}
    for name, widget in known.items():
        value = answer.get(name)
        if widget.each_sound:
            value = _each_sound(screen, widget, value)
        else:
            value = _one(widget, value, name)
        if value is not None:
            found[name] = value
    return found


def _each_sound(screen: Screen, widget: Widget, value: Any) -> dict[str, Any] | None:
    labels = [sound.label for sound in screen.sounds if sound.rated]
    if value is None and not widget.required:
        return None
    if not isinstance(value, Mapping) or not set(value) <= set(labels):
        raise UserError(f"{widget.name}: expected one answer for each of the sounds {', '.join(labels)}.")
    given = {label: _one(widget, value.get(label), f"{widget.name} of {label}") for label in labels}
    return {label: v for label, v in given.items() if v is not None}


def _one(widget: Widget, value: Any, name: str) -> Any:
    """The value of one question, None if there is none and none is needed."""
    if value is None or value == "":
        if widget.required:
            raise UserError(f"{name}: an answer is needed.")
        return None
    return {"choose": _choice, "slide": _place, "type": _text}[widget.kind](widget, value, name)


def _choice(widget: Widget, value: Any, name: str) -> str:
    values = [choice.value for choice in widget.choices]
    if isinstance(value, str) and value in values:
        return value
    if isinstance(value, str) and widget.other and value.startswith("other:"):
        typed = _text(widget, value.removeprefix("other:").strip(), name)
        if typed:
            return f"other:{typed}"
        raise UserError(f"{name}: write what you mean beside {widget.other!r}.")
    raise UserError(f"{name}: expected one of {', '.join(values)}, but {short(value)} came.")


def _place(widget: Widget, value: Any, name: str) -> float | int:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not widget.low <= value <= widget.high
    ):
        raise UserError(
            f"{name}: expected a number from {widget.low:g} to {widget.high:g}, but {short(value)} came."
        )
    steps = (value - widget.low) / widget.step
    if abs(steps - round(steps)) > 1e-6:
        raise UserError(
            f"{name}: expected steps of {widget.step:g} from {widget.low:g} on, but {short(value)} came."
        )
    place = round(widget.low + round(steps) * widget.step, 9)
    return int(place) if place == int(place) else place


def _text(widget: Widget, value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise UserError(f"{name}: expected text, but {_named(value)} came.")
    if len(value) > widget.longest:
        raise UserError(f"{name}: expected up to {widget.longest} characters, but {len(value)} came.")
    storable(value)
    return value


def storable(value: Any, depth: int = 0) -> None:
    """Refuses what a database or another JSON reader would not give back as it came."""
    if isinstance(value, str):
        # PostgreSQL stores no NUL, and half a surrogate pair is no character in UTF-8
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise UserError("Text may not hold the character NUL or half of a surrogate pair.")
    elif isinstance(value, int | float):
        if abs(value) > LARGEST or not math.isfinite(value):
            raise UserError(f"Numbers must lie between -2^53 and 2^53, but {short(value)} came.")
    elif isinstance(value, Mapping | list):
        if depth == DEEPEST:
            raise UserError(f"Lists and objects may be nested {DEEPEST} deep, but more came.")
        for part in [*value, *value.values()] if isinstance(value, Mapping) else value:
            storable(part, depth + 1)
    elif value is not None:
        raise UserError(f"Expected JSON, but {_named(value)} came.")


def short(value: Any) -> str:
    """A hostile value in a message: plain ASCII, a few dozen characters."""
    text = (
        f"a number of {value.bit_length()} bits"
        if isinstance(value, int) and abs(value) > LARGEST
        else ascii(value)
    )
    return text if len(text) <= 60 else text[:60] + "..."


def _named(value: Any) -> str:
    return {type(None): "nothing", str: "text", bool: "true or false", list: "a list", dict: "an object"}.get(
        type(value), "a number"
    )

"""Options are declared once, in a frozen class next to the function that takes them.

Validation, `limen describe`, the JSON schema, the reference pages and the keys of an experiment file are all
generated from that class. A mistake becomes one sentence that says how to fix it.
"""

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from limen.core.errors import UserError

T = TypeVar("T", bound=BaseModel)


class Options(BaseModel):
    """Type, default, bounds and meaning of each option; the string under a field is its meaning."""

    example: ClassVar[dict[str, Any]] = {}
    """Values for the options without a default, as documentation and contract tests use them."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )


MAX_REPORTED = 10
"""Mistakes listed in one error message."""


def parse_options(cls: type[T], values: Any, who: str) -> T:
    """Validated options; a UserError names `who`, the value it got and what was expected."""
    try:
        return cls.model_validate(dict(values) if isinstance(values, Mapping) else values)
    except ValidationError as error:
        mistakes = [f"{who}: {_sentence(cls, e)}" for e in error.errors()]
        if (more := len(mistakes) - MAX_REPORTED) > 0:
            mistakes[MAX_REPORTED:] = [f"{who}: {more} more mistakes of this kind."]
        raise UserError("\n".join(mistakes)) from None


def short_repr(value: Any) -> str:
    """The value's repr, cut to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _sentence(cls: type[BaseModel], error: Any) -> str:
    place = ".".join(str(part).removeprefix("constrained-") for part in error["loc"])
    cls, last = _owner(cls, error["loc"]), str(error["loc"][-1]) if error["loc"] else ""
    if error["type"] == "extra_forbidden":
        known = list(cls.model_fields)
        close = difflib.get_close_matches(last, known, n=1)
        hint = f' Did you mean "{close[0]}"?' if close else ""
        return f'there is no option "{place}".{hint} Options: {", ".join(known) or "none"}.'
    if error["type"] == "missing":
        return f'the option "{place}" is required: {describe_field(cls, last)}'
    if error["type"] == "value_error":  # raised by one of our validators: the message is complete
        text = str(error["ctx"]["error"])
        return f"{place}: {text}" if place else text
    mapping = error["type"] in ("model_type", "dict_type")
    message = (
        "expected a mapping, {key: value, ...}" if mapping else error["msg"][0].lower() + error["msg"][1:]
    )
    return f"{f'{place}: ' if place else ''}{message}, got {short_repr(error['input'])}."


def _owner(cls: type[BaseModel], loc: tuple[int | str, ...]) -> type[BaseModel]:
    """The class, possibly nested, that declares the option the error is about."""
    for part in loc[:-1]:
        field = cls.model_fields.get(str(part))
        inside = (
            [t for t in _types_in(field.annotation) if isinstance(t, type) and issubclass(t, BaseModel)]
            if field
            else []
        )
        cls = inside[0] if inside else cls
    return cls


def _types_in(annotation: Any) -> list[Any]:
    return [annotation, *(t for part in get_args(annotation) for t in _types_in(part))]


def describe_field(cls: type[BaseModel], name: str) -> str:
    field = cls.model_fields.get(name)
    return (field.description if field and field.description else "see `limen describe`").strip()


def option_rows(cls: type[BaseModel]) -> list[dict[str, str]]:
    """One row per option with name, type, default and meaning, for `limen describe` and the reference
    pages."""
    schema = cls.model_json_schema()
    rows = []
    for name, field in cls.model_fields.items():
        default = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
        rows.append(
            {
                "name": name,
                "type": _type_words(schema["properties"][name], schema),
                "default": default,
                "meaning": " ".join((field.description or "").split()),
            }
        )
    return rows


def _type_words(schema: dict[str, Any], root: dict[str, Any]) -> str:
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[1]]
    if "anyOf" in schema:
        return " | ".join(_type_words(s, root) for s in schema["anyOf"])
    if "const" in schema:
        return repr(schema["const"])
    if "enum" in schema:
        return " | ".join(repr(v) for v in schema["enum"])
    words = {
        "number": "float",
        "integer": "int",
        "boolean": "bool",
        "string": "str",
        "null": "None",
        "object": "mapping",
    }
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list[{_type_words(schema['items'], root)}]" if "items" in schema else "list"
    bounds = [
        f"{sign} {schema[key]:g}"
        for key, sign in (
            ("exclusiveMinimum", ">"),
            ("minimum", ">="),
            ("exclusiveMaximum", "<"),
            ("maximum", "<="),
        )
        if key in schema
    ]
    return words.get(kind, kind) + (f" ({', '.join(bounds)})" if bounds else "")

"""Specs with every default written out: what the id of a cell is computed from."""

from typing import Any

from limen.core.components import parse
from limen.experiments.file import Net


def resolved(kind: str, spec: Any) -> dict[str, Any] | None:
    """The spec of a component with every default written out."""
    if spec is None:
        return None
    component, options = parse(kind, spec)
    return component.spec(options)


def resolved_defenses(specs: Any) -> list[dict[str, Any]] | None:
    """The specs of one defence or a list of them with every default written out."""
    specs = specs if isinstance(specs, list) else [] if specs is None else [specs]
    return [resolved("defenses", spec) or {} for spec in specs] or None


def resolved_net(net: Net) -> dict[str, Any]:
    """The specs {"model": ..., "data": ...} of a net."""
    return {"model": resolved("models", net.model), "data": resolved("data", net.data)}

"""A throw-away defence that experiment files may name, for as long as a test runs."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from limen.core import components
from limen.defenses.base import compose
from limen.defenses.base.options import DefenseOptions


@pytest.fixture
def throw_away(monkeypatch) -> Callable[[str, Any, type[DefenseOptions]], None]:
    def add(name: str, function: Any, options: type[DefenseOptions]) -> None:
        one = components.Component("defenses", name, function, options, ModuleType(f"throw_away_{name}"))
        names, load = components.names, components.load
        with_one = lambda kind: sorted([*names(kind), name]) if kind == "defenses" else names(kind)
        loaded = lambda kind, wanted: one if (kind, wanted) == ("defenses", name) else load(kind, wanted)
        for module in (components, compose):
            monkeypatch.setattr(module, "names", with_one)
            monkeypatch.setattr(module, "load", loaded)

    return add

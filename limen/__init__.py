"""Limen tells you how easily a model can be fooled, and whether anyone would notice.

import limen
model = limen.load_model("keyword_cnn")
batch = next(limen.load_data("spoken_words", split="test"))
result = limen.attack("pgd", model, batch, budget="snr:30", steps=100)
table = limen.measure(batch, result)

With a model and tensors of your own: limen.attack("pgd", net, x, y, budget="linf:0.03",
defense="bit_depth:4").
"""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limen import budgets, goals
    from limen.api import attack, defend, load_data, load_model, measure, over_the_air

# MKL reads it at its first matrix product: in single precision a row then has the same bits among 16 rows or
# 500, as fast as before
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

__version__ = "0.1.0"
__all__ = ["attack", "budgets", "defend", "goals", "load_data", "load_model", "measure", "over_the_air"]


def __getattr__(name: str) -> Any:
    """Import what is named when it is first used: torch takes a second, which `limen --help` need not."""
    if name not in __all__:
        raise AttributeError(f"module 'limen' has no attribute {name!r}")
    if name in ("budgets", "goals"):
        return import_module(f"limen.{name}")
    return getattr(import_module("limen.api"), name)


class _Package(ModuleType):
    """Keeps `limen.measure` the function after the folder of that name was imported, which Python would
    otherwise assign to the name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "measure" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""A model behind a list of defences.

Defences are applied to a sample in the order of the list. Voting is the exception: it works on answers, so it
encloses the other defences, and [jitter, majority] votes over fresh draws of jitter.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from limen.core.components import Component, load, names, parse
from limen.core.errors import UserError
from limen.defenses.base.defended import Defended
from limen.defenses.base.options import DefenseOptions, WeightedDefenseOptions
from limen.models.base.load import load_weights
from limen.models.base.model import Model

ZOO = Path(__file__).parent.parent / "zoo"
"""Weights shipped for defences: <defense name>.safetensors and its card <defense name>.json."""


def defended(model: Model, defenses: Sequence[Any]) -> Model:
    """The model behind these defences, each written as in an experiment file; the first is applied to the
    sample first. Without any, the model itself."""
    members = [_parsed(spec) for spec in defenses]
    enclosing = [member for member in members if member[1].encloses]
    others = [member for member in members if not member[1].encloses]
    for component, options in [*reversed(others), *enclosing]:
        model = _behind(model, component, options)
    return model


def label(defenses: Sequence[Any] | None) -> str:
    """What tables call these defences: "jpeg + crop_rescale"; "none" without any."""
    return " + ".join(parse("defenses", spec)[0].name for spec in defenses or []) or "none"


def training_of(defenses: Sequence[Any]) -> dict[str, Any] | None:
    """The objective under which a net behind these defences is trained; None if none changes the training."""
    members = [_parsed(spec) for spec in defenses]
    changed = [(component.name, spec) for component, o in members if (spec := o.training()) is not None]
    if len(changed) > 1:
        raise UserError(
            f"The defenses {' and '.join(name for name, _ in changed)} both change the training of the net. "
            "Use one of them at a time."
        )
    return changed[0][1] if changed else None


def _parsed(spec: Any) -> tuple[Component, DefenseOptions]:
    component, options = parse("defenses", spec)
    assert isinstance(options, DefenseOptions)
    return component, options


def _behind(model: Model, component: Component, options: DefenseOptions) -> Model:
    """The model behind one defence, with its own weights if it has any."""
    _check(model, component, options)
    if not isinstance(options, WeightedDefenseOptions):
        return component.function(model, options)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.init_seed)
        result: Defended = component.function(model, options)
    if options.weights != "random":
        load_weights(result.own, component, options.weights, ZOO)
    first = next(model.parameters(), None)
    result.own.eval().to(None if first is None else first.device)
    return result


def _check(model: Model, component: Component, options: DefenseOptions) -> None:
    """A UserError unless the defence can protect this model."""
    for declared, mine, verb in (("kinds", model.kind, "take"), ("outputs", model.output, "give")):
        allowed = getattr(options, declared)
        if mine not in allowed:
            known = [load("defenses", name) for name in names("defenses")]
            others = [one.name for one in known if mine in getattr(one.options, declared)]
            raise UserError(
                f"The defense {component.name} is for models that {verb} "
                f"{' or '.join(map(_plural, allowed))}, but this one {verb}s {_plural(mine)}. Use one of: "
                f"{', '.join(others)}."
            )


def _plural(word: str) -> str:
    return f"{word}es" if word.endswith("s") else f"{word}s"

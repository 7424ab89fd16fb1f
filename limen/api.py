"""The Python interface: load, wrap, defend, attack and measure, for models and tensors of any origin.

Arguments (a torch module, tensors, a budget as text) are converted to a `Model`, a `Batch` and validated
options. A mistake is a `UserError`, with the sentence that an
experiment file would get.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from limen.attacks.engine.physical import OverTheAir
from limen.attacks.engine.physical import over_the_air as share_over_the_air
from limen.attacks.engine.run import Attack, Attacked, stored_as
from limen.attacks.engine.spec import AttackSpec
from limen.core import seeds
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.options import parse_options
from limen.core.types import Batch, Output, Samples, answers_of, predictions
from limen.defenses.base.compose import defended
from limen.inputs import UNKNOWN, as_batch, integer, listed
from limen.metrics.base.apply import applicable
from limen.metrics.base.apply import measure as rows_of
from limen.models.base.load import load_model as _load_model
from limen.models.base.model import Model, check_fits, evaluating, inner
from limen.models.base.output_check import check_outputs, check_surrogate, logit_columns
from limen.models.torch_module import Wrapping, wrap


def load_model(model: str | Mapping[str, Any] | nn.Module, **options: Any) -> Model:
    """A model by name, load_model("cnn", weights="mine.pth"), or your torch module: load_model(net,
    kind="picture", classes=10, mean=[...], std=[...]), with the options that `limen describe torch_module`
    lists."""
    if isinstance(model, Model):
        return model
    if not isinstance(model, str | Mapping | nn.Module):
        raise UserError(
            "A model is one of Limen's, the name of one, or a torch.nn.Module from x to logits; got "
            f"{type(model).__name__}."
        )
    if isinstance(model, nn.Module):
        return wrap(model, parse_options(Wrapping, options, "load_model"))
    return _load_model({**({"name": model} if isinstance(model, str) else model), **options})


def load_data(name: str, *, batch_size: int = 32, **options: Any) -> Iterator[Batch]:
    """Batches of a data set: `for batch in load_data("spoken_words", split="test")`."""
    component, parsed = parse("data", {"name": name, **options})
    return component.function(parsed).batches(integer(batch_size, "batch_size", 1))


def defend(model: Any, *defenses: Any) -> Model:
    """The model behind these defences, applied in this order: defend(model, "bit_depth:4", {"name":
    "jpeg"})."""
    if isinstance(model, nn.Module) and not isinstance(model, Model):
        raise UserError(
            "defend needs to know the module's input: defend(limen.load_model(net, kind=..., classes=...), "
            "...)."
        )
    return defended(load_model(model), defenses)


def attack(
    name: Any,
    model: Any,
    samples: Any,
    y: Any = None,
    *,
    goal: Any = None,
    budget: Any = None,
    defense: Any = None,
    attack_on_defense: bool = True,
    crafting: Any = None,
    seed: int = 0,
    store: str = "auto",
    **options: Any,
) -> Attacked:
    """Attack a model: attack("pgd", net, x, y, budget="linf:0.03", steps=40).

    `model` is one of Limen's, its name, or any torch module from raw x to logits. `samples` is a batch of
    `load_data`, a tensor x with the true answers as `y`, or a tuple (x, y) or (x, y, lengths); without y the
    attack moves away from the model's own predictions. `budget`, `goal` and `defense` are written
    "linf:0.03", {"name": "linf", "eps": 0.03} or limen.budgets.linf(0.03); `defense` may be a list. Universal
    attacks search for their perturbation on `crafting`, or on the samples themselves; `surrogate={"models":
    [...]}` computes the attack on other models (transfer). Clips are stored with 16 bits and pictures
    unrounded (`store`: "auto", "float", "int16" or "uint8").
    """
    spec = AttackSpec.parse({**_spec(name), "goal": goal, "budget": budget, **options})
    configured, surrogate = Attack(spec), spec.surrogate
    seed = integer(seed, "seed")
    if not isinstance(attack_on_defense, bool):
        raise UserError(
            "attack_on_defense must be True (the attack knows the defence) or False, got "
            f"{attack_on_defense!r}."
        )
    seen, batch = _prepared(model, samples, y, seed)
    victim = seen
    if defense is not None:
        victim = defended(seen, listed(defense))
        check_outputs(victim, batch, f"{_called(seen)} behind its defence")
    stop = None
    if surrogate is not None:
        opened = partial(_surrogate, known=seen, batch=batch)
        seen = surrogate.attacked_model(opened)
        stop = opened(surrogate.stop) if surrogate.stop else None
    elif attack_on_defense:
        seen = victim
    configured.craft(seen, batch if crafting is None else _crafting(seen, crafting, batch, seed), seed=seed)
    attacked = configured(
        seen,
        batch,
        seed=seed,
        victim=victim,
        store=stored_as(store, batch.kind),
        stop=stop,
        stop_every=surrogate.stop_every if surrogate else 1,
    )
    _warn_if_blind(attacked)
    return attacked


def measure(
    samples: Any,
    result: Any,
    metrics: Sequence[Any] | None = None,
    *,
    rate_hz: int | None = None,
    classes: list[str] | None = None,
) -> list[dict[str, Any]]:
    """One row per sample: every metric that applies, or those named. `result` is what `attack` returned, or
    the changed samples alone, for which only metrics that use no model apply; clips then need their
    `rate_hz`."""
    attacked = result if isinstance(result, Attacked) else None
    metrics = None if metrics is None else listed(metrics)
    rate_hz = None if rate_hz is None else integer(rate_hz, "rate_hz", 1)
    batch = _attacked_samples(samples, attacked) if attacked else as_batch(samples)
    x_adv = attacked.x_adv if attacked else as_batch(result).x
    if x_adv.shape != batch.x.shape:
        raise UserError(
            f"measure: the clean samples have the shape {tuple(batch.x.shape)}, the changed ones "
            f"{tuple(x_adv.shape)}."
        )
    rate_hz = rate_hz or (attacked.rate_hz if attacked else None)
    if batch.kind == "clip" and rate_hz is None:
        raise UserError("measure: the sample rate of these clips is not known. Give it: rate_hz=16000.")
    if attacked is None:
        return rows_of(Samples(batch, x_adv, rate_hz), applicable(metrics, batch.kind, None, False))
    output: Output = "class" if isinstance(answers_of(attacked.clean), Tensor) else "transcript"
    credit = {"success": attacked.success.tolist(), "already": attacked.already.tolist()}
    judged = Samples(
        batch,
        x_adv,
        rate_hz,
        classes or attacked.classes,
        attacked.clean,
        attacked.adversarial,
        credit,
        attacked.goal.target,
    )
    rows = rows_of(judged, applicable(metrics, batch.kind, output, True))
    return [{**row, **{name: values[i] for name, values in credit.items()}} for i, row in enumerate(rows)]


def over_the_air(
    model: Any, samples: Any, result: Attacked, through: Sequence[Any], *, draws: int = 20, seed: int = 0
) -> Tensor:
    """(B,) share of fresh draws of these transforms, through=["room"], in which the attack reaches its
    goal."""
    if not isinstance(result, Attacked):
        raise UserError(
            "over_the_air judges by the goal of an attack: give all that limen.attack returned, got "
            f"{type(result).__name__}."
        )
    options = parse_options(OverTheAir, {"through": listed(through), "draws": draws}, "over_the_air")
    batch = _attacked_samples(samples, result)
    return share_over_the_air(
        as_model(model, batch), batch, result.x_adv, result.goal, options, seed=integer(seed, "seed")
    )


def as_model(model: Any, batch: Batch) -> Model:
    """The model, a model by name, or a torch module, checked on two of the samples. The number of classes of
    a module is the width of its output."""
    if isinstance(model, Model) or not isinstance(model, nn.Module):
        known = load_model(model)
        check_outputs(known, batch, _called(known))
        return known
    wrapped = load_model(model, kind=batch.kind, classes=2)
    return load_model(model, kind=batch.kind, classes=logit_columns(wrapped, batch, type(model).__name__))


def _prepared(model: Any, samples: Any, y: Any, seed: int) -> tuple[Model, Batch]:
    """A model and a batch that fit each other; samples without labels get the predictions of the model."""
    batch = as_batch(samples, y)
    model = as_model(model, batch)
    if batch.y is UNKNOWN:
        with torch.no_grad(), evaluating(model):
            predicted = predictions(model(batch.x, batch.lengths, seeds.generators(seed, batch.ids, "clean")))
        batch = replace(batch, y=predicted)
    check_fits(model, batch)
    return model, batch


def _surrogate(spec: dict[str, Any], known: Model, batch: Batch) -> Model:
    """A model that the attack is computed on in place of `known`, after a check that both fit each other."""
    model = load_model(spec)
    rate_hz = known.rate_hz or model.rate_hz
    check_surrogate(model, known, batch, rate_hz, f"The surrogate {spec['name']}", _called(known))
    return model


def _called(model: Model) -> str:
    """Name of a model in messages: the class name of its network."""
    return type(inner(model)).__name__


def _warn_if_blind(attacked: Attacked) -> None:
    """Warn if the search never got a usable gradient."""
    calls = attacked.calls
    if bool(calls.backward.any()) and torch.equal(calls.dead, calls.backward):
        warnings.warn(
            "Every gradient of the model was zero or not finite, so the attack searched blindly and its "
            "result is no evidence of the model's robustness. Let gradients through the module (no "
            "torch.no_grad, detach or rounding between x and logits), name a transform that has none as the "
            "defense bpda, or use an attack without gradients (square).",
            stacklevel=3,
        )


def _attacked_samples(samples: Any, result: Attacked) -> Batch:
    """The attacked batch, after a check that `samples` are the same."""
    given = as_batch(samples)
    if given.x.shape != result.batch.x.shape or not torch.equal(given.x, result.batch.x):
        raise UserError(
            "These samples are not the ones that the result belongs to: give those that were attacked, in "
            "the same order."
        )
    return result.batch


def _crafting(model: Model, samples: Any, attacked: Batch, seed: int) -> Batch:
    """The samples on which a universal attack is crafted."""
    batch = _prepared(model, samples, None, seed)[1]
    if batch.kind == "picture" and batch.x.shape[1:] != attacked.x.shape[1:]:
        raise UserError(
            f"crafting: the samples must have the shape of those attacked, {tuple(attacked.x.shape[1:])}, "
            f"got {tuple(batch.x.shape[1:])}."
        )
    return batch


def _spec(attack: Any) -> dict[str, Any]:
    if isinstance(attack, str):
        return {"name": attack}
    if not isinstance(attack, Mapping):
        raise UserError(
            f'An attack is named first, as in attack("pgd", model, x, y); got {type(attack).__name__}.'
        )
    return dict(attack)

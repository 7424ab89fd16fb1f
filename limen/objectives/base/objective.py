"""Declarations shared by training objectives, and the choice of an objective for a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from limen.core.components import Component, load, names, parse
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import Batch, Output
from limen.models.base.model import Model


class ObjectiveOptions(Options):
    """Options of an objective; class variables declare the models that it can train."""

    outputs: ClassVar[tuple[Output, ...]]
    """Outputs of the models that the objective can train."""
    default_for: ClassVar[tuple[Output, ...]] = ()
    """Outputs of the models for which the objective is the default."""


@dataclass(frozen=True)
class Objective:
    """A configured objective: `objective(model, batch, streams)` gives the loss of each sample, (B,)."""

    component: Component
    options: ObjectiveOptions

    @property
    def spec(self) -> dict[str, Any]:
        """The objective with every option, as plain data."""
        return {"name": self.component.name, **self.options.model_dump(mode="json")}

    def __call__(self, model: Model, batch: Batch, streams: Sequence[torch.Generator]) -> Tensor:
        return self.component.function(model, batch, streams, self.options)


def objective_for(model: Model, spec: str | Mapping[str, Any] | None = None) -> Objective:
    """The objective of this spec, or the default one for the model's output; raises a UserError if it
    cannot train the model."""
    if spec is None:
        spec = _default(model.output)
    component, options = parse("objectives", spec)
    assert isinstance(options, ObjectiveOptions)
    if model.output not in options.outputs:
        possible = [name for name in names("objectives") if model.output in _options(name).outputs]
        raise UserError(
            f"The objective {component.name} trains models with the output {' or '.join(options.outputs)}, "
            f"but this model's is a {model.output}. Objectives for it: {', '.join(possible) or 'none'}."
        )
    return Objective(component, options)


def _default(output: Output) -> str:
    """The name of the default objective for this output."""
    for name in names("objectives"):
        if output in _options(name).default_for:
            return name
    raise UserError(f"A model whose output is a {output} has no default training objective: name one.")


def _options(name: str) -> type[ObjectiveOptions]:
    options = load("objectives", name).options
    assert issubclass(options, ObjectiveOptions)
    return options

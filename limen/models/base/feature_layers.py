"""A classifier that also returns the activations of one of its layers, as the `features` of its logits."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from limen.core.errors import UserError
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Model


class WithFeatures(Model):
    """The same logits, with the activations of a layer, (B, n), as `logits.features`. The model itself is
    not changed."""

    def __init__(self, model: Model, layer: str):
        super().__init__()
        self.inner, self.layer = model, layer
        self.copy_facts(model)
        self.training = model.training

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        captured: list[Tensor] = []
        module = find_layer(self.inner, self.layer)
        if self.layer:
            hook = module.register_forward_hook(lambda _, inputs, output: captured.append(output))
        else:
            hook = module.register_forward_pre_hook(lambda _, inputs: captured.append(inputs[0]))
        try:
            logits = self.inner(x, lengths, generators)
        finally:
            hook.remove()
        if not captured or not isinstance(captured[-1], Tensor) or len(captured[-1]) != len(logits):
            raise UserError(
                f'The layer "{self.layer}" must return a tensor with one row per sample. Name another layer.'
            )
        logits.features = captured[-1].flatten(1)
        return logits


def find_layer(model: Model, name: str) -> nn.Module:
    """The module with this name, whether or not the network is wrapped; the last linear layer if the name
    is empty. The UserError for an unknown name lists the names."""
    if isinstance(model, Ensemble):
        raise UserError("Features of a layer need a single model, got an ensemble. Attack one of its models.")
    modules = dict(model.named_modules())
    if not name:
        linear = [module for module in modules.values() if isinstance(module, nn.Linear)]
        if linear:
            return linear[-1]
    found = [full for full in modules if full == name or full.endswith(f".{name}")]
    if not name or not found:
        known = ", ".join(full for full, module in modules.items() if not list(module.children()))
        trouble = (
            f'The model has no layer "{name}".' if name else "The model has no linear layer: name a layer."
        )
        raise UserError(f"{trouble} Its layers are: {known}.")
    return modules[min(found, key=len)]  # the outermost of several layers with this name

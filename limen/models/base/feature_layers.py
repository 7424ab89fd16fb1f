"""A classifier that shows what one of its layers makes of its input: the answers carry it as `features`, as
those of encoders do."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from limen.core.errors import UserError
from limen.models.base.ensemble import Ensemble
from limen.models.base.model import Model


class Shown(Model):
    """The same answers, with the features of a layer: (B, n) as `logits.features`. The model itself is left
    as it is."""

    def __init__(self, model: Model, layer: str):
        super().__init__()
        self.inner, self.layer = model, layer
        self.copy_facts(model)
        self.training = model.training

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        seen: list[Tensor] = []
        module = find_layer(self.inner, self.layer)
        if self.layer:
            hook = module.register_forward_hook(lambda _, inputs, output: seen.append(output))
        else:
            hook = module.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            logits = self.inner(x, lengths, generators)
        finally:
            hook.remove()
        if not seen or not isinstance(seen[-1], Tensor) or len(seen[-1]) != len(logits):
            raise UserError(
                f'The layer "{self.layer}" gave no tensor with a row for each sample. Name another one.'
            )
        logits.features = seen[-1].flatten(1)
        return logits


def find_layer(model: Model, name: str) -> nn.Module:
    """The module with this name, whatever wraps the network; without a name the last linear layer. A
    UserError lists the names."""
    if isinstance(model, Ensemble):
        raise UserError("A layer is one model's own, but several models came. Attack one of them.")
    modules = dict(model.named_modules())
    if not name:
        linear = [module for module in modules.values() if isinstance(module, nn.Linear)]
        if linear:
            return linear[-1]
    found = [full for full in modules if full == name or full.endswith(f".{name}")]
    if not name or not found:
        known = ", ".join(full for full, module in modules.items() if not list(module.children()))
        trouble = (
            f'The model has no layer "{name}".'
            if name
            else "The model has no linear layer: name another one."
        )
        raise UserError(f"{trouble} It has: {known}.")
    return modules[min(found, key=len)]  # the outermost, if an inner network has one of the same name

"""A model that draws at random is not beaten by one lucky draw."""

import torch
from torch import Tensor

from limen.attacks.engine.run import Attack
from limen.core.types import Batch
from limen.models.base.model import Model


class Coin(Model):
    """Logits that depend on x, with noise that sometimes turns the answer over."""

    kind, output, classes, random, draws = "picture", "class", ["a", "b"], True, 1

    def forward(self, x: Tensor, lengths: Tensor | None = None, generators=None) -> Tensor:
        z = x.flatten(1).sum(1) - 2.0
        noise = torch.stack([torch.randn((), generator=g) for g in generators]).to(x)
        z = z + 0.5 * noise
        return torch.stack([-z, z], 1)


def test_many_steps_on_a_random_model_go_on_after_the_first_lucky_draw():
    x = torch.full((64, 1, 2, 2), 0.3)
    batch = Batch("picture", [str(i) for i in range(64)], x, torch.zeros(64, dtype=torch.long))
    for name in ("pgd", "bim", "mi_fgsm"):
        result = Attack.parse({"name": name, "steps": 20, "budget": {"name": "linf", "eps": 0.5}})(
            Coin(), batch
        )
        # the best point, x = 0.8 everywhere, lies 1.2 = 2.4 standard deviations beyond the boundary; the
        # first lucky draw lies at it
        assert result.success.float().mean() > 0.9, name
        assert (result.calls.backward == 20).all(), name

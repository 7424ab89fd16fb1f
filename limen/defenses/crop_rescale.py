"""Random square crops, each stretched to the full size, and the model's answers averaged. Guo et al. 2018,
https://arxiv.org/abs/1711.00117.

Crops are drawn anew at every call, so an attacker follows the mean over crops: the gradient goes through all
of them, and may be averaged over several calls (EOT, Athalye et al. 2018, https://arxiv.org/abs/1707.07397).
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.options import Options
from limen.defenses.base.defended import Defended, check_kind, streams_of
from limen.models.base.model import Model


class CropRescale(Options):
    crop_size: int | None = Field(default=None, ge=1)
    """Side of the crops in pixels; null takes it from crop_size_factor."""
    crop_size_factor: float = Field(default=0.75, gt=0, le=1)
    """Side of the crops as a part of the picture's shorter side."""
    num_samples: int = Field(default=10, ge=1)
    """Crops per picture and call."""
    average: Literal["logits", "probabilities"] = "logits"
    """What is averaged over the crops. CrAdv averages logits, the paper the softmax probabilities."""
    draws: int = Field(default=1, ge=1)
    """Calls over which an attacker averages gradients; each already holds num_samples crops."""


class Cropped(Defended):
    def __init__(self, model: Model, options: CropRescale):
        super().__init__(model)
        self.options, self.random, self.draws = options, True, max(options.draws, model.draws)
        if model.shape is not None:
            self.side(model.shape)

    def side(self, shape: Sequence[int]) -> int:
        shorter = min(shape[-2:])
        side = self.options.crop_size or max(1, int(shorter * self.options.crop_size_factor))
        if side > shorter:
            raise UserError(
                f"The defense crop_rescale was asked for crops of {side} pixels, but the pictures have only "
                f"{shorter}. Choose crop_size at most {shorter}, or leave it out."
            )
        return side

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        side, size, n = self.side(x.shape), tuple(x.shape[-2:]), self.options.num_samples
        streams = streams_of(x, generators, "crop_rescale")
        corners = [
            torch.stack([torch.randint(room - side + 1, (n,), generator=g) for room in size], 1).tolist()
            for g in streams
        ]
        answers = []
        for k in range(n):
            crops = [
                picture[:, top : top + side, left : left + side]
                for picture, (top, left) in zip(x, (c[k] for c in corners), strict=True)
            ]
            stretched = F.interpolate(torch.stack(crops), size, mode="bilinear", align_corners=False)
            answers.append(self.inner(stretched, lengths, generators))
        logits = torch.stack(answers)
        if self.options.average == "logits":
            return logits.mean(0)
        return logits.log_softmax(2).logsumexp(0) - torch.tensor(float(n)).log().to(logits)


def crop_rescale(model: Model, options: CropRescale) -> Model:
    check_kind(model, "picture", "crop_rescale", "quantisation, mp3, low_pass")
    return Cropped(model, options)

"""Average the model's answers over random square crops, each rescaled to the full size. Guo et al. 2018,
https://arxiv.org/abs/1711.00117.

Crops are drawn anew at every call, so an attacker follows the mean over crops: the gradient passes through
all of them, and may be averaged over several calls (EOT, Athalye et al. 2018, https://arxiv.org/abs/1707.07397).
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.errors import UserError
from limen.core.types import Kind, Output, Outputs
from limen.defenses.base.defended import Defended, streams_of
from limen.defenses.base.options import RandomDefenseOptions
from limen.defenses.base.voting import mean_outputs
from limen.models.base.model import Model


class CropRescale(RandomDefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("picture",)
    outputs: ClassVar[tuple[Output, ...]] = ("class",)

    crop_size: int | None = Field(default=None, ge=1)
    """Side of the crops in pixels; null: see crop_size_factor."""
    crop_size_factor: float = Field(default=0.75, gt=0, le=1)
    """Side of the crops as a share of the picture's shorter side."""
    num_samples: int = Field(default=10, ge=1)
    """Crops per picture in one call."""
    average: Literal["logits", "probabilities"] = "logits"
    """The quantity averaged over the crops. CrAdv averages logits, the paper softmax probabilities."""
    draws: int = Field(default=1, ge=1)
    """Calls over which an attacker averages gradients; each one averages num_samples crops already."""


class Cropped(Defended):
    def __init__(self, model: Model, options: CropRescale):
        super().__init__(model, options)
        self.options = options
        if model.shape is not None:
            self.side(model.shape)

    def side(self, shape: Sequence[int]) -> int:
        shorter = min(shape[-2:])
        side = self.options.crop_size or max(1, int(shorter * self.options.crop_size_factor))
        if side > shorter:
            raise UserError(
                f"The defense crop_rescale cannot take crops of {side} pixels: the pictures have only "
                f"{shorter}. Choose crop_size at most {shorter}, or leave it out."
            )
        return side

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
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
        return mean_outputs(answers, self.options.average)


def crop_rescale(model: Model, options: CropRescale) -> Model:
    return Cropped(model, options)

"""Small random changes that a sample meets on its way to the model, drawn anew at every call.

Pictures are moved, turned, scaled, lit otherwise and get noise, like a photograph of the picture (Athalye et
al. 2018, https://arxiv.org/abs/1707.07397). Clips begin a little earlier or later, louder or softer, with
noise. All of it can be differentiated; an attack that is to survive follows the mean over draws (EOT):
`through: [{name: jitter}]`.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.options import Options
from limen.core.seeds import normal_like, uniform_like
from limen.core.types import Outputs, valid
from limen.defenses.base.defended import Defended, at_snr, rate_of, streams_of
from limen.models.base.model import Model


class Jitter(Options):
    shift: float = Field(default=0.05, ge=0, lt=1)
    """Pictures: moved by up to this share of their side, each way for itself; what was outside is the nearest
    edge."""
    rotation_deg: float = Field(default=5.0, ge=0, le=180)
    """Pictures: turned by up to this angle, either way."""
    scale: float = Field(default=0.05, ge=0, lt=1)
    """Pictures: made larger or smaller by up to this share."""
    brightness: float = Field(default=0.1, ge=0, lt=1)
    """Pictures: made lighter or darker by up to this share."""
    noise: float = Field(default=0.01, ge=0)
    """Pictures: standard deviation of the noise on every value."""
    shift_s: float = Field(default=0.01, ge=0)
    """Clips: begin earlier or later by up to this time; silence takes the free place."""
    gain_db: float = Field(default=3.0, ge=0)
    """Clips: made louder or softer by up to this."""
    snr_db: float | None = 30.0
    """Clips: level of the clip over that of the noise; null: no noise."""
    draws: int = Field(default=8, ge=1)
    """Draws over which an attacker averages gradients."""


class Jittered(Defended):
    def __init__(self, model: Model, options: Jitter):
        super().__init__(model)
        self.options, self.random, self.draws = options, True, max(options.draws, model.draws)
        self.most = round(options.shift_s * rate_of(model, "jitter")) if model.kind == "clip" else 0

    def picture(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        o, height, width = self.options, *x.shape[-2:]
        across, down, turn, zoom, light = (2 * uniform_like(x.new_zeros(len(x), 5), generators) - 1).unbind(1)
        angle, size = turn * math.radians(o.rotation_deg), 1 + zoom * o.scale
        cos, sin = angle.cos() / size, angle.sin() / size
        # in coordinates that run from -1 to 1 along both sides a turn must know the sides' ratio
        rows = torch.stack(
            [cos, -sin * height / width, 2 * o.shift * across, sin * width / height, cos, 2 * o.shift * down],
            1,
        )
        grid = F.affine_grid(rows.view(-1, 2, 3), list(x.shape), align_corners=False)
        y = F.grid_sample(x, grid, padding_mode="border", align_corners=False) * (
            1 + o.brightness * light
        ).view(-1, 1, 1, 1)
        return (y + o.noise * normal_like(x, generators) if o.noise else y).clamp(0, 1)

    def clip(self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator]) -> Tensor:
        u = uniform_like(x.new_zeros(len(x), 2), generators)
        later = (u[:, 0] * (2 * self.most + 1)).long() - self.most
        place = torch.arange(x.shape[1], device=x.device) - later[:, None]
        y = x.gather(1, place.clamp(0, x.shape[1] - 1)) * ((place >= 0) & (place < x.shape[1]))
        y = y * 10 ** (self.options.gain_db * (2 * u[:, 1:] - 1) / 20)
        mask = valid(x, lengths)
        y = y if mask is None else y * mask
        if self.options.snr_db is not None:
            y = y + at_snr(normal_like(x, generators, lengths), y, y.new_full((len(y),), self.options.snr_db))
        return y.clamp(-1, 1)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        streams = streams_of(x, generators, "jitter")
        y = self.picture(x, streams) if self.kind == "picture" else self.clip(x, lengths, streams)
        return self.inner(y, lengths, generators)


def jitter(model: Model, options: Jitter) -> Model:
    return Jittered(model, options)

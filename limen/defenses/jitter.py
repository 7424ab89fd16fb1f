"""Apply small random changes to every sample, drawn anew at every call.

Pictures are shifted, rotated, scaled, brightened or darkened, and get noise, like a photograph of the picture
(Athalye et al. 2018, https://arxiv.org/abs/1707.07397). Clips are shifted in time, made louder or softer, and
get noise. All changes can be differentiated; a robust attack follows the mean over draws (EOT):
`through: [{name: jitter}]`.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.seeds import normal_like, uniform_like
from limen.core.types import valid
from limen.defenses.base.defended import Transform, at_snr, rate_of, streams_of
from limen.defenses.base.options import RandomDefenseOptions
from limen.models.base.model import Model


class Jitter(RandomDefenseOptions):
    shift: float = Field(default=0.05, ge=0, lt=1)
    """Pictures: largest shift as a share of the side, drawn for each direction; uncovered pixels repeat the
    nearest edge."""
    rotation_deg: float = Field(default=5.0, ge=0, le=180)
    """Pictures: largest rotation, in either direction."""
    scale: float = Field(default=0.05, ge=0, lt=1)
    """Pictures: largest relative change of size."""
    brightness: float = Field(default=0.1, ge=0, lt=1)
    """Pictures: largest relative change of brightness."""
    noise: float = Field(default=0.01, ge=0)
    """Pictures: standard deviation of the noise."""
    shift_s: float = Field(default=0.01, ge=0)
    """Clips: largest shift in time, in either direction; the gap is filled with silence."""
    gain_db: float = Field(default=3.0, ge=0)
    """Clips: largest change of level, in either direction."""
    snr_db: float | None = 30.0
    """Clips: signal-to-noise ratio of the added noise; null: no noise."""


class Jittered(Transform):
    def __init__(self, model: Model, options: Jitter):
        super().__init__(model, options)
        self.options = options
        self.most = round(options.shift_s * rate_of(model, "jitter")) if model.kind == "clip" else 0

    def picture(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        o, height, width = self.options, *x.shape[-2:]
        across, down, turn, zoom, light = (2 * uniform_like(x.new_zeros(len(x), 5), generators) - 1).unbind(1)
        angle, size = turn * math.radians(o.rotation_deg), 1 + zoom * o.scale
        cos, sin = angle.cos() / size, angle.sin() / size
        # coordinates run from -1 to 1 along both sides, so a rotation depends on the ratio of the sides
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

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        streams = streams_of(x, generators, "jitter")
        return self.picture(x, streams) if self.kind == "picture" else self.clip(x, lengths, streams)


def jitter(model: Model, options: Jitter) -> Model:
    return Jittered(model, options)

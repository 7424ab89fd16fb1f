"""MP3 compression of every clip before the model hears it. Das et al. 2018, https://arxiv.org/abs/1805.11852.

The file is made and read in memory by a real codec. The attacker takes it for the identity (BPDA).
"""

import torch
from pydantic import Field
from torch import Tensor

from limen.audio import codecs
from limen.core.options import Options
from limen.defenses.base.defended import Defended, check_kind, rate_of, straight_through
from limen.models.base.model import Model


class Mp3(Options):
    bitrate_kbps: float = Field(default=32, ge=8, le=320)
    """Bits per second of the file, in thousands; which ones there are depends on the sample rate (8 to 160 at
    16 kHz)."""


class Compressed(Defended):
    def __init__(self, model: Model, options: Mp3):
        super().__init__(model)
        self.options, self.rate = options, rate_of(model, "mp3")
        codecs.mp3(
            torch.zeros(1), self.rate, options.bitrate_kbps
        )  # a rate or bit rate that MP3 does not know is said now

    def transform(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        return straight_through(x, codecs.mp3(x, self.rate, self.options.bitrate_kbps, lengths))


def mp3(model: Model, options: Mp3) -> Model:
    check_kind(model, "clip", "mp3", "jpeg, bit_depth, crop_rescale")
    return Compressed(model, options)

"""Compress every clip as MP3 before the model evaluates it. Das et al. 2018, https://arxiv.org/abs/1805.11852.

The clip is encoded and decoded in memory by a real codec. An attacker differentiates it as the identity
(BPDA).
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.audio import codecs
from limen.core.types import Kind
from limen.defenses.base.defended import StraightThrough, rate_of
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model


class Mp3(DefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("clip",)

    bitrate_kbps: float = Field(default=32, ge=8, le=320)
    """Thousands of bits per second; the allowed values depend on the sample rate (8 to 160 at 16 kHz)."""


class Compressed(StraightThrough):
    def __init__(self, model: Model, options: Mp3):
        super().__init__(model, options)
        self.options, self.rate = options, rate_of(model, "mp3")
        # refuses a rate or bit rate that MP3 does not have before any work is done
        codecs.mp3(torch.zeros(1), self.rate, options.bitrate_kbps)

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        return codecs.mp3(x, self.rate, self.options.bitrate_kbps, lengths)


def mp3(model: Model, options: Mp3) -> Model:
    return Compressed(model, options)

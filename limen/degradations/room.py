"""Simulated room (image sources, limen.audio.rooms) that grows larger and more reverberant. Sides grow from
two thirds of `size_m` to `size_m`, RT60 from 0 to `longest_s`. Positions of speaker and microphone are drawn
at random; the direct sound keeps its level."""

import math
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from limen.audio.rooms import convolved, placed, response
from limen.core.options import Options
from limen.core.seeds import generator
from limen.degradations.shared.scale import between

TAIL = 1.05
"""Length of the response, as a multiple of the RT60."""


Side = Annotated[float, Field(ge=2, le=100)]


class Room(Options):
    size_m: tuple[Side, Side, Side] = (7.0, 5.0, 3.2)
    """Length, width and height at strength 100."""
    longest_s: float = Field(default=1.5, gt=0, le=20)
    """RT60 at strength 100."""
    distance_m: float = Field(default=1.5, gt=0)
    """Distance from speaker to microphone, or the largest that fits."""


def room(x: Tensor, strength: float, rate_hz: int, options: Room, seed: int) -> Tensor:
    if strength == 0:
        return x
    one = torch.ones(1, dtype=torch.float64)
    rt60_s = one * options.longest_s * strength / 100
    size = torch.tensor([options.size_m], dtype=torch.float64) * between(2 / 3, 1, strength)
    chance = generator(seed, "room")
    rooms = placed(
        torch.rand(1, 5, generator=chance, dtype=torch.float64), size, one * options.distance_m, rt60_s
    )
    # drawn up to the longest RT60 at any strength, so that the tail is always the same noise
    noise = torch.randn(
        1, math.ceil(TAIL * options.longest_s * rate_hz), generator=chance, dtype=torch.float64
    )
    h = (
        response(rooms, rate_hz, noise[:, : math.ceil(TAIL * float(rt60_s) * rate_hz) + 1])
        * 4
        * math.pi
        * rooms.distance[:, None]
    )
    return convolved(x[None], h.to(x))[0]

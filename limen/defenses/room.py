r"""Play every clip in a simulated room: loudspeaker, reverberation and background noise, drawn anew at every
call.

    x' = h * x + n,    h the response of a shoebox room (limen/audio/rooms.py),
        n white noise at a drawn signal-to-noise ratio

Rooms of drawn size, reverberation and distance, as in the over-the-air attacks of Qin et al. 2019,
https://arxiv.org/abs/1903.10346, and Yakura and Sakuma 2019, https://arxiv.org/abs/1810.11793. The direct
sound has no delay, and the clip keeps about its loudness. Everything but the noise is linear, so gradients
pass through it; a robust attack follows their mean over rooms (EOT, Athalye et al. 2018,
https://arxiv.org/abs/1707.07397): `through: [{name: room}]`. Differs from the papers: the rooms are not a
fixed set of measured or simulated ones, and the loudspeaker only removes the lowest frequencies.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from limen.audio import filters, rooms
from limen.core.seeds import normal_like, uniform_like
from limen.core.types import Kind, valid
from limen.defenses.base.defended import Transform, at_snr, rate_of, streams_of
from limen.defenses.base.options import RandomDefenseOptions
from limen.models.base.model import Model


def _range(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError(f"a range is [lower, upper], got {list(value)}")
    return value


Range = Annotated[tuple[float, float], AfterValidator(_range)]
"""Lower and upper end of a uniform distribution."""
PositiveRange = Annotated[
    tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], AfterValidator(_range)
]


class Room(RandomDefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("clip",)

    side_m: PositiveRange = (3.0, 8.0)
    """Range of the width and the length of the room, drawn independently."""
    height_m: PositiveRange = (2.4, 3.5)
    """Range of the height of the room."""
    rt60_s: PositiveRange = (0.15, 0.5)
    """Range of the reverberation time, in which sound decays by 60 dB: 0.2 in a furnished living room, 0.5 in
    an office, 1 or more in a hall."""
    distance_m: PositiveRange = (0.5, 3.0)
    """Range of the distance between loudspeaker and microphone, limited by the size of the room."""
    snr_db: Range | None = (15.0, 30.0)
    """Range of the signal-to-noise ratio of the background noise; null: no noise."""
    low_hz: float | None = Field(default=100.0, gt=0)
    """Lowest frequency of the loudspeaker; null: no limit."""


class InRoom(Transform):
    def __init__(self, model: Model, options: Room):
        super().__init__(model, options)
        self.options, self.rate = options, rate_of(model, "room")

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        """x -> the recording of a microphone in the room."""
        streams = streams_of(x, generators, "room")
        h = self.responses(x, streams)
        if self.options.low_hz is not None:
            x = filters.high_pass(x, self.options.low_hz, self.rate)
        y = rooms.convolved(x, h)
        mask = valid(x, lengths)
        y = y if mask is None else y * mask  # reverberation continues into the padding
        if self.options.snr_db is not None:
            low, high = self.options.snr_db
            snr_db = low + (high - low) * uniform_like(x.new_zeros(len(x), 1), streams).squeeze(1)
            y = y + at_snr(normal_like(x, streams, lengths), y, snr_db)
        return y.clamp(-1, 1)

    def responses(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """(B, L) impulse responses of one room per clip, scaled to keep the loudness of a clip on average."""
        o = self.options
        u = uniform_like(x.new_zeros(len(x), 10), generators)
        ends = u.new_tensor([o.side_m, o.side_m, o.height_m, o.distance_m, o.rt60_s])
        drawn = ends[:, 0] + (ends[:, 1] - ends[:, 0]) * u[:, :5]
        room = rooms.placed(u[:, 5:], drawn[:, :3], drawn[:, 3], drawn[:, 4])
        taps = (room.rt60_s * self.rate).ceil().long().cpu()
        noise = normal_like(x.new_zeros(len(x), int(taps.max())), generators, taps)
        return rooms.response(room, self.rate, noise) / room.energy.sqrt()[:, None]


def room(model: Model, options: Room) -> Model:
    return InRoom(model, options)

r"""A clip played in a room: loudspeaker, echoes and background noise, drawn anew at every call.

    x' = h * x + n,    h the response of a shoebox room (limen/audio/rooms.py),
        n white noise at a drawn signal-to-noise ratio

Rooms of drawn size, reverberation and distance, as in the over-the-air attacks of Qin et al. 2019,
https://arxiv.org/abs/1903.10346, and Yakura and Sakuma 2019, https://arxiv.org/abs/1810.11793. The direct
sound keeps its place and the clip about its loudness. Everything but the noise is linear, so gradients go
through it; an attack that is to survive follows their mean over rooms (EOT, Athalye et al. 2018,
https://arxiv.org/abs/1707.07397): `through: [{name: room}]`. Departs from the papers: the rooms are not a
fixed set of measured or simulated ones, and the loudspeaker only takes away the lowest tones.
"""

from collections.abc import Sequence
from typing import Annotated

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from limen.audio import filters, rooms
from limen.core.options import Options
from limen.core.seeds import normal_like, uniform_like
from limen.core.types import Outputs, valid
from limen.defenses.base.defended import Defended, at_snr, check_kind, rate_of, streams_of
from limen.models.base.model import Model


def _range(value: tuple[float, float]) -> tuple[float, float]:
    if value[0] > value[1]:
        raise ValueError(f"a range runs from its lower to its upper end, but {list(value)} came.")
    return value


Range = Annotated[tuple[float, float], AfterValidator(_range)]
"""Lower and upper end of what is drawn uniformly."""
PositiveRange = Annotated[
    tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]], AfterValidator(_range)
]


class Room(Options):
    side_m: PositiveRange = (3.0, 8.0)
    """Range of the width and of the length of the room, each drawn for itself."""
    height_m: PositiveRange = (2.4, 3.5)
    """Range of its height."""
    rt60_s: PositiveRange = (0.15, 0.5)
    """Range of the time in which sound decays by 60 dB: 0.2 a furnished living room, 0.5 an office, 1 and
    more a hall."""
    distance_m: PositiveRange = (0.5, 3.0)
    """Range of the distance from loudspeaker to microphone; in a smaller room they stand as far apart as they
    fit."""
    snr_db: Range | None = (15.0, 30.0)
    """Range of the loudness of the clip over that of the background noise; null: a silent room."""
    low_hz: float | None = Field(default=100.0, gt=0)
    """The loudspeaker gives nothing below this; null: it gives everything."""
    draws: int = Field(default=8, ge=1)
    """Rooms over which an attacker averages gradients."""


class InRoom(Defended):
    def __init__(self, model: Model, options: Room):
        super().__init__(model)
        self.options, self.rate = options, rate_of(model, "room")
        self.random, self.draws = True, max(options.draws, model.draws)

    def heard(self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator]) -> Tensor:
        """x -> what a microphone in the room records."""
        h = self.responses(x, generators)
        if self.options.low_hz is not None:
            x = filters.high_pass(x, self.options.low_hz, self.rate)
        y = rooms.convolved(x, h)
        mask = valid(x, lengths)
        y = y if mask is None else y * mask  # echoes ring on into the padding
        if self.options.snr_db is not None:
            low, high = self.options.snr_db
            snr_db = low + (high - low) * uniform_like(x.new_zeros(len(x), 1), generators).squeeze(1)
            y = y + at_snr(normal_like(x, generators, lengths), y, snr_db)
        return y.clamp(-1, 1)

    def responses(self, x: Tensor, generators: Sequence[torch.Generator]) -> Tensor:
        """(B, L): of one room per clip, scaled so that a clip keeps its loudness on average."""
        o = self.options
        u = uniform_like(x.new_zeros(len(x), 10), generators)
        ends = u.new_tensor([o.side_m, o.side_m, o.height_m, o.distance_m, o.rt60_s])
        drawn = ends[:, 0] + (ends[:, 1] - ends[:, 0]) * u[:, :5]
        room = rooms.placed(u[:, 5:], drawn[:, :3], drawn[:, 3], drawn[:, 4])
        taps = (room.rt60_s * self.rate).ceil().long().cpu()
        noise = normal_like(x.new_zeros(len(x), int(taps.max())), generators, taps)
        return rooms.response(room, self.rate, noise) / room.energy.sqrt()[:, None]

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        return self.inner(self.heard(x, lengths, streams_of(x, generators, "room")), lengths, generators)


def room(model: Model, options: Room) -> Model:
    check_kind(model, "clip", "room", "jitter, crop_rescale, jpeg")
    return InRoom(model, options)

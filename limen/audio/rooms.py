r"""Shoebox rooms by image sources, batched and differentiable. Allen and Berkley 1979,
https://doi.org/10.1121/1.382599:

    h(t) = sum_k  beta^(|k_x| + |k_y| + |k_z|)  delta(t - d_k / c) / (4 pi d_k),
        d_k the distance from image k to the microphone
    image k of a source at s between walls at 0 and L:   k L + s  (k even),   k L + L - s  (k odd)

beta^2 = exp(-24 ln(10) V / (c S RT60)) on every wall (Eyring), so that the sound decays by 60 dB in RT60.
Departs from the paper: images are counted exactly for the first EARLY_S only; later reflections are so dense
that it sounds like noise, and is noise, with the energy c / (4 pi V) 10^(-6 t / RT60) per second that the
images would have. Time counts from the arrival of the direct sound, so words keep their place.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from limen.audio.filters import transform_size

SPEED_M_S = 343.0
EARLY_S = 0.05
"""Reflections up to this time after the direct sound are computed one by one; later ones are a tail of noise.
In living rooms the ear does not distinguish them after 10 to 30 ms."""
FINE = 16
"""Arrivals are placed on a grid this many times finer than samples (2 us at 32 kHz), then limited to the band
of the samples."""
AROUND = 64
"""Samples of silence around the early part: a band-limited arrival rings to both sides."""
WALL_M = 0.3
"""Smallest distance of source and microphone from a wall."""


@dataclass(frozen=True)
class Rooms:
    """One room per row, with a source and a microphone in each."""

    size: Tensor
    """(B, 3) metres."""
    source: Tensor
    """(B, 3) metres from one corner."""
    microphone: Tensor
    """(B, 3) metres from the same corner."""
    rt60_s: Tensor
    """(B,) seconds in which the sound decays by 60 dB."""

    @property
    def volume(self) -> Tensor:
        return self.size.prod(1)

    @property
    def distance(self) -> Tensor:
        """(B,) from the source to the microphone."""
        return (self.source - self.microphone).norm(dim=1)

    @property
    def reflection(self) -> Tensor:
        """(B,) factor of an amplitude per reflection."""
        surface = 2 * (self.size * self.size.roll(1, 1)).sum(1)
        return torch.exp(-12 * math.log(10) * self.volume / (SPEED_M_S * surface * self.rt60_s))

    @property
    def energy(self) -> Tensor:
        """(B,) expected energy of the response: the direct sound and the integral of the reflections."""
        decay = 6 * math.log(10) / self.rt60_s
        after = (
            SPEED_M_S / (4 * math.pi * self.volume * decay) * torch.exp(-decay * self.distance / SPEED_M_S)
        )
        return (4 * math.pi * self.distance) ** -2 + after


def placed(u: Tensor, size: Tensor, distance: Tensor, rt60_s: Tensor) -> Rooms:
    """Rooms with source and microphone at this distance, or as far apart as fits; u (B, 5), uniform numbers,
    determine the positions."""
    free = size - 2 * WALL_M
    azimuth, up = 2 * math.pi * u[:, 0], 0.5 * u[:, 1] - 0.25  # at similar heights
    flat = (1 - up**2).sqrt()
    way = torch.stack([flat * azimuth.cos(), flat * azimuth.sin(), up], 1)
    way = way * torch.minimum(distance, (free / way.abs().clamp_min(1e-6)).amin(1))[:, None]
    # along each side the pair occupies |way|; the rest of the side is free for its position
    microphone = WALL_M + (-way).clamp_min(0) + u[:, 2:] * (free - way.abs()).clamp_min(0)
    return Rooms(size, microphone + way, microphone, rt60_s)


def images(rooms: Rooms, until_s: float) -> tuple[Tensor, Tensor]:
    """Delays (B, N) in seconds after the direct sound and amplitudes (B, N) of all images, 0 after
    `until_s`."""
    reach = rooms.distance + until_s * SPEED_M_S
    squared, count = torch.zeros_like(reach)[:, None], torch.zeros_like(reach)[:, None]
    for axis in range(3):
        side, s, r = (v[:, axis, None] for v in (rooms.size, rooms.source, rooms.microphone))
        # image k is between k L and (k + 1) L
        most = math.ceil(float((reach / rooms.size[:, axis]).amax())) + 1
        k = torch.arange(-most, most + 1, device=side.device, dtype=side.dtype)
        along = (k * side + torch.where(k % 2 == 0, s, side - s) - r).square()
        squared = (squared[:, :, None] + along[:, None]).flatten(1)
        count = (count[:, :, None] + k.abs()).flatten(1)
    distance = squared.sqrt()
    delay = (distance - rooms.distance[:, None]) / SPEED_M_S
    amplitude = rooms.reflection[:, None] ** count / (4 * math.pi * distance)
    return delay, amplitude.masked_fill(delay > until_s, 0.0)


def arrivals(delay_s: Tensor, amplitude: Tensor, taps: int, rate_hz: int) -> Tensor:
    """(B, N), (B, N) -> (B, taps): band-limited impulses of these amplitudes at these times, also between
    samples."""
    n = taps + 2 * AROUND
    place = (FINE * (delay_s * rate_hz + AROUND)).round().long().clamp(0, FINE * n - 1)
    fine = amplitude.new_zeros(len(amplitude), FINE * n).scatter_add_(1, place, amplitude)
    # the lower 1 / FINE of the spectrum is the band of the samples
    return torch.fft.irfft(torch.fft.rfft(fine)[:, : n // 2 + 1], n=n)[:, AROUND : AROUND + taps]


def response(rooms: Rooms, rate_hz: int, noise: Tensor, early_s: float = EARLY_S) -> Tensor:
    """(B, T) impulse responses, the direct sound at 0. `noise` (B, T), standard normal, becomes the tail,
    which ends after RT60."""
    early = min(round(early_s * rate_hz), noise.shape[1])
    h = arrivals(*images(rooms, early / rate_hz), early, rate_hz)
    after_s = torch.arange(early, noise.shape[1], device=noise.device, dtype=noise.dtype) / rate_hz
    t = after_s + (rooms.distance / SPEED_M_S)[:, None]
    power = (
        SPEED_M_S / (4 * math.pi * rooms.volume * rate_hz)[:, None] * 10 ** (-6 * t / rooms.rt60_s[:, None])
    )
    return torch.cat([h, noise[:, early:] * (power * (after_s < rooms.rt60_s[:, None])).sqrt()], 1)


def convolved(x: Tensor, h: Tensor) -> Tensor:
    """(B, T), (B, L) -> (B, T): x at the microphone, cut to the length of x."""
    size = transform_size(x.shape[-1] + h.shape[-1] - 1)
    return torch.fft.irfft(torch.fft.rfft(x, n=size) * torch.fft.rfft(h, n=size), n=size)[..., : x.shape[-1]]


def measured_rt60_s(h: Tensor, rate_hz: int, low_db: float = -5.0, high_db: float = -35.0) -> Tensor:
    """(B, T) -> (B,) seconds: reverberation time from Schroeder's backward integral: a line between two
    levels, extended to -60 dB."""
    left = h.square().flip(1).cumsum(1).flip(1)
    level = 10 * (left / left[:, :1]).clamp_min(1e-12).log10()
    inside = ((level <= low_db) & (level >= high_db)).to(h)
    t = torch.arange(h.shape[1], device=h.device, dtype=h.dtype) / rate_hz
    n = inside.sum(1)
    mean_t, mean_l = (inside * t).sum(1) / n, (inside * level).sum(1) / n
    slope = (inside * (t - mean_t[:, None]) * (level - mean_l[:, None])).sum(1) / (
        inside * (t - mean_t[:, None]).square()
    ).sum(1)
    return -60 / slope

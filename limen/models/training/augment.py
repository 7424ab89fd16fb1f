"""Changes to training samples that keep their meaning. Each sample is changed by its own random stream,
independently of the batch."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import Batch
from limen.models.base.spec_augment import SpecAugment


class AugmentOptions(Options):
    """How training samples are changed at random."""

    shift_px: int = Field(default=0, ge=0)
    """Pictures: shifted by up to this many pixels in each direction, and filled with black."""
    flip: bool = False
    """Pictures: mirrored left to right with probability one half."""
    crop: float = Field(default=1.0, gt=0, le=1)
    """Pictures: cropped at random to at least this share of the side, and resized back."""
    shift_ms: float = Field(default=0.0, ge=0)
    """Clips: shifted by up to this many milliseconds in each direction, and filled with silence."""
    noise: float = Field(default=0.0, ge=0)
    """Clips: noise of a random colour, up to this RMS, is added with probability 0.8."""
    gain_db: float = Field(default=0.0, ge=0)
    """Clips: amplified or attenuated by up to this many dB."""
    mask_frames: int = Field(default=0, ge=0)
    """Clips: a random run of up to this many feature frames is set to zero (SpecAugment,
    https://arxiv.org/abs/1904.08779)."""
    mask_bands: int = Field(default=0, ge=0)
    """Clips: a random run of up to this many feature bands is set to zero."""
    warp_bands: float = Field(default=0.0, ge=0, lt=1)
    """Clips: feature bands stretched or squeezed by up to this share, as by a shorter or longer vocal tract
    (vocal tract length perturbation, Jaitly and Hinton 2013,
    https://www.cs.toronto.edu/~hinton/absps/perturb.pdf)."""


def augment(
    batch: Batch, streams: Sequence[torch.Generator], options: AugmentOptions, rate_hz: int | None
) -> Batch:
    """The batch with every sample changed as the options describe; lengths stay the same."""
    if batch.kind == "picture":
        if not (options.shift_px or options.flip or options.crop < 1):
            return batch
        return replace(
            batch, x=torch.stack([_picture(x, g, options) for x, g in zip(batch.x, streams, strict=True)])
        )
    if not (options.shift_ms or options.noise or options.gain_db):
        return batch
    assert batch.lengths is not None
    x = torch.zeros_like(batch.x)
    for i, (n, stream) in enumerate(zip(batch.lengths.tolist(), streams, strict=True)):
        x[i, :n] = _clip(batch.x[i, :n], stream, options, rate_hz or 16000)
    return replace(batch, x=x)


def _picture(x: Tensor, stream: torch.Generator, options: AugmentOptions) -> Tensor:
    height, width = x.shape[1:]
    if options.crop < 1:
        u, v, w = torch.rand(3, generator=stream).tolist()
        side = options.crop + (1 - options.crop) * u
        h, k = max(round(height * side), 1), max(round(width * side), 1)
        top, left = int(v * (height - h + 1)), int(w * (width - k + 1))
        x = F.interpolate(
            x[None, :, top : top + h, left : left + k], (height, width), mode="bilinear", align_corners=False
        )[0]
    if s := options.shift_px:
        top, left = torch.randint(2 * s + 1, (2,), generator=stream).tolist()
        x = F.pad(x, (s, s, s, s))[:, top : top + height, left : left + width]
    if options.flip and torch.rand((), generator=stream) < 0.5:
        x = x.flip(-1)
    return x


def _clip(x: Tensor, stream: torch.Generator, options: AugmentOptions, rate_hz: int) -> Tensor:
    u, v, w, colour, share = torch.rand(5, generator=stream).tolist()
    if options.gain_db:
        x = x * 10 ** (options.gain_db * (2 * u - 1) / 20)
    if move := round(options.shift_ms * rate_hz / 1000 * (2 * v - 1)):
        x = F.pad(x, (move, -move))  # negative padding cuts
    if options.noise and w < 0.8:
        x = x + options.noise * share * coloured(len(x), colour * 2, stream)
    return x.clamp(-1, 1)


def coloured(n: int, slope: float, stream: torch.Generator) -> Tensor:
    """(n,) noise of RMS 1 whose power falls as f**-slope: 0 white, 1 pink, 2 brown."""
    spectrum = torch.fft.rfft(torch.randn(n, generator=stream))
    noise = torch.fft.irfft(spectrum * torch.arange(1, len(spectrum) + 1) ** (-slope / 2), n)
    return noise / noise.square().mean().sqrt().clamp_min(1e-9)


@contextmanager
def masking(
    network: nn.Module, streams: Sequence[torch.Generator], options: AugmentOptions
) -> Iterator[None]:
    """Inside, while the network is in training mode, the features at its layers `SpecAugment` are warped and
    blanked in runs, one stream per sample."""
    if not (options.mask_frames or options.mask_bands or options.warp_bands):
        yield
        return
    layers = [layer for layer in network.modules() if isinstance(layer, SpecAugment)]
    if not layers:
        raise UserError(
            "mask_frames, mask_bands and warp_bands need a model whose features can be masked, such as "
            "keyword_cnn, res8 or ctc_small."
        )
    for layer in layers:
        layer.change = lambda i, features: blanked(features, streams[i], options)
    try:
        yield
    finally:
        for layer in layers:
            layer.change = None


def blanked(features: Tensor, stream: torch.Generator, options: AugmentOptions) -> Tensor:
    """(frames, bands) of one clip, warped, and zero in a run of frames and a run of bands."""
    if options.warp_bands:
        factor = 1 + options.warp_bands * (2 * torch.rand((), generator=stream).item() - 1)
        features = warped(features[None], [factor])[0]
    keep = torch.ones_like(features)
    for axis, longest in ((0, options.mask_frames), (1, options.mask_bands)):
        u, v = torch.rand(2, generator=stream).tolist()
        run = min(int(u * (longest + 1)), features.shape[axis])
        start = int(v * (features.shape[axis] - run + 1))
        keep.narrow(axis, start, run).zero_()
    return features * keep


def warped(features: Tensor, factors: Sequence[float]) -> Tensor:
    """(B, frames, bands): band k takes the value at band k times the clip's factor, interpolated linearly;
    beyond the last band its value is repeated."""
    last = features.shape[2] - 1
    at = (
        torch.arange(last + 1, device=features.device)
        * torch.tensor(factors, device=features.device)[:, None]
    ).clamp(max=last)
    low = at.floor().long().clamp(max=max(last - 1, 0))
    share = (at - low).to(features.dtype).unsqueeze(1)
    pick = lambda index: features.gather(2, index.unsqueeze(1).expand_as(features))
    return pick(low) * (1 - share) + pick((low + 1).clamp(max=last)) * share

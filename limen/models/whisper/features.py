r"""Whisper's features: the logarithm of mel energies, 100 frames a second, with a floor 80 dB below the
maximum of the clip.

With E the energies of periodic Hann windows of 25 ms on Slaney's mel scale (Radford et al. 2022,
https://arxiv.org/abs/2212.04356):
    L = max( log10 max(E, 1e-10), max over the clip - 8 ),    features = (L + 4) / 4
The maximum is taken per clip; OpenAI's code takes it over the batch. Frames in the silence that pads a clip
to 30 s are not transformed: their energy is 0.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limen.audio.stft import power
from limen.models.speaker_encoder import slaney_filters

RATE_HZ, N_FFT, HOP = 16_000, 400, 160
SILENT = -10.0
"""log10 of the minimum energy."""


class WhisperFeatures(nn.Module):
    window: Tensor
    filters: Tensor

    def __init__(self, mels: int):
        super().__init__()
        self.register_buffer("window", torch.hann_window(N_FFT), persistent=False)
        self.register_buffer("filters", slaney_filters(mels, N_FFT // 2 + 1, RATE_HZ), persistent=False)

    def forward(self, x: Tensor, frames: int) -> Tensor:
        """Clips (B, T), zero after their end, to features (B, mels, frames); `frames` must extend beyond
        the end of every clip."""
        total = frames * HOP
        needed = min(-(-(x.shape[1] + N_FFT) // HOP), frames)  # later windows contain only silence
        x = F.pad(x, (0, max(total - x.shape[1], 0)))[:, :total]
        x = F.pad(x[:, None], (N_FFT // 2, N_FFT // 2), mode="reflect")[:, 0, : needed * HOP + N_FFT - HOP]
        energy = power(x, self.window, HOP) @ self.filters.to(x)
        log = F.pad(energy.clamp_min(10**SILENT).log10().mT, (0, frames - needed), value=SILENT)
        return (torch.maximum(log, log.amax((1, 2), keepdim=True) - 8) + 4) / 4

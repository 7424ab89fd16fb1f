r"""Speaker identification: the Resemblyzer voice encoder as a classifier of enrolled speakers.

Wan et al. 2018, https://arxiv.org/abs/1710.10467 (generalised end-to-end loss): three LSTM layers over
windows of 1.6 s give one embedding e per clip. The logit of speaker k is the similarity used in training,
with the mean embedding c_k of the enrolled clips:
    z_k = w cos(e, c_k) + b
Weights: limen data get speaker_encoder. Departs from Resemblyzer: long silences are not removed first by
voice activity detection.
"""

import math
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limen.audio.files import SUFFIXES, read_clip
from limen.audio.stft import power
from limen.core.errors import UserError
from limen.data.fetch.cache import fetched as fetched_folder
from limen.models.base.load import read_state
from limen.models.base.model import Model, ModelOptions

RATE_HZ, N_FFT, HOP, BANDS = 16_000, 400, 160, 40
WINDOW, STEP, COVERAGE = 160, 77, 0.75
"""Frames of a window, frames between windows (1.3 windows a second), and the least share of sound in the
last window."""
LEVEL_DB, MOST_GAIN_DB = -30.0, 50.0
"""Clips below this RMS level are amplified to it, by at most the second value (so that silence stays
silent)."""


class SpeakerEncoder(ModelOptions):
    small: ClassVar[dict[str, Any] | None] = None
    example: ClassVar[dict[str, Any]] = {"enrolled": "speakers"}

    enrolled: str
    """Folder with one folder of clips per speaker; the folders' names are the classes."""

    def fetched(self) -> dict[str, Tensor]:
        return read_state(fetched_folder("speaker_encoder") / "pretrained.pt")


class VoiceEncoder(nn.Module):
    """Waveforms to unit-length embeddings (B, 256); parameter names and shapes are those of Resemblyzer's
    file."""

    window: Tensor
    filters: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(BANDS, 256, 3, batch_first=True)
        self.linear = nn.Linear(256, 256)
        self.similarity_weight, self.similarity_bias = (
            nn.Parameter(torch.tensor([10.0])),
            nn.Parameter(torch.tensor([-5.0])),
        )
        self.register_buffer("window", torch.hann_window(N_FFT), persistent=False)
        self.register_buffer("filters", slaney_filters(BANDS, N_FFT // 2 + 1, RATE_HZ), persistent=False)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        n = lengths.to(x.device)[:, None]
        x = x * (torch.arange(x.shape[1], device=x.device) < n)
        rms = (x.square().sum(1, keepdim=True) / n).clamp_min(10 ** ((LEVEL_DB - MOST_GAIN_DB) / 10)).sqrt()
        x = x * (10 ** (LEVEL_DB / 20) / rms).clamp_min(1.0)
        starts = [windows(int(k)) for k in lengths]
        longest = max(s[-1] + WINDOW for s in starts) * HOP
        x = F.pad(x, (N_FFT // 2, max(longest - x.shape[1], 0) + N_FFT // 2))
        mel = power(x, self.window, HOP) @ self.filters.to(x)  # power, not its logarithm
        pieces = torch.stack([mel[i, s : s + WINDOW] for i, row in enumerate(starts) for s in row])
        # cuDNN refuses gradients through a recurrent layer in evaluation mode; the switch is global to all
        # threads, so it is not touched on CPUs
        with torch.backends.cudnn.flags(enabled=False) if x.is_cuda else nullcontext():
            hidden = self.lstm(pieces)[1][0][-1]
        parts = unit(self.linear(hidden).relu()).split([len(row) for row in starts])
        return unit(torch.stack([p.mean(0) for p in parts]))


def unit(x: Tensor) -> Tensor:
    return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-8)


def windows(samples: int) -> list[int]:
    """First frames of the windows of a clip."""
    frames = math.ceil((samples + 1) / HOP)
    starts = list(range(0, max(1, frames - WINDOW + STEP + 1), STEP))
    held = (samples - starts[-1] * HOP) / (WINDOW * HOP)
    return starts[:-1] if held < COVERAGE and len(starts) > 1 else starts


def slaney_filters(channels: int, bins: int, rate_hz: int) -> Tensor:
    """(bins, channels) triangles of area 1 on Slaney's scale (linear below 1 kHz, then logarithmic), as in
    librosa."""
    per_log = math.log(6.4) / 27  # 27 steps from 1 kHz to 6.4 kHz
    top = 15 + math.log(rate_hz / 2 / 1000) / per_log
    mels = torch.linspace(0, top, channels + 2, dtype=torch.float64)
    hz = torch.where(mels < 15, mels * 200 / 3, 1000 * ((mels - 15) * per_log).exp())
    f = torch.linspace(0, rate_hz / 2, bins, dtype=torch.float64)[:, None]
    left, centre, right = hz[:-2], hz[1:-1], hz[2:]
    triangles = torch.minimum((f - left) / (centre - left), (right - f) / (right - centre)).clamp(min=0)
    return (triangles * 2 / (right - left)).float()


class Speakers(Model):
    """A classifier whose logits are the similarities to the enrolled speakers."""

    output = "class"
    network: VoiceEncoder
    centres: Tensor

    def __init__(self, network: VoiceEncoder, folder: Path):
        super().__init__()
        self.network, self.kind, self.rate_hz, self.folder = network, "clip", RATE_HZ, folder
        people = sorted(p for p in folder.iterdir() if p.is_dir())
        self.clips = {p.name: sorted(c for c in p.iterdir() if c.suffix.lower() in SUFFIXES) for p in people}
        self.classes = list(self.clips)
        empty = [name for name, clips in self.clips.items() if not clips]
        if len(self.classes) < 2 or empty:
            raise UserError(
                f"model speaker_encoder: {folder} must contain at least two folders, one per speaker, each "
                "with clips, got "
                f"{len(self.classes)}{', empty: ' + ', '.join(empty) if empty else ''}."
            )
        self.register_buffer("centres", torch.zeros(len(self.classes), 256), persistent=False)

    @torch.no_grad()
    def prepare(self) -> None:
        for k, paths in enumerate(self.clips.values()):
            clips = [read_clip(path, RATE_HZ) for path in paths]
            self.centres[k] = unit(
                torch.stack([self.network(c[None], torch.tensor([len(c)]))[0] for c in clips]).mean(0)
            )

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        lengths = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        cosine = self.network(x, lengths) @ self.centres.to(x).T
        return self.network.similarity_weight * cosine + self.network.similarity_bias


def speaker_encoder(options: SpeakerEncoder) -> Model:
    folder = Path(options.enrolled).expanduser()
    if not folder.is_dir():
        raise UserError(f"model speaker_encoder: there is no folder {folder} with enrolled speakers.")
    return Speakers(VoiceEncoder(), folder)

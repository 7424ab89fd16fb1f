"""openWakeWord's detector of the word "alexa", read from its ONNX files: mel spectrogram, Google's speech
embedding, a small perceptron.

https://github.com/dscripka/openWakeWord; embedding: Lin et al. 2020, https://arxiv.org/abs/2002.01322.
Weights: limen data get wake_word. The score of a clip is the maximum over time: logits are (0, z), so that
softmax gives openWakeWord's score. As in its predict_clip, one second of silence is added before and after
the clip. Departs from the streaming code: the spectrogram's floor of 80 dB below the loudest band is computed
over the clip, not over each 80 ms.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limen.core.errors import missing_package
from limen.data.fetch.cache import fetched as fetched_folder
from limen.models.base.model import Model, ModelOptions

RATE_HZ, N_FFT, HOP, BANDS, SILENCE = 16_000, 512, 160, 32, 16_000
FRAMES, STRIDE, EMBEDDINGS = 76, 8, 16
"""Frames per embedding, frames between embeddings, embeddings per detection (2 s)."""
WIDTHS = (24, 24, 24, 48, 48, 48, 48, 72, 72, 72, 72, 96, 96, 96, 96, 96, 96, 96, 96)
"""Channels of the embedding's convolutions: a 3x3 one, then alternately across bands (1x3) and along time
(3x1)."""
POOLS = {2: (2, 2), 6: (1, 2), 10: (2, 2), 14: (1, 2), 18: (2, 2)}
"""Max-pooling after these convolutions. Time is reduced by 8 and never padded, so one pass over a clip
gives every embedding."""


class WakeWord(ModelOptions):
    def fetched(self) -> dict[str, Tensor]:
        try:
            import onnx
        except ModuleNotFoundError:
            raise missing_package("model wake_word", "onnx", "models") from None
        folder = fetched_folder("wake_word")

        def read(name: str) -> dict[str, Tensor]:
            return {
                i.name: torch.from_numpy(onnx.numpy_helper.to_array(i).copy())
                for i in onnx.load(folder / name).graph.initializer
            }

        mel, embedding, head = (
            read("melspectrogram.onnx"),
            read("embedding_model.onnx"),
            read("alexa_v0.1.onnx"),
        )
        state = {
            "real": mel["0.stft.conv_real.weight"],
            "imaginary": mel["0.stft.conv_imag.weight"],
            "bands": mel["1.melW"],
            "last.weight": embedding["model/conv2d_19/Conv2D/ReadVariableOp:0"],
        }
        for i in range(len(WIDTHS)):
            layer = f"model/conv2d{f'_{i}' if i else ''}/Conv2D"
            state[f"convs.{i}.weight"], state[f"convs.{i}.bias"] = (
                embedding[f"{layer}_weights_fused_bn"],
                embedding[f"{layer}_bias_fused_bn"],
            )
        for ours, theirs in ((0, 1), (2, 3), (4, 5)):
            state[f"head.{ours}.weight"], state[f"head.{ours}.bias"] = (
                head[f"{theirs}.weight"],
                head[f"{theirs}.bias"],
            )
        return state


class Detector(nn.Module):
    """Clips (B, T) and their lengths to the maximum logit over time (B,)."""

    def __init__(self) -> None:
        super().__init__()
        self.real, self.imaginary = (
            nn.Parameter(torch.randn(N_FFT // 2 + 1, 1, N_FFT) / N_FFT) for _ in range(2)
        )
        self.bands = nn.Parameter(torch.rand(N_FFT // 2 + 1, BANDS))
        kernels = [(3, 3), *(((1, 3), (3, 1))[i % 2] for i in range(18))]
        shapes = zip(pairwise((1, *WIDTHS)), kernels, strict=True)
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, kernel, padding=(0, 1 if kernel[1] == 3 else 0)) for (a, b), kernel in shapes
        )
        self.last = nn.Conv2d(96, 96, (3, 1), bias=False)
        self.head = nn.Sequential(
            nn.Linear(EMBEDDINGS * 96, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1)
        )

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        total = lengths.to(x.device) + 2 * SILENCE
        x = x * (torch.arange(x.shape[1], device=x.device) < lengths.to(x.device)[:, None])
        mel, frames = self._mel(F.pad(x, (SILENCE, SILENCE)), total)
        scores = self.head(self._embed(mel).unfold(1, EMBEDDINGS, 1).mT.flatten(2)).squeeze(2)
        valid = (frames - FRAMES) // STRIDE + 1 - EMBEDDINGS + 1
        return scores.masked_fill(
            torch.arange(scores.shape[1], device=x.device) >= valid[:, None], -torch.inf
        ).amax(1)

    def _mel(self, x: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Mel features (B, frames, bands) in the units of Google's embedding, and the (B,) frames of each
        clip."""
        x = (32768 * x).unsqueeze(1)  # trained on 16-bit integers
        power = F.conv1d(x, self.real, stride=HOP).square() + F.conv1d(x, self.imaginary, stride=HOP).square()
        mel = 10 * (power.mT @ self.bands).clamp_min(1e-10).log10()
        frames = (samples - N_FFT) // HOP + 1
        mine = (torch.arange(mel.shape[1], device=x.device) < frames[:, None]).unsqueeze(2)
        loudest = mel.masked_fill(~mine, -torch.inf).amax((1, 2), keepdim=True)
        return torch.maximum(mel, loudest - 80) / 10 + 2, frames

    def _embed(self, mel: Tensor) -> Tensor:
        """(B, frames, bands) -> (B, embeddings, 96)."""
        x = mel.unsqueeze(1)
        for i, conv in enumerate(self.convs):
            x = F.leaky_relu(conv(x), 0.2).clamp_min(-0.4)
            if i in POOLS:
                x = F.max_pool2d(x, POOLS[i])
        return self.last(x).squeeze(3).mT


class Alexa(Model):
    output = "class"

    def __init__(self) -> None:
        super().__init__()
        self.network, self.kind, self.rate_hz, self.classes = Detector(), "clip", RATE_HZ, ["other", "alexa"]

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        z = self.network(x, torch.full((len(x),), x.shape[1]) if lengths is None else lengths)
        return torch.stack([torch.zeros_like(z), z], 1)


def wake_word(options: WakeWord) -> Model:
    return Alexa()

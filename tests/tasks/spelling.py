"""A recogniser whose answers are known: each frame of 100 samples says a word by its mean level, so texts can
be written into clips."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limen.attacks.engine.run import Attack
from limen.core.components import parse
from limen.core.types import Sample
from limen.data.base.dataset import Dataset
from limen.metrics.base.apply import applicable
from limen.models.base.model import Model
from limen.tasks.base.cell import Cell

WORDS = ["", "one", "two", "three", "four"]
FRAME = 100


class Spoken:
    """Implements `limen.core.types.Transcripts`."""

    exact = True

    def __init__(
        self, levels: Tensor, frames: Tensor, words: Sequence[str], languages: list[str] | None = None
    ):
        self.levels, self.frames, self.words, self.languages = levels, frames, words, languages
        """(B, F) mean level of each frame, in steps of 0.1."""

    @property
    def language_logits(self) -> Tensor:
        return torch.nn.functional.one_hot(
            self.levels.abs().sum(1).round().long() % len(self.languages), len(self.languages)
        ).float()

    def texts(self) -> list[str]:
        found = self.levels.round().long().clamp(0, len(self.words) - 1).tolist()
        return [
            " ".join(w for w in (self.words[k] for k in row[:n]) if w)
            for row, n in zip(found, self.frames.tolist(), strict=True)
        ]

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        said = [[self.words.index(w) for w in text.split()] for text in texts]
        wanted = torch.zeros_like(self.levels)
        for row, numbers in zip(wanted, said, strict=True):
            row[: len(numbers)] = torch.tensor(numbers[: len(row)], dtype=row.dtype)
        return ((self.levels - wanted) ** 2).sum(1)

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        return torch.tensor(
            [
                a[:n] == b[:n]
                for a, b, n in zip(self.texts(), texts, first or [None] * len(texts), strict=True)
            ]
        )

    def rows(self, index: Tensor) -> "Spoken":
        return Spoken(self.levels[index], self.frames[index], self.words, self.languages)


class Speller(Model):
    kind, output, rate_hz = "clip", "transcript", 8000

    def __init__(self, words: Sequence[str] = WORDS, languages: list[str] | None = None):
        super().__init__()
        self.words, self.languages = words, languages

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Spoken:
        frames = x.unfold(1, FRAME, FRAME).mean(2) * 10
        n = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        return Spoken(frames, n // FRAME, self.words, self.languages)


def clip(text: str) -> Tensor:
    """A clip in which the speller hears this text, on the grid of 16-bit files."""
    levels = torch.tensor([WORDS.index(w) / 10 for w in text.split()])
    return (levels.repeat_interleave(FRAME) * 32768).round() / 32768


def dataset(texts: Sequence[str], ids: Sequence[str] | None = None) -> Dataset:
    names = ids or [f"s{i}" for i in range(len(texts))]
    return Dataset(
        "spelt",
        "clip",
        list(zip(names, texts, strict=True)),
        lambda key: Sample(key[0], clip(key[1]), key[1]),
        rate_hz=8000,
        truth="transcript",
    )


def cell(
    folder: Path, data: Dataset, attack: Any, *, model: Model | None = None, metrics: Any = None, **more: Any
) -> Cell:
    model = model or Speller()
    chosen = applicable(metrics or ["wer", "snr_db", "targeted_success"], "clip", "transcript", True)
    whole = lambda limit: data
    defaults = {"store": "int16", "batch_size": 2, "proxy": "speller", "training": whole, "validation": whole}
    configured = None if attack is None else Attack.parse(attack)
    return Cell(
        model=model,
        victim=model,
        attacked_model=model,
        data=data,
        attack=configured,
        metrics=chosen,
        folder=folder,
        **defaults | more,
    )


def run(name: str, ready: Cell, **options: Any) -> Any:
    component, parsed = parse("tasks", {"name": name, **options})
    return component.function(ready, parsed)

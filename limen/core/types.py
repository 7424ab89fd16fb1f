"""What flows from data to report: samples in their natural range, with ids and lengths, and what a model
answers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

Kind = Literal["picture", "clip"]

BOUNDS: dict[str, tuple[float, float]] = {"picture": (0.0, 1.0), "clip": (-1.0, 1.0)}
"""The natural range of each kind of sample. Data keeps it from disk to report."""


@dataclass(frozen=True)
class Sample:
    """One picture (C, H, W) in [0, 1] or one clip (T,) in [-1, 1], with what it truly is."""

    id: str
    x: Tensor
    y: int | str
    """Class index, or transcript."""


@dataclass(frozen=True)
class Batch:
    """Samples side by side. Clips are padded with zeros at the end; `lengths` says how many samples are
    real."""

    kind: Kind
    ids: list[str]
    x: Tensor
    """(B, C, H, W) or (B, T)."""
    y: Tensor | list[str]
    """(B,) class indices, or B transcripts."""
    lengths: Tensor | None = None
    """(B,) valid samples of each clip; None for pictures."""

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, index: Tensor | Sequence[int]) -> "Batch":
        i = torch.as_tensor(index)
        return replace(
            self,
            ids=[self.ids[k] for k in i.tolist()],
            x=select(self.x, i),
            y=select(self.y, i),
            lengths=None if self.lengths is None else select(self.lengths, i),
        )

    def to(self, device: torch.device | str) -> "Batch":
        move = lambda t: t.to(device) if isinstance(t, Tensor) else t
        return replace(self, x=self.x.to(device), y=move(self.y), lengths=move(self.lengths))


def collate(kind: Kind, samples: Sequence[Sample]) -> Batch:
    """Stack samples; clips of different lengths are padded with zeros at the end."""
    ids, ys = [s.id for s in samples], [s.y for s in samples]
    y: Tensor | list[str] = [str(v) for v in ys] if isinstance(ys[0], str) else torch.tensor(ys)
    if kind == "picture":
        return Batch(kind, ids, torch.stack([s.x for s in samples]), y)
    lengths = torch.tensor([len(s.x) for s in samples])
    return Batch(
        kind, ids, torch.nn.utils.rnn.pad_sequence([s.x for s in samples], batch_first=True), y, lengths
    )


@runtime_checkable
class Transcripts(Protocol):
    """What a recogniser answers. Whatever the architecture: a loss of any text, and the text it hears."""

    @property
    def exact(self) -> bool:
        """True if `would_transcribe` is what `texts` writes. Not with a beam search, nor if one text can be
        written in several sequences of tokens."""

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        """(B,) negative log-likelihood of each text, differentiable. A decoder that writes token after token
        lets the first one count 1 + first_weight times and keeps the sum of the weights."""

    def texts(self) -> list[str]:
        """What was recognised, one string per sample."""

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        """(B,) bool: would the likeliest token after each token give exactly these texts (or their `first`
        characters)? Searches ask it at every step: after `nll` of the same texts it costs next to nothing,
        whatever decoding `texts` uses."""

    def rows(self, index: Tensor) -> "Transcripts":
        """The answers of some of the samples."""


@dataclass(frozen=True)
class EnsembleOutputs:
    """The answers of several models to the same samples: an attack on all of them at once adds up their
    losses."""

    members: list["Tensor | Transcripts"]

    def rows(self, index: Tensor) -> "EnsembleOutputs":
        return EnsembleOutputs(
            [m[index.to(m.device)] if isinstance(m, Tensor) else m.rows(index) for m in self.members]
        )


@dataclass(frozen=True)
class GuardedOutputs:
    """The answers of a model behind a detector, which may refuse a sample instead of answering."""

    answers: "Tensor | Transcripts | EnsembleOutputs"
    suspicion: Tensor
    """(B,) score of the detector minus its threshold, differentiable. Positive: the sample is refused."""

    @property
    def refused(self) -> Tensor:
        """(B,) bool."""
        return self.suspicion.detach() > 0

    def rows(self, index: Tensor) -> "GuardedOutputs":
        answers = self.answers
        part = answers[index.to(answers.device)] if isinstance(answers, Tensor) else answers.rows(index)
        return GuardedOutputs(part, self.suspicion[index.to(self.suspicion.device)])


Outputs = Tensor | Transcripts | EnsembleOutputs | GuardedOutputs
"""(B, K) logits of a classifier, the transcripts of a recogniser, the answers of several of them, or those of
a model behind a detector."""


def answers_of(outputs: Outputs) -> "Tensor | Transcripts | EnsembleOutputs":
    """The answers, whether or not a detector would refuse to give them."""
    return outputs.answers if isinstance(outputs, GuardedOutputs) else outputs


def refused_by(outputs: Outputs) -> Tensor | None:
    """(B,) bool: samples that a detector refuses; None if the model has no detector."""
    return outputs.refused if isinstance(outputs, GuardedOutputs) else None


def predictions(outputs: Outputs) -> Tensor | list[str]:
    """What the model says: (B,) class indices or B texts. Of several models: what the first says."""
    outputs = answers_of(outputs)
    if isinstance(outputs, EnsembleOutputs):
        return predictions(outputs.members[0])
    return outputs.argmax(1) if isinstance(outputs, Tensor) else outputs.texts()


def select(values: Any, index: Tensor) -> Any:
    """Rows, by their numbers, of a tensor or of a list."""
    # index_select: values[index] takes up to five times as long
    return (
        values.index_select(0, index.to(values.device))
        if isinstance(values, Tensor)
        else [values[i] for i in index.tolist()]
    )


def different(a: Tensor | list[str], b: Tensor | list[str], device: torch.device | str = "cpu") -> Tensor:
    """(B,) bool: where two lists of predictions differ."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a != b
    return torch.tensor([p != q for p, q in zip(a, b, strict=True)], device=device)


def valid(x: Tensor, lengths: Tensor | None) -> Tensor | None:
    """(B, T) 1 on real samples and 0 on padding; None when there is no padding to speak of."""
    if lengths is None or bool((lengths == x.shape[-1]).all()):
        return None
    return (torch.arange(x.shape[-1], device=x.device) < lengths.to(x.device)[:, None]).to(x.dtype)


@dataclass
class Samples:
    """Clean and adversarial samples with what the model said of both: the input of every metric."""

    batch: Batch
    x_adv: Tensor
    rate_hz: int | None = None
    """Of clips."""
    classes: list[str] | None = None
    """Names of the classes, of a classifier."""
    clean: Outputs | None = None
    adversarial: Outputs | None = None
    """None when samples are measured without a model."""
    extra: dict[str, Any] = field(default_factory=dict)
    target: Tensor | list[str] | None = None
    """What the attack wanted the model to say: (B,) classes, B texts or (B, K) probabilities; None if
    anything wrong would do."""
    clean_refused: Tensor | None = None
    refused: Tensor | None = None
    """(B,) bool: clean and adversarial samples that a detector refuses; None without a detector. Metrics find
    refusals here, and plain answers in `clean` and `adversarial`."""

    def pair(self, i: int) -> tuple[Tensor, Tensor]:
        """Clean and adversarial sample i without padding."""
        n = self.batch.x.shape[-1] if self.batch.lengths is None else int(self.batch.lengths[i])
        return self.batch.x[i][..., :n], self.x_adv[i][..., :n]

"""Samples in their natural range with ids, lengths and truth, and the outputs of models: what the stages from
data to report exchange."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Kind = Literal["picture", "clip"]

BOUNDS: dict[str, tuple[float, float]] = {"picture": (0.0, 1.0), "clip": (-1.0, 1.0)}
"""The natural range of each kind of sample. Data keeps it from disk to report."""

Output = Literal["class", "transcript", "embedding", "signal", "distance"]
"""Kinds of output of a model: scores of classes (logits), a transcript, a vector, another signal, or a single
number that measures a difference."""
OUTPUTS: tuple[Output, ...] = get_args(Output)

TruthKind = Literal["class", "transcript", "signal"]
"""Kinds of truth in a data set: the class of a sample, its transcript, or a tensor, such as the clean
recording of a noisy one."""
TRUTHS: dict[Output, tuple[TruthKind, ...]] = {
    "class": ("class",),
    "transcript": ("transcript",),
    "embedding": ("class", "transcript", "signal"),
    "signal": ("signal",),
    "distance": ("signal",),
}
"""The kinds of truth that each output can be compared with. An embedding is compared with other embeddings,
so any kind is allowed; the truth of a distance is a number, a tensor without dimensions."""

Truth = Tensor | list[str]
"""The truth of a batch: (B,) class indices, B transcripts, or B signals as one floating-point tensor."""


@dataclass(frozen=True)
class Sample:
    """One picture (C, H, W) in [0, 1] or one clip (T,) in [-1, 1], with its truth."""

    id: str
    x: Tensor
    y: int | str | Tensor
    """Class index, transcript, or a floating-point tensor of any shape."""


@dataclass(frozen=True)
class Batch:
    """Several samples in one tensor. Clips are padded with zeros at the end; `lengths` are their valid
    samples."""

    kind: Kind
    ids: list[str]
    x: Tensor
    """(B, C, H, W) or (B, T)."""
    y: Truth
    """(B,) class indices, B transcripts, or (B, ...) signals."""
    lengths: Tensor | None = None
    """(B,) valid samples of each clip; None for pictures."""
    y_lengths: Tensor | None = None
    """(B,) valid samples along the last dimension of each true signal; None for other truths."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def truth(self) -> TruthKind:
        if not isinstance(self.y, Tensor):
            return "transcript"
        return "signal" if self.y.is_floating_point() else "class"

    def rows(self, index: Tensor | Sequence[int]) -> "Batch":
        i = torch.as_tensor(index)
        return replace(
            self,
            ids=[self.ids[k] for k in i.tolist()],
            x=select(self.x, i),
            y=select(self.y, i),
            lengths=None if self.lengths is None else select(self.lengths, i),
            y_lengths=None if self.y_lengths is None else select(self.y_lengths, i),
        )

    def to(self, device: torch.device | str) -> "Batch":
        move = lambda t: t.to(device) if isinstance(t, Tensor) else t
        return replace(
            self,
            x=self.x.to(device),
            y=move(self.y),
            lengths=move(self.lengths),
            y_lengths=move(self.y_lengths),
        )


def collate(kind: Kind, samples: Sequence[Sample]) -> Batch:
    """One batch of several samples; clips and true signals of different lengths are padded with zeros at the
    end."""
    ids = [s.id for s in samples]
    y, y_lengths = _truths([s.y for s in samples])
    if kind == "picture":
        return Batch(kind, ids, torch.stack([s.x for s in samples]), y, None, y_lengths)
    lengths = torch.tensor([len(s.x) for s in samples])
    return Batch(kind, ids, pad_sequence([s.x for s in samples], batch_first=True), y, lengths, y_lengths)


def _truths(ys: Sequence[int | str | Tensor]) -> tuple[Truth, Tensor | None]:
    """The truth of a batch and, of signals with a dimension, their lengths."""
    signals = [y for y in ys if isinstance(y, Tensor)]
    if not signals:
        return [str(y) for y in ys] if isinstance(ys[0], str) else torch.tensor(ys), None
    if signals[0].dim() == 0:
        return torch.stack(signals), None
    # pad_sequence pads the first dimension; signals vary in their last
    padded = pad_sequence([y.movedim(-1, 0) for y in signals], batch_first=True).movedim(1, -1)
    return padded, torch.tensor([y.shape[-1] for y in signals])


@runtime_checkable
class Transcripts(Protocol):
    """The outputs of a recogniser of any architecture: a loss for any text, and the text it transcribes."""

    @property
    def exact(self) -> bool:
        """True if `would_transcribe` agrees with `texts`. It does not with a beam search, nor if one text can
        be written in several sequences of tokens."""

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        """(B,) negative log-likelihood of each text, differentiable. In a decoder that writes token after
        token the first one counts 1 + first_weight times; the sum of the weights stays the same."""

    def texts(self) -> list[str]:
        """The transcript of each sample."""

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        """(B,) bool: would the likeliest token after each token give exactly these texts (or their `first`
        characters)? Searches call it at every step: after `nll` of the same texts it costs next to nothing,
        independent of the decoding in `texts`."""

    def rows(self, index: Tensor) -> "Transcripts":
        """The outputs of some of the samples."""


@dataclass(frozen=True)
class Values:
    """Outputs that are numbers themselves, not scores of classes."""

    output: Output
    """"embedding", "signal" or "distance"."""
    values: Tensor
    """(B, D) embeddings, (B, ...) signals or (B,) distances."""
    lengths: Tensor | None = None
    """(B,) valid samples along the last dimension of signals."""

    def __post_init__(self) -> None:
        dimensions = {"embedding": 2, "distance": 1}.get(self.output)
        if self.output in ("class", "transcript") or dimensions not in (None, self.values.dim()):
            raise ValueError(f"not an output of the kind {self.output}: {tuple(self.values.shape)}")

    def rows(self, index: Tensor) -> "Values":
        lengths = None if self.lengths is None else select(self.lengths, index)
        return Values(self.output, select(self.values, index), lengths)


SingleOutputs = Tensor | Transcripts | Values
"""The outputs of one model: (B, K) logits, transcripts, or values."""


@dataclass(frozen=True)
class EnsembleOutputs:
    """The outputs of several models for the same samples: an attack on all of them adds up their losses."""

    members: list[SingleOutputs]

    def rows(self, index: Tensor) -> "EnsembleOutputs":
        return EnsembleOutputs([output_rows(m, index) for m in self.members])


Answers = SingleOutputs | EnsembleOutputs


@dataclass(frozen=True)
class GuardedOutputs:
    """The outputs of a model behind a detector, which may refuse a sample instead of answering."""

    answers: Answers
    suspicion: Tensor
    """(B,) score of the detector minus its threshold, differentiable. Positive: the sample is refused."""

    @property
    def refused(self) -> Tensor:
        """(B,) bool."""
        return self.suspicion.detach() > 0

    def rows(self, index: Tensor) -> "GuardedOutputs":
        suspicion = self.suspicion[index.to(self.suspicion.device)]
        return GuardedOutputs(output_rows(self.answers, index), suspicion)


Outputs = Answers | GuardedOutputs
"""The outputs of one model, of several of them, or of a model behind a detector."""


def output_rows(outputs: Any, index: Tensor) -> Any:
    """The outputs of some of the samples."""
    return outputs[index.to(outputs.device)] if isinstance(outputs, Tensor) else outputs.rows(index)


def answers_of(outputs: Outputs) -> Answers:
    """The answers, whether or not a detector would refuse to give them."""
    return outputs.answers if isinstance(outputs, GuardedOutputs) else outputs


def refused_by(outputs: Outputs) -> Tensor | None:
    """(B,) bool: samples that a detector refuses; None if the model has no detector."""
    return outputs.refused if isinstance(outputs, GuardedOutputs) else None


def predictions(outputs: Outputs) -> Truth:
    """The prediction for each sample, in the form of its truth: (B,) class indices, B texts, or the values
    themselves. For several models, the predictions of the first."""
    outputs = answers_of(outputs)
    if isinstance(outputs, EnsembleOutputs):
        return predictions(outputs.members[0])
    if isinstance(outputs, Values):
        return outputs.values
    return outputs.argmax(1) if isinstance(outputs, Tensor) else outputs.texts()


def select(values: Any, index: Tensor) -> Any:
    """The rows of a tensor or of a list with these numbers."""
    # index_select: values[index] takes up to five times as long
    return (
        values.index_select(0, index.to(values.device))
        if isinstance(values, Tensor)
        else [values[i] for i in index.tolist()]
    )


def different(a: Truth, b: Truth, device: torch.device | str = "cpu") -> Tensor:
    """(B,) bool: the samples on which two lists of predictions differ."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a != b if a.dim() == 1 else (a != b).flatten(1).any(1)
    return torch.tensor([p != q for p, q in zip(a, b, strict=True)], device=device)


def valid(x: Tensor, lengths: Tensor | None) -> Tensor | None:
    """(B, T) 1 on real samples and 0 on padding; None if there is no padding."""
    if lengths is None or bool((lengths == x.shape[-1]).all()):
        return None
    return (torch.arange(x.shape[-1], device=x.device) < lengths.to(x.device)[:, None]).to(x.dtype)


@dataclass
class Samples:
    """Clean and adversarial samples with the model's outputs for both: the input of every metric."""

    batch: Batch
    x_adv: Tensor
    rate_hz: int | None = None
    """Sample rate of clips."""
    classes: list[str] | None = None
    """Names of the classes of a classifier."""
    clean: Outputs | None = None
    adversarial: Outputs | None = None
    """None if samples are measured without a model."""
    extra: dict[str, Any] = field(default_factory=dict)
    target: Truth | None = None
    """The output that the attack aims at: (B,) classes, B texts or (B, K) probabilities; None if any wrong
    output counts."""
    clean_refused: Tensor | None = None
    refused: Tensor | None = None
    """(B,) bool: clean and adversarial samples that a detector refuses; None without a detector. Metrics find
    refusals here, and plain answers in `clean` and `adversarial`."""

    def pair(self, i: int) -> tuple[Tensor, Tensor]:
        """Clean and adversarial sample i without padding."""
        n = self.batch.x.shape[-1] if self.batch.lengths is None else int(self.batch.lengths[i])
        return self.batch.x[i][..., :n], self.x_adv[i][..., :n]

"""A model is a function from raw input to outputs: normalisation and features are layers of it."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, ClassVar

import torch
from pydantic import AfterValidator, Field
from torch import Tensor, nn

from limen.core import seeds
from limen.core.errors import UserError
from limen.core.options import Options
from limen.core.types import (
    TRUTHS,
    Batch,
    Kind,
    Output,
    Outputs,
    Transcripts,
    TruthKind,
    answers_of,
    predictions,
    refused_by,
)


class ModelOptions(Options):
    """What every model takes."""

    weights: str = "zoo"
    """"zoo": the weights shipped for this model ("zoo:seed1": another training of it); "random": as
    initialised; otherwise the path of a .safetensors or .pth file."""
    init_seed: int = 0
    """Seed of the random weights."""

    small: ClassVar[dict[str, Any] | None] = {}
    """Options of a small version, with which contract tests try the model; None if it needs files, or has no
    small version."""

    cores: ClassVar[int] = 1
    """Cores that a search on the model can use well."""
    network_mb: ClassVar[int] = 50
    """Memory of the opened model, in MB, without that of Python and torch."""
    sample_mb: ClassVar[float] = 10
    """Memory that each sample of a batch adds while a gradient is computed, in MB. The small networks of
    the zoo were measured: from 0.2 (mlp) to 6 (keyword_cnn, wav2vec2_small)."""

    def memory_mb(self, batch_size: int) -> int:
        """About the memory of the opened model while the gradient of a batch is computed, in MB, without
        that of Python and torch. It decides how many jobs run in parallel."""
        return round(self.network_mb + self.sample_mb * batch_size)

    def fetched(self) -> dict[str, Tensor] | None:
        """The state dict that "zoo" means for a model whose weights are published elsewhere and were fetched
        with `limen data get`; None if its weights are shipped."""
        return None


class Model(nn.Module):
    """Raw x -> outputs. Subclasses declare `kind` and `output` and write `forward(x, lengths, generators)`.

    x is (B, C, H, W) in [0, 1] or (B, T) in [-1, 1]; `lengths` (B,) are the valid samples of clips of
    different lengths; `generators`, one per sample, are used by models that draw at random and ignored by all
    others.
    """

    kind: Kind
    """What the model takes."""
    output: Output
    """What the model gives: "class" logits (B, K), "transcript" a `Transcripts`; for "embedding", "signal"
    and "distance" a `Values` (or outputs of its own that offer `rows`)."""
    classes: list[str] | None = None
    """Names of the classes of a classifier."""
    rate_hz: int | None = None
    """Sample rate that clips must have."""
    shape: tuple[int, ...] | None = None
    """Shape of one sample if the model requires one: (C, H, W) or (T,)."""
    random: bool = False
    """True if two calls may give different outputs: then attacks average gradients over `draws` calls."""
    draws: int = 1
    refuses: bool = False
    """True if a detector may refuse samples: then the outputs are `GuardedOutputs`."""
    batch_invariant: bool = False
    """True if a clip gets the same bits in any batch, in single precision. Attacks on such a recogniser
    compute its outputs in single precision and only their own steps in double."""
    checked: tuple[Any, int] | None = None
    """Classifiers: the weights and samples that `output_check` last saw, and the columns of the logits."""

    @property
    def for_attack(self) -> "Model":
        """The model that a search differentiates: this one, or a much faster one with nearly the same
        outputs. Success is always judged on this one."""
        return self

    def copy_facts(self, other: "Model") -> None:
        """Declare what the other model declares: for models that wrap one."""
        self.kind, self.output, self.classes = other.kind, other.output, other.classes
        self.rate_hz, self.shape = other.rate_hz, other.shape
        self.random, self.draws, self.refuses = other.random, other.draws, other.refuses

    def losses(self, x: Tensor, y: Tensor | Sequence[str], lengths: Tensor | None = None) -> Tensor:
        """(B,) cross-entropy of the classes, or negative log-likelihood of the transcripts,
        differentiable."""
        check_samples(self.kind, x, lengths)
        outputs = answers_of(self(x, lengths))
        if isinstance(outputs, Tensor) and isinstance(y, Tensor):
            return torch.nn.functional.cross_entropy(outputs, y, reduction="none")
        if isinstance(outputs, Transcripts) and not isinstance(y, Tensor):
            return outputs.nll(y)
        given = "a tensor" if isinstance(y, Tensor) else "texts"
        raise UserError(
            "losses needs class indices for a classifier, or texts for a recogniser, but this model's output "
            f"is a {self.output} and y is {given}."
        )

    def transcript_loss(self, outputs: Transcripts, texts: Sequence[str]) -> Tensor:
        """(B,) the loss that a recogniser is trained with: nats per character of the text and its end. A
        model that learns from more than the likelihood of its transcripts overrides this."""
        losses = outputs.nll(texts)
        return losses / torch.tensor([len(text) + 1 for text in texts]).to(losses)

    @torch.no_grad()
    def votes(
        self,
        x: Tensor,
        n: int,
        lengths: Tensor | None = None,
        generators: Sequence[torch.Generator] | None = None,
    ) -> Tensor | list[list[str]]:
        """The answers of n calls, each with fresh draws: (B, K) votes per class, or n texts for each clip.
        Samples that a detector refuses in a call have one vote less. A model that draws nothing is called
        once."""
        streams = generators or seeds.Streams(cache(lambda i: seeds.generator(0, "votes")), range(len(x)))
        calls, weight = (n, 1) if self.random else (1, n)
        counts = torch.zeros(len(x), len(self.classes or []), dtype=torch.long)
        texts: list[list[str]] = [[] for _ in range(len(x))]
        for _ in range(calls):
            outputs = self(x, lengths, streams)
            refused = refused_by(outputs)
            answered = torch.ones(len(x), dtype=torch.bool) if refused is None else ~refused.cpu()
            answers = predictions(outputs)
            if isinstance(answers, Tensor):
                counts[torch.arange(len(x)), answers.cpu()] += weight * answered
            else:
                for row, text, counted in zip(texts, answers, answered.tolist(), strict=True):
                    row += [text] * (weight * counted)
        return counts if self.output == "class" else texts

    @torch.no_grad()
    def transcribe(self, x: Tensor, lengths: Tensor | None = None) -> list[str]:
        """The transcript of each clip; for recognisers."""
        if self.output != "transcript":
            raise UserError(
                f"This model's output is a {self.output}, not a transcript: call the model itself for its "
                "outputs."
            )
        check_samples(self.kind, x, lengths)
        return self(x, lengths).texts()

    def prepare(self) -> None:
        """Compute what depends on the weights, such as the centres of enrolled speakers. `load_model` calls
        it once, after it has loaded the weights."""

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        raise NotImplementedError


def check_samples(
    kind: Kind, x: Tensor, lengths: Tensor | None = None, ids: Sequence[str] | None = None
) -> None:
    """A UserError if x is not a batch of that kind: wrong shape, empty, or not finite. `ids` name the samples
    in the message."""
    name = lambda i: ids[i] if ids else f"number {i}"
    if x.dim() != (2 if kind == "clip" else 4) or len(x) == 0 or (kind == "picture" and x.numel() == 0):
        wanted = (
            "(B, T), one channel each: average the channels of stereo first"
            if kind == "clip"
            else "(B, C, H, W)"
        )
        raise UserError(f"A batch of {kind}s has the shape {wanted}. {tuple(x.shape)} came.")
    if kind == "clip":
        n = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        if len(n) != len(x) or int(n.max()) > x.shape[1]:
            raise UserError(
                f"lengths must be one number per clip, at most {x.shape[1]}, but {n.tolist()} came for "
                f"{len(x)} clips."
            )
        if int(n.min()) < 1:
            raise UserError(
                f"A clip must hold at least one sample, but this one is empty: {name(int(n.argmin()))}. "
                "Leave it out."
            )
    if not bool(torch.stack(x.aminmax()).isfinite().all()):  # either end is NaN if one is
        finite = torch.isfinite(x.flatten(1)).all(1)
        bad = [name(i) for i in (~finite).nonzero().squeeze(1).tolist()]
        raise UserError(f"x must be finite, but these samples hold NaN or infinity: {', '.join(bad[:5])}.")


def check_takes(model: Model, batch: Batch, who: str = "This model") -> None:
    """A UserError unless the samples have the kind and shape that the model takes."""
    if batch.kind != model.kind:
        raise UserError(
            f"{who} takes {model.kind}s, but the data holds {batch.kind}s. Choose data of the model's kind."
        )
    shape = tuple(batch.x.shape[1:])
    if model.shape is not None and shape != tuple(model.shape):
        raise UserError(
            f"{who} takes samples of shape {tuple(model.shape)}, but the data has {shape}. "
            "Choose other data, or a model for this shape."
        )


def check_fits(model: Model, batch: Batch, who: str = "This model") -> None:
    """A UserError unless the model takes these samples and its output can be compared with their truth."""
    check_takes(model, batch, who)
    check_truth(model, batch.truth, who)
    if model.output == "signal":
        _check_signals(batch, who)
    if isinstance(batch.y, Tensor) and model.output == "class" and model.classes is not None:
        low, high = int(batch.y.min()), int(batch.y.max())
        if low < 0 or high >= len(model.classes):
            raise UserError(
                f"The data has class {high if high >= len(model.classes) else low}, but the model has only "
                f"{len(model.classes)} classes, 0 to {len(model.classes) - 1}."
            )


def check_truth(model: Model, truth: TruthKind, who: str = "This model") -> None:
    """A UserError unless the model's output can be compared with truth of this kind."""
    if truth not in TRUTHS[model.output]:
        needed = " or a ".join(TRUTHS[model.output])
        raise UserError(
            f"{who} gives a {model.output}, which is compared with a {needed}, but the data's truth is a "
            f"{truth}."
        )


def _check_signals(batch: Batch, who: str) -> None:
    """A UserError unless every true signal has the shape and length of its sample."""
    assert isinstance(batch.y, Tensor)
    same = batch.y.shape == batch.x.shape and (
        batch.lengths is None or batch.y_lengths is None or torch.equal(batch.lengths, batch.y_lengths)
    )
    if not same:
        raise UserError(
            f"{who} gives a signal for each sample, so the true signals must have the shapes and lengths of "
            f"the samples, but the samples are {tuple(batch.x.shape)} and the signals "
            f"{tuple(batch.y.shape)}."
        )


class Normalized(nn.Module):
    """(x - mean) / std per channel, then the network."""

    mean: Tensor
    std: Tensor

    def __init__(self, network: nn.Module, mean: Sequence[float], std: Sequence[float]):
        super().__init__()
        self.network, self.training = network, network.training
        self.register_buffer("mean", torch.tensor(mean).view(-1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(-1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.network((x - self.mean) / self.std)


class Classifier(Model):
    """Any torch module from raw x to logits, with the facts that Limen needs about it."""

    output = "class"

    def __init__(
        self,
        network: nn.Module,
        kind: Kind,
        classes: Sequence[str],
        *,
        rate_hz: int | None = None,
        shape: tuple[int, ...] | None = None,
    ):
        super().__init__()
        self.network, self.kind, self.classes, self.rate_hz, self.shape = (
            network,
            kind,
            list(classes),
            rate_hz,
            shape,
        )
        self.training = network.training

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        return self.network(x)


class PublishedNames(nn.Module):
    """A network whose published weights files name its parameters differently."""

    renamed: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Regular expressions and their replacements, applied in order, that turn a published name into ours."""

    @classmethod
    def our_name(cls, name: str) -> str:
        for pattern, replacement in cls.renamed:
            name = re.sub(pattern, replacement, name)
        return name


def inner(model: nn.Module) -> nn.Module:
    """The network without its wrapping: the module whose parameter names weight files carry."""
    while isinstance(getattr(model, "network", None), nn.Module):
        model = model.network  # type: ignore[assignment]
    return model


def _two_or_more(classes: int | list[str]) -> int | list[str]:
    if (classes if isinstance(classes, int) else len(classes)) < 2:
        raise ValueError(f"classes must be 2 or more, or as many names, got {classes}")
    return classes


Classes = Annotated[Annotated[int, Field(le=100_000)] | list[str], AfterValidator(_two_or_more)]
"""An option that gives the number of classes, or their names."""


def class_names(classes: int | Sequence[str]) -> list[str]:
    """10 -> "0" ... "9"; names stay as they are."""
    return [str(i) for i in range(classes)] if isinstance(classes, int) else list(classes)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every module has its former mode."""
    modes: list[tuple[Any, bool]] = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode

"""The base class of models: a function from raw samples to outputs, with normalisation and features as
layers of the network."""

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
    """Options that every model has."""

    weights: str = "zoo"
    """"zoo": the weights shipped for this model ("zoo:seed1": those of another training); "random": a
    fresh initialisation; otherwise the path of a .safetensors or .pth file."""
    init_seed: int = 0
    """Seed of the random weights."""

    small: ClassVar[dict[str, Any] | None] = {}
    """Options of a small version, which the contract tests use; None if the model needs files or has no
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
        """The state dict of weights that are published elsewhere and downloaded with `limen data get`;
        None if the weights are shipped."""
        return None


class Model(nn.Module):
    """A map from raw samples x to outputs. Subclasses declare `kind` and `output` and define `forward(x,
    lengths, generators)`.

    x is (B, C, H, W) in [0, 1] or (B, T) in [-1, 1]; `lengths` (B,) are the valid samples of each clip;
    `generators`, one per sample, are used by models that draw at random and ignored by all others.
    """

    kind: Kind
    """Kind of the samples that the model takes."""
    output: Output
    """Kind of the outputs: "class" for logits (B, K), "transcript" for `Transcripts`; "embedding",
    "signal" and "distance" for `Values` (or another class that has `rows`)."""
    classes: list[str] | None = None
    """Class names of a classifier."""
    rate_hz: int | None = None
    """Required sample rate of clips."""
    shape: tuple[int, ...] | None = None
    """Required shape of one sample, (C, H, W) or (T,); None if any shape is accepted."""
    random: bool = False
    """True if two calls on the same samples may differ; attacks then average gradients over `draws` calls."""
    draws: int = 1
    refuses: bool = False
    """True if a detector may refuse samples; the outputs are then `GuardedOutputs`."""
    batch_invariant: bool = False
    """True if the outputs for a clip are bitwise equal in any batch, in single precision. Attacks on such
    a recogniser evaluate it in single precision and use double precision only for their own steps."""
    checked: tuple[Any, int] | None = None
    """Classifiers: result of the last `output_check`, as the state of weights and samples and the number
    of logits."""

    @property
    def for_attack(self) -> "Model":
        """The model that attacks differentiate: this one, or a faster approximation. Success is always
        judged on this one."""
        return self

    def copy_facts(self, other: "Model") -> None:
        """Copy the declarations of the other model; for models that wrap one."""
        self.kind, self.output, self.classes = other.kind, other.output, other.classes
        self.rate_hz, self.shape = other.rate_hz, other.shape
        self.random, self.draws, self.refuses = other.random, other.draws, other.refuses

    def losses(self, x: Tensor, y: Tensor | Sequence[str], lengths: Tensor | None = None) -> Tensor:
        """(B,) cross-entropy of the classes or negative log-likelihood of the transcripts, differentiable."""
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
        """(B,) training loss of a recogniser, in nats per character including the end of the text. Models
        with further loss terms override this."""
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
        """Predictions of n calls, each with fresh random draws: (B, K) votes per class, or n texts for
        each clip. A call in which a detector refuses the sample adds no vote. A deterministic model is
        called once."""
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
        """Transcripts of the clips; for recognisers."""
        if self.output != "transcript":
            raise UserError(
                f"This model's output is a {self.output}, not a transcript: call the model itself for its "
                "outputs."
            )
        check_samples(self.kind, x, lengths)
        return self(x, lengths).texts()

    def prepare(self) -> None:
        """Compute values that depend on the weights, such as the centres of enrolled speakers.
        `load_model` calls it once, after loading the weights."""

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        raise NotImplementedError


def check_samples(
    kind: Kind, x: Tensor, lengths: Tensor | None = None, ids: Sequence[str] | None = None
) -> None:
    """Raise a UserError if x is not a batch of that kind: wrong shape, empty, or not finite. `ids` name
    the samples in the message."""
    name = lambda i: ids[i] if ids else f"number {i}"
    if x.dim() != (2 if kind == "clip" else 4) or len(x) == 0 or (kind == "picture" and x.numel() == 0):
        wanted = (
            "(B, T), one channel each: average the channels of stereo first"
            if kind == "clip"
            else "(B, C, H, W)"
        )
        raise UserError(f"A batch of {kind}s must have the shape {wanted}, got {tuple(x.shape)}.")
    if kind == "clip":
        n = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        if len(n) != len(x) or int(n.max()) > x.shape[1]:
            raise UserError(
                f"lengths must be one number per clip, at most {x.shape[1]}, got {n.tolist()} for {len(x)} "
                "clips."
            )
        if int(n.min()) < 1:
            raise UserError(
                f"A clip must have at least one sample, but this one is empty: {name(int(n.argmin()))}. "
                "Remove it from the data."
            )
    if not bool(torch.stack(x.aminmax()).isfinite().all()):  # both are NaN if any value is
        finite = torch.isfinite(x.flatten(1)).all(1)
        bad = [name(i) for i in (~finite).nonzero().squeeze(1).tolist()]
        raise UserError(f"x must be finite, but these samples contain NaN or infinity: {', '.join(bad[:5])}.")


def check_takes(model: Model, batch: Batch, who: str = "This model") -> None:
    """Raise a UserError unless the samples have the kind and shape that the model takes."""
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
    """Raise a UserError unless the model takes these samples and its output can be compared with their
    truth."""
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
    """Raise a UserError unless the model's output can be compared with truth of this kind."""
    if truth not in TRUTHS[model.output]:
        needed = " or a ".join(TRUTHS[model.output])
        raise UserError(
            f"{who} gives a {model.output}, which is compared with a {needed}, but the data's truth is a "
            f"{truth}."
        )


def _check_signals(batch: Batch, who: str) -> None:
    """Raise a UserError unless every true signal has the shape and length of its sample."""
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
    """Normalisation (x - mean) / std per channel, followed by the network."""

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
    """A classifier made of any torch module from raw samples to logits."""

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
    """Regular expressions and replacements, applied in order, that convert a published name into ours."""

    @classmethod
    def our_name(cls, name: str) -> str:
        for pattern, replacement in cls.renamed:
            name = re.sub(pattern, replacement, name)
        return name


def inner(model: nn.Module) -> nn.Module:
    """The innermost network, whose parameter names are those of the weights files."""
    while isinstance(getattr(model, "network", None), nn.Module):
        model = model.network  # type: ignore[assignment]
    return model


def _two_or_more(classes: int | list[str]) -> int | list[str]:
    if (classes if isinstance(classes, int) else len(classes)) < 2:
        raise ValueError(f"classes must be 2 or more, or as many names, got {classes}")
    return classes


Classes = Annotated[Annotated[int, Field(le=100_000)] | list[str], AfterValidator(_two_or_more)]
"""Type of an option: the number of classes, or their names."""


def class_names(classes: int | Sequence[str]) -> list[str]:
    """The names of the classes: 10 gives "0" to "9"; names are returned unchanged."""
    return [str(i) for i in range(classes)] if isinstance(classes, int) else list(classes)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Context in evaluation mode; on exit every module returns to its former mode."""
    modes: list[tuple[Any, bool]] = [(m, m.training) for m in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode

"""Any torch.nn.Module: made by a function given as "package.module:function", or a TorchScript file.

The module maps a batch to logits (B, K). Declare its input (pictures or clips, their rate, shape and range of
values) and Limen converts the samples, while data, budgets and reports keep the natural range. The module's
code is executed: use only modules and files that you trust.
"""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from limen.core.components import import_function
from limen.core.errors import UserError
from limen.core.options import Options, short_repr
from limen.core.types import BOUNDS, Kind
from limen.models.base.model import Classes, Classifier, Model, ModelOptions, Normalized, class_names


class Wrapping(Options):
    """Options that describe a module from outside Limen."""

    kind: Kind = "picture"
    """Kind of the samples that the module takes: "picture" or "clip"."""
    classes: Classes
    """Number of classes, or their names."""
    rate_hz: int | None = Field(default=None, ge=1)
    """Sample rate of clips."""
    shape: list[int] | None = None
    """Required shape of one sample, [C, H, W] or [T]; null: any."""
    input_range: Literal["0..1", "0..255", "-1..1"] | None = None
    """Range of values the module was trained on; null: the natural one (pictures 0..1, clips -1..1)."""
    mean: list[float] | None = None
    """Pictures: mean of each channel, subtracted after `input_range` (of pixels in 0..1 if that is null)."""
    std: list[float] | None = None
    """Pictures: standard deviation of each channel."""

    @model_validator(mode="after")
    def _check_normalisation(self) -> "Wrapping":
        if (self.mean is None) != (self.std is None):
            raise ValueError("mean and std must be given together")
        if self.kind == "clip" and self.mean is not None:
            raise ValueError("mean and std are for pictures; a model of clips has none")
        if self.mean is not None and self.std is not None:
            if not self.mean or len(self.mean) != len(self.std):
                raise ValueError(
                    f"mean and std need one number per channel each, got {len(self.mean)} and {len(self.std)}"
                )
            if min(self.std) <= 0:
                raise ValueError(f"every std must be above 0, got {self.std}")
        return self

    @model_validator(mode="after")
    def _check_form(self) -> "Wrapping":
        if self.shape is not None and (
            len(self.shape) != (3 if self.kind == "picture" else 1) or min(self.shape) < 1
        ):
            wanted = "[C, H, W]" if self.kind == "picture" else "[T]"
            raise ValueError(f"the shape of one {self.kind} is {wanted}, each 1 or more, got {self.shape}")
        return self


class TorchModule(ModelOptions, Wrapping):
    small: ClassVar[dict[str, Any] | None] = None
    example: ClassVar[dict[str, Any]] = {
        "factory": "my_package.my_module:make",
        "kind": "picture",
        "classes": 10,
    }

    weights: str = "own"
    """"own": the weights that the function or the file gives; otherwise the path of a .safetensors or .pth
    file."""
    factory: str | None = None
    """A callable that returns the module, as "package.module:function". The working folder is searched
    too."""
    arguments: dict[str, Any] = Field(default={})
    """Keyword arguments of the factory."""
    script: str | None = None
    """Path of a TorchScript file, instead of a factory."""

    @model_validator(mode="after")
    def _check_source(self) -> "TorchModule":
        if (self.factory is None) == (self.script is None):
            raise ValueError('give either factory: "package.module:function" or script: path/to/file.pt')
        if self.factory is not None and self.factory.count(":") != 1:
            raise ValueError(f'factory must be written "package.module:function", got {self.factory!r}')
        if self.kind == "clip" and self.rate_hz is None:
            raise ValueError("a model of clips needs rate_hz")
        return self


class Ranged(nn.Module):
    """The affine map scale * x + offset, followed by the network."""

    def __init__(self, network: nn.Module, scale: float, offset: float):
        super().__init__()
        self.network, self.scale, self.offset, self.training = network, scale, offset, network.training

    def forward(self, x: Tensor) -> Tensor:
        return self.network(self.scale * x + self.offset)


class External(Classifier):
    """A classifier without support for padding: clips of different lengths are evaluated one at a time."""

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        if lengths is None or bool((lengths == x.shape[-1]).all()):
            return self.network(x)
        return torch.cat([self.network(clip[None, :n]) for clip, n in zip(x, lengths.tolist(), strict=True)])


def torch_module(options: TorchModule) -> Model:
    return wrap(
        _from_script(options.script)
        if options.script
        else _from_factory(str(options.factory), options.arguments),
        options,
    )


def wrap(network: nn.Module, options: Wrapping) -> Model:
    """The module as a model that takes samples in their natural range."""
    if options.mean is not None and options.std is not None:
        network = Normalized(network, options.mean, options.std)
    low, high = BOUNDS[options.kind]
    wanted = {None: (low, high), "0..1": (0.0, 1.0), "0..255": (0.0, 255.0), "-1..1": (-1.0, 1.0)}[
        options.input_range
    ]
    scale = (wanted[1] - wanted[0]) / (high - low)
    if (scale, wanted[0]) != (1.0, low):
        network = Ranged(network, scale, wanted[0] - scale * low)
    shape = tuple(options.shape) if options.shape else None
    return External(network, options.kind, class_names(options.classes), rate_hz=options.rate_hz, shape=shape)


def _from_script(path: str) -> nn.Module:
    try:
        return torch.jit.load(os.path.expanduser(path), map_location="cpu")
    except (RuntimeError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0].partition(". ")[0]
        raise UserError(f"model torch_module: {path} cannot be read as TorchScript: {reason}.") from None


def _from_factory(factory: str, arguments: dict[str, Any]) -> nn.Module:
    make = import_function(factory, "model torch_module: factory")
    try:
        network = make(**arguments)
    except UserError:
        raise
    except Exception as error:  # user code may raise any exception
        raise UserError(
            f"model torch_module: {factory} failed ({type(error).__name__}: {error}). Check its "
            f"keyword arguments, `arguments`: {short_repr(arguments)}."
        ) from error
    if not isinstance(network, nn.Module):
        raise UserError(
            f"model torch_module: {factory} must return a torch.nn.Module, got {type(network).__name__}."
        )
    return network

"""Floating-point precision of a search.

The search on a recogniser multiplies rounding errors by a hundred thousand in 20 steps, and rounding errors
depend on the size of the batch. So that a clip gets the same result alone and in a batch, such searches run
in double precision ("auto"). A recogniser that computes the very same bits for a clip in any batch
(`Model.batch_invariant`) is evaluated in single precision, which takes half the time: its input is rounded to
a grid 128 times finer than 16-bit audio, which removes the last digits, the only ones that depend on the
batch. `import limen` asks MKL for matrix products whose rows do not depend on their number (MKL_CBWR); this
has no effect if torch has multiplied before, and not on every processor. Batch invariance is therefore
measured (`gives_same_bits`): all recognisers of the zoo but wav2vec2_small have it, Whisper by processing
clip after clip. In one padded batch Whisper's gradients differed by up to 7e-5 of their norm from those of
single clips, and with another number of threads by up to 8e-4, so a single clip is searched in one thread,
too.
"""

import copy
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from limen.models.base.model import Model

Precision = Literal["auto", "single", "double"]
""""auto": recognisers are searched in double precision, everything else in the precision of the samples."""

_TWINS: WeakKeyDictionary[Model, tuple[object, Model]] = WeakKeyDictionary()
_ALIKE: dict[object, bool] = {}


def prepared(model: Model, x: Tensor, precision: Precision) -> tuple[Model, Tensor]:
    """The model that a search evaluates, and the samples in the precision of the search."""
    if precision != "double" and model.output == "class":
        return model, x
    return _twin(model, precision), x if precision == "single" else x.double()


def _twin(model: Model, precision: Precision) -> Model:
    """A copy whose weights need no gradients, cached until the weights change."""
    state = precision, [p._version for p in model.parameters()]
    entry = _TWINS.get(model)
    if entry is None or entry[0] != state:
        shared = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in model.parameters()}
        entry = _TWINS[model] = state, copy.deepcopy(model, shared).eval()
        if precision != "single":
            entry[1].double()
        if precision == "auto":
            for part in entry[1].modules():
                if isinstance(part, Model) and part.batch_invariant:
                    if gives_same_bits(part.float()):
                        part.register_forward_pre_hook(_on_grid)
                    else:
                        part.double()
    return entry[1]


def _on_grid(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    return (_Grid.apply(given[0]), *given[1:])


class _Grid(torch.autograd.Function):
    """The nearest point with 22 binary places, in single precision; the gradient is that of no change."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return (x * 2**22).round_().mul_(2**-22).float()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.double()


def gives_same_bits(model: Model) -> bool:
    """True if this machine computes the same gradients of clips, bit for bit, in a batch and one by one. That
    depends on the sizes of the network and on the linear algebra library, not on the weights, so it is
    measured once per architecture."""
    threads = torch.get_num_threads()
    sizes, kinds = (
        tuple((p.shape, p.device) for p in model.parameters()),
        tuple(type(m) for m in model.modules()),
    )
    key = sizes, kinds
    if key not in _ALIKE:
        lengths = [7001, 16000, 4321, 12345]
        clips = [0.1 * torch.randn(1, n, generator=torch.Generator().manual_seed(n)) for n in lengths]
        torch.set_num_threads(1)  # in which every share of a batch, and every single clip, is searched
        try:
            alone = [
                _gradient(model, clip, torch.tensor([n]))[0] for clip, n in zip(clips, lengths, strict=True)
            ]
            together = _gradient(
                model,
                nn.utils.rnn.pad_sequence([clip[0] for clip in clips], batch_first=True),
                torch.tensor(lengths),
            )
        finally:
            torch.set_num_threads(threads)
        _ALIKE[key] = all(
            torch.equal(one, row[:n]) for one, row, n in zip(alone, together, lengths, strict=True)
        )
    return _ALIKE[key]


def _gradient(model: Model, x: Tensor, lengths: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = x.to(next(model.parameters())).requires_grad_()
        outputs = model(leaf, lengths)
        assert not isinstance(outputs, Tensor)
        return torch.autograd.grad(outputs.nll(["one"] * len(x)).sum(), leaf)[0]

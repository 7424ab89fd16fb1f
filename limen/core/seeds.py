"""Randomness is an argument: one seed per run, one stream per sample id and purpose.

A stream depends on nothing but the seed and the words that name it, so batch size, order, resuming and device
cannot change a draw.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a server of listening studies draws numbers without the two seconds that torch takes
    import torch
    from torch import Tensor


def number(seed: int, *words: object) -> int:
    """A 63-bit number that depends on the seed and on every word."""
    text = "\x1f".join([str(seed), *map(str, words)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def generator(seed: int, *words: object) -> "torch.Generator":
    import torch

    return torch.Generator().manual_seed(number(seed, *words))


class Streams(Sequence["torch.Generator"]):
    """One stream per sample, seeded when first drawn from: seeding hundreds that nobody draws from costs as
    much as a forward pass."""

    def __init__(self, make: Callable[[int], "torch.Generator"], numbers: Sequence[int]):
        self._make, self._numbers = make, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: Any) -> Any:
        return Streams(self._make, self._numbers[i]) if isinstance(i, slice) else self._make(self._numbers[i])

    def rows(self, index: Sequence[int]) -> "Streams":
        """The very streams of some samples: what is drawn from one is drawn from the other."""
        return Streams(self._make, [self._numbers[i] for i in index])


def generators(seed: int, ids: Sequence[str], *words: object) -> Streams:
    """One stream per sample."""
    return Streams(cache(lambda i: generator(seed, *words, ids[i])), range(len(ids)))


def uniform_like(
    x: "Tensor", streams: "Sequence[torch.Generator]", lengths: "Tensor | None" = None
) -> "Tensor":
    """(B, ...) numbers in [0, 1); row i comes from stream i alone. Of clips with `lengths`, padding draws
    nothing and stays 0."""
    import torch

    return _drawn(torch.rand, x, streams, lengths)


def normal_like(
    x: "Tensor", streams: "Sequence[torch.Generator]", lengths: "Tensor | None" = None
) -> "Tensor":
    """(B, ...) standard normal numbers; row i comes from stream i alone. Of clips with `lengths`, padding
    draws nothing and stays 0."""
    import torch

    return _drawn(torch.randn, x, streams, lengths)


def _drawn(
    draw: "Callable[..., Tensor]", x: "Tensor", streams: "Sequence[torch.Generator]", lengths: "Tensor | None"
) -> "Tensor":
    import torch

    if lengths is None:
        return torch.stack([draw(x.shape[1:], generator=g, dtype=x.dtype) for g in streams]).to(x.device)
    # a clip must draw the same numbers, and as many, alone as beside a longer one
    out = torch.zeros(x.shape, dtype=x.dtype)
    for row, g, n in zip(out, streams, lengths.tolist(), strict=True):
        row[..., :n] = draw((*x.shape[1:-1], n), generator=g, dtype=x.dtype)
    return out.to(x.device)

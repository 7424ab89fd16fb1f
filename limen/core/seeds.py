"""Random streams: one seed per run, one stream per sample id and purpose.

A stream depends only on the seed and the words that name it, so batch size, order, resuming and device cannot
change a draw.
"""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the server of listening studies needs `number` without the two seconds of importing torch
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
    """One stream per sample, seeded on first use: seeding hundreds of unused streams takes as long as a
    forward pass."""

    def __init__(self, make: Callable[[int], "torch.Generator"], numbers: Sequence[int]):
        self._make, self._numbers = make, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: Any) -> Any:
        return Streams(self._make, self._numbers[i]) if isinstance(i, slice) else self._make(self._numbers[i])

    def rows(self, index: Sequence[int]) -> "Streams":
        """The streams of some samples, shared: a draw from one advances the other."""
        return Streams(self._make, [self._numbers[i] for i in index])


def generators(seed: int, ids: Sequence[str], *words: object) -> Streams:
    """One stream per sample."""
    return Streams(cache(lambda i: generator(seed, *words, ids[i])), range(len(ids)))


def uniform_like(
    x: "Tensor", streams: "Sequence[torch.Generator]", lengths: "Tensor | None" = None
) -> "Tensor":
    """(B, ...) numbers in [0, 1); row i is drawn from stream i. With `lengths`, nothing is drawn for the
    padding of clips, which stays 0."""
    import torch

    return _drawn(torch.rand, x, streams, lengths)


def normal_like(
    x: "Tensor", streams: "Sequence[torch.Generator]", lengths: "Tensor | None" = None
) -> "Tensor":
    """(B, ...) standard normal numbers; row i is drawn from stream i. With `lengths`, nothing is drawn for
    the padding of clips, which stays 0."""
    import torch

    return _drawn(torch.randn, x, streams, lengths)


def _drawn(
    draw: "Callable[..., Tensor]", x: "Tensor", streams: "Sequence[torch.Generator]", lengths: "Tensor | None"
) -> "Tensor":
    import torch

    if lengths is None:
        return torch.stack([draw(x.shape[1:], generator=g, dtype=x.dtype) for g in streams]).to(x.device)
    # a clip must draw the same numbers in any batch, however long the longest clip is
    out = torch.zeros(x.shape, dtype=x.dtype)
    for row, g, n in zip(out, streams, lengths.tolist(), strict=True):
        row[..., :n] = draw((*x.shape[1:-1], n), generator=g, dtype=x.dtype)
    return out.to(x.device)

"""Randomness is an argument: one seed per run, one stream per sample id and purpose.

A stream depends on nothing but the seed and the words that name it, so batch size, order, resuming and device cannot change a draw.
"""

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor


def number(seed: int, *words: object) -> int:
    """A 63-bit number that depends on the seed and on every word."""
    text = "\x1f".join([str(seed), *map(str, words)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def generator(seed: int, *words: object) -> torch.Generator:
    return torch.Generator().manual_seed(number(seed, *words))


def generators(seed: int, ids: Sequence[str], *words: object) -> list[torch.Generator]:
    """One stream per sample."""
    return [generator(seed, *words, i) for i in ids]


def uniform_like(x: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
    """(B, ...) numbers in [0, 1); row i comes from stream i alone."""
    return torch.stack([torch.rand(x.shape[1:], generator=g, dtype=x.dtype) for g in streams]).to(x.device)


def normal_like(x: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
    """(B, ...) standard normal numbers; row i comes from stream i alone."""
    return torch.stack([torch.randn(x.shape[1:], generator=g, dtype=x.dtype) for g in streams]).to(x.device)

"""Loops over frames that Python would be too slow for: compiled by torch, they run without Python's lock, so
that two batches in two threads do not wait for each other at every step."""

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch


def scripted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as TorchScript, compiled when it is first called."""

    @cache
    def compiled() -> Callable[..., Any]:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch would have us move on to torch.compile, which needs a C++ compiler
            return torch.jit.script(function)

    return wraps(function)(lambda *given: compiled()(*given))

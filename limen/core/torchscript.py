"""TorchScript compilation of loops over frames. Compiled loops run without Python's global lock, so that two
batches in two threads do not wait for each other at every step."""

import warnings
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import torch


def scripted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the function to TorchScript on its first call."""

    @cache
    def compiled() -> Callable[..., Any]:
        with warnings.catch_warnings():
            # torch recommends torch.compile, which needs a C++ compiler
            warnings.simplefilter("ignore")
            return torch.jit.script(function)

    return wraps(function)(lambda *given: compiled()(*given))

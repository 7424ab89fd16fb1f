"""Adversarial perturbation scaled to the strength s: x + s / 100 * largest * (perturbed - clean)."""

from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from limen.audio.files import read_clip
from limen.core.options import Options


class Adversarial(Options):
    condition: str = "adversarial"
    """In a study: the condition whose file of the item is the perturbed clip, if `file` is not given."""
    file: str = ""
    """The perturbed clip; a path from the study file's folder."""
    clean_file: str = ""
    """The clip it was made from; empty: the sound that is degraded."""
    largest: float = Field(default=1.0, gt=0, le=1000)
    """Factor of the perturbation at strength 100."""


def adversarial(x: Tensor, strength: float, rate_hz: int, options: Adversarial, seed: int) -> Tensor:
    if strength == 0:
        return x
    perturbed = _fitted(read_clip(options.file, rate_hz).to(x), len(x))
    clean = _fitted(read_clip(options.clean_file, rate_hz).to(x), len(x)) if options.clean_file else x
    return x + strength / 100 * options.largest * (perturbed - clean)


def _fitted(x: Tensor, samples: int) -> Tensor:
    return F.pad(x, (0, max(0, samples - len(x))))[:samples]

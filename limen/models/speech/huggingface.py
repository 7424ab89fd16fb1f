"""Functions shared by the adapters of Hugging Face checkpoints: loading of local checkpoints and preparation
of the waveform.

Nothing is downloaded here and no code of a checkpoint is run.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.errors import UserError, missing_package


def transformers(who: str) -> ModuleType:
    """The package transformers; raises an error if it is not installed."""
    try:
        import transformers as library
    except ImportError:
        raise missing_package(f"The model {who}", "transformers", "models") from None
    return library


def checkpoint_memory_mb(path: str, batch_size: int) -> int:
    """About the memory of a gradient, in MB: four times the weights (single and double precision, and a copy
    while they are read) and a quarter for each clip of a few seconds. Calculated for wav2vec 2.0 base, whose
    size is taken for checkpoints that are not a local folder."""
    folder = Path(path).expanduser()
    files = list(folder.glob("*.safetensors")) or list(folder.glob("*.bin"))
    weights_mb = sum(file.stat().st_size for file in files) / 2**20 if files else 380
    return round(weights_mb * (4 + batch_size / 4))


def checkpoint(who: str, path: str, types: Sequence[str]) -> tuple[str, Any]:
    """The folder, or the name of a downloaded checkpoint, and its configuration; raises a UserError if it
    is not of one of the types."""
    library = transformers(who)
    folder = Path(path).expanduser()
    place = str(folder) if folder.is_dir() else path
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise UserError(
            f"model {who}: the folder {path} has no config.json. Give a folder written by save_pretrained."
        )
    config = reading(
        who,
        path,
        lambda: library.AutoConfig.from_pretrained(place, local_files_only=True, trust_remote_code=False),
    )
    if config.model_type not in types:
        raise UserError(
            f"model {who}: {path} must be a checkpoint of the type {' or '.join(types)}, got "
            f"{config.model_type}."
        )
    return place, config


def reading(who: str, path: str, read: Callable[[], Any]) -> Any:
    """The result of `read`, with the library's errors converted to a UserError."""
    try:
        return read()
    except (OSError, ValueError, ImportError) as error:
        raise UserError(
            f"model {who}: {path} cannot be read, neither as a local folder nor as a checkpoint that was "
            f"downloaded before: {str(error).strip().splitlines()[0]} Give a folder with config.json, "
            "model.safetensors, the vocabulary and preprocessor_config.json."
        ) from None


def network(who: str, kind: str, place: str) -> Any:
    """The network of a checkpoint with its weights. In training mode it accepts samples that require a
    gradient, and draws only from torch's generator."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    auto_class = getattr(transformers(who), kind)
    loaded = reading(
        who, place, lambda: auto_class.from_pretrained(place, local_files_only=True, trust_remote_code=False)
    )
    loaded.config.apply_spec_augment = False  # its masks are drawn from numpy's global generator
    for module in loaded.modules():
        if hasattr(module, "_requires_grad"):
            module._requires_grad = (
                False  # set for gradient checkpointing; refuses inputs that are not leaves
            )
    return loaded


def json_file(who: str, place: str, name: str) -> dict[str, Any]:
    """The content of a JSON file of the checkpoint."""
    from transformers.utils import cached_file

    return json.loads(
        Path(reading(who, place, lambda: cached_file(place, name, local_files_only=True))).read_text()
    )


def standardised(x: Tensor, lengths: Tensor) -> Tensor:
    """Clips (B, T) with mean 0 and variance 1 over the valid samples of each, zero after them, as in
    Wav2Vec2FeatureExtractor."""
    n = lengths.to(x.device).clamp_min(1)[:, None]
    mine = torch.arange(x.shape[1], device=x.device) < n
    centred = (x - torch.where(mine, x, 0.0).sum(1, keepdim=True) / n).where(mine, torch.zeros_like(x))
    return centred / (centred.square().sum(1, keepdim=True) / n + 1e-7).sqrt()


def conv_frames(lengths: Tensor, kernels: Sequence[int], strides: Sequence[int]) -> Tensor:
    """Numbers of samples (B,) to numbers of frames (B,) after convolutions without padding, at least one."""
    for kernel, stride in zip(kernels, strides, strict=True):
        lengths = (lengths - kernel).clamp_min(0) // stride + 1
    return lengths


def receptive_field(kernels: Sequence[int], strides: Sequence[int]) -> int:
    """Receptive field of one frame of the convolutions, in samples."""
    samples = 1
    for kernel, stride in zip(reversed(kernels), reversed(strides), strict=True):
        samples = (samples - 1) * stride + kernel
    return samples


def padded_to(x: Tensor, least: int) -> Tensor:
    """Clips padded with silence to at least `least` samples."""
    return F.pad(x, (0, max(least - x.shape[1], 0)))

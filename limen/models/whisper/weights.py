"""Reading of Whisper's published weights (OpenAI's .pt, a Hugging Face folder, a CTranslate2 file) and its
sizes."""

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from limen.core.errors import UserError
from limen.models.base.load import load_tensors
from limen.models.whisper.network import Dims

SIZES = {
    "tiny": (384, 4, 4),
    "base": (512, 6, 6),
    "small": (768, 12, 12),
    "medium": (1024, 24, 24),
    "large-v2": (1280, 32, 32),
    "large-v3": (1280, 32, 32),
    "large-v3-turbo": (1280, 32, 4),
}
"""Width, encoder layers, decoder layers. Every head has 64 channels."""
MILLION_PARAMETERS = {
    "tiny": 39,
    "base": 74,
    "small": 244,
    "medium": 769,
    "large-v2": 1550,
    "large-v3": 1550,
    "large-v3-turbo": 809,
}


def dims_of_size(size: str) -> Dims:
    width, encoder, decoder = SIZES[size.removesuffix(".en")]
    vocabulary = 51864 if size.endswith(".en") else 51866 if size.startswith("large-v3") else 51865
    return Dims(128 if size.startswith("large-v3") else 80, width, width // 64, encoder, decoder, vocabulary)


def dims_of_file(path: Path) -> Dims:
    """Sizes declared in OpenAI's file, or in the config.json of a Hugging Face folder."""
    config: Any
    if path.is_dir():
        config = _json(path / "config.json")
        names = (
            "num_mel_bins",
            "d_model",
            "encoder_attention_heads",
            "encoder_layers",
            "decoder_layers",
            "vocab_size",
            "max_source_positions",
            "max_target_positions",
        )
    else:
        if not path.is_file():
            raise UserError(f"model whisper: there is no weights file or folder {path}.")
        checkpoint = load_tensors(path, mmap=True)
        config = checkpoint.get("dims") if isinstance(checkpoint, dict) else None
        if not isinstance(config, dict):
            raise UserError(
                f"model whisper: {path} is not a weights file in OpenAI's format: it has no sizes (dims). "
                "Expected a .pt with dims and model_state_dict, or a folder with config.json and "
                "model.safetensors."
            )
        names = (
            "n_mels",
            "n_audio_state",
            "n_audio_head",
            "n_audio_layer",
            "n_text_layer",
            "n_vocab",
            "n_audio_ctx",
            "n_text_ctx",
        )
    if missing := [name for name in names if name not in config]:
        raise UserError(f"model whisper: {path} is not a Whisper: it does not declare {', '.join(missing)}.")
    return Dims(*(int(config[name]) for name in names))


def is_multilingual(dims: Dims, path: Path | None) -> bool:
    """Whether the model is multilingual: the English vocabulary is one token shorter, and a Hugging Face
    folder may declare it."""
    declared = (
        _json(path / "generation_config.json").get("is_multilingual")
        if path and (path / "generation_config.json").is_file()
        else None
    )
    return dims.vocabulary >= 51865 if declared is None else bool(declared)


def _json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"model whisper: {path} cannot be read ({error}).") from None


def ctranslate2_state(parts: Sequence[Path]) -> dict[str, Tensor]:
    """The state dict, with OpenAI's names and in single precision, of a CTranslate2 model.bin, which may
    be in parts."""
    state: dict[str, Tensor] = {}
    for name, value in _variables(b"".join(part.read_bytes() for part in parts)).items():
        if value.ndim > 0:  # scalars are settings
            state |= _named(name, torch.from_numpy(value.astype(np.float32)))
    return state


def _variables(data: bytes) -> dict[str, np.ndarray]:
    """Little-endian: version, name, revision, count; for each variable: name, rank, shape, type, bytes,
    data. Strings: length, text, NUL."""
    at = 0

    def number(form: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(f"<{form}", data, at)
        at += struct.calcsize(form)
        return value

    def string() -> str:
        nonlocal at
        length = number("H")
        at += length
        return data[at - length : at - 1].decode()

    types = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
    version, kind, _revision = number("I"), string(), number("I")
    if version < 6 or kind != "WhisperSpec":
        raise UserError(f"Expected a CTranslate2 Whisper of version 6, got {kind} of version {version}.")
    found = {}
    for _ in range(number("I")):
        name = string()
        shape = [number("I") for _ in range(number("B"))]
        kind_of, size = types[number("B")], number("I")
        found[name] = np.frombuffer(data, kind_of, size // np.dtype(kind_of).itemsize, at).reshape(shape)
        at += size
    return found


def _named(name: str, value: Tensor) -> dict[str, Tensor]:
    """One variable of CTranslate2 by OpenAI's names; query, key and value are stored concatenated."""
    path = name.replace("layer_norm/gamma", "layer_norm/weight").replace("layer_norm/beta", "layer_norm/bias")
    top, *middle, kind = path.split("/")
    if middle == ["embeddings"]:
        return {"decoder.token_embedding.weight": value}
    if middle == ["position_encodings"]:
        return {f"{top}.positional_embedding": value}
    if middle == ["layer_norm"]:
        return {f"{top}.{'ln_post' if top == 'encoder' else 'ln'}.{kind}": value}
    if len(middle) == 1:  # the two convolutions
        return {f"{top}.{middle[0]}.{kind}": value}
    layer, part, inside = middle
    block = f"{top}.blocks.{layer.removeprefix('layer_')}"
    ours = {"self_attention": "attn", "attention": "cross_attn", "ffn": "mlp"}[part]
    if inside == "layer_norm":
        return {f"{block}.{ours}_ln.{kind}": value}
    if part == "ffn":
        return {f"{block}.mlp.{0 if inside == 'linear_0' else 2}.{kind}": value}
    joined = {
        ("self_attention", "linear_0"): ["query", "key", "value"],
        ("self_attention", "linear_1"): ["out"],
        ("attention", "linear_0"): ["query"],
        ("attention", "linear_1"): ["key", "value"],
        ("attention", "linear_2"): ["out"],
    }[part, inside]
    pieces = dict(zip(joined, value.chunk(len(joined)), strict=True))
    # keys have no bias: the zeros stored for it are dropped
    return {
        f"{block}.{ours}.{which}.{kind}": piece.clone()
        for which, piece in pieces.items()
        if (which, kind) != ("key", "bias")
    }

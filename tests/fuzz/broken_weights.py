"""Files of weights that were cut, changed, or are something else altogether."""

import io
import json
import pickle
import random
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from broken_media import damaged
from judging import HERE, Mutant

ZOO = HERE.parents[1] / "limen" / "models" / "zoo" / "mlp.safetensors"
ODD: list[Any] = [
    None,
    0,
    "x",
    [1, 2],
    {},
    {"state_dict": 5},
    {"state_dict": {"state_dict": {}}},
    {1: torch.zeros(1)},
    {"x": "y"},
    {"x": [torch.zeros(1)]},
    torch.zeros(3),
    {"": torch.zeros(0)},
    {"model": {"x": torch.zeros(2, dtype=torch.complex64)}},
    {"x" * 10_000: torch.zeros(1)},
    {"x": torch.zeros(1).expand(2**20, 2**12)},
]


class Runs:
    """A pickle that would run code."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (print, ("this must never be printed",))


def loaded(path: Path) -> Callable[[], None]:
    def run() -> None:
        from limen.models.base.load import load_model

        load_model({"name": "mlp", "weights": str(path)})

    return run


def safetensors_with(header: Any, claimed: int | None = None, body: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if claimed is None else claimed) + text + body


def zipped(content: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return file.getvalue()


def saved(content: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    torch.save(content, file, **options)
    return file.getvalue()


def mutants(draw: random.Random, count: int, folder: Path) -> Iterator[Mutant]:
    from safetensors.torch import load_file

    state, whole = load_file(ZOO), ZOO.read_bytes()
    yield Mutant("unbroken", loaded(ZOO), ZOO)
    pth, old = saved(state), saved(state, _use_new_zipfile_serialization=False)
    one = lambda shape, end: {"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}}
    fixed = [
        (".safetensors", safetensors_with(one([2**40], 2**42))),
        (".safetensors", safetensors_with(one([2**62, 4], 16), body=bytes(16))),
        (".safetensors", safetensors_with({}, claimed=2**63)),
        (".safetensors", safetensors_with([])),
        (".safetensors", b"\xff" * 8),
        (".safetensors", pth),
        (".pth", whole),
        (".pth", zipped({"archive/data.pkl": bytes(2**26)})),
        (".pth", pickle.dumps(Runs())),
        (".pth", pickle.dumps(state)),
        (".pt", saved({"x": Runs()})),
        (".pth", zipped({"x": b""})),
        (".pth", zipped({})),
        (".npz", whole),
        (".bin", pth),
        (".pth", pth[: len(pth) // 2]),
        (".pth", b"\x80\x02" + b"(" * 100_000 + b"."),
        (".safetensors", b""),
        (".pth", b""),
        *((".pth", saved(odd)) for odd in ODD),
    ]
    for number in range(max(count, len(fixed))):
        if number < len(fixed):
            ending, content = fixed[number]
        else:
            ending, content = draw.choice(
                [(".safetensors", whole), (".pth", pth), (".pt", pth), (".pth", old)]
            )
            content = damaged(draw, content)
        path = folder / f"w{number % 5}{ending}"
        path.write_bytes(content)
        yield Mutant(f"{path.name} #{number}", loaded(path), path)

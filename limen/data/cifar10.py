"""CIFAR-10: ten kinds of things, 32x32 in colour, 50,000 for training (the last 5,000 are the valid split)
and 10,000 for testing.

Krizhevsky 2009, https://www.cs.toronto.edu/~kriz/cifar.html. Both published forms are read: the binary one
(records of one label byte and 3,072 pixel bytes, what `limen data get cifar10` fetches) and the Python one.
The latter is a pickle, which can run any code when opened; it is opened by a reader that knows a few harmless
names and refuses every other, so nothing in the file is ever executed."""

import io
import pickle
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from limen.core.errors import UserError
from limen.core.types import Sample
from limen.data.base.dataset import DataOptions, Dataset, ordered
from limen.data.base.split import split_numbers
from limen.data.fetch.cache import fetched

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
PIXELS = 3 * 32 * 32


class Cifar10(DataOptions):
    path: str | None = None
    """Folder with data_batch_1..5 and test_batch (.bin, or pickles), or its parent; null: the cache of `limen
    data get`."""


def cifar10(options: Cifar10) -> Dataset:
    folder = Path(options.path).expanduser() if options.path else fetched("cifar10")
    if not folder.is_dir():
        raise UserError(
            f"cifar10: {folder} {'is a file' if folder.exists() else 'does not exist'}; a folder was "
            "expected. Name it with the option path, or fetch the data: limen data get cifar10"
        )
    part = "test" if options.split == "test" else "train"
    pixels, labels = _read_part(_batches(folder, part))
    numbers = split_numbers(len(labels), options.split)
    if not numbers:
        raise UserError(f"cifar10: the split {options.split} in {folder} is empty.")
    ids = [f"{part}/{i:05d}" for i in numbers]

    def load(i: int) -> Sample:
        return Sample(
            f"{part}/{i:05d}",
            torch.from_numpy(pixels[i].reshape(3, 32, 32).astype(np.float32) / 255),
            int(labels[i]),
        )

    return Dataset(
        "cifar10", "picture", ordered(numbers, ids, options), load, classes=CLASSES, shape=(3, 32, 32)
    )


def _batches(folder: Path, part: str) -> tuple[Path, ...]:
    names = ["test_batch"] if part == "test" else [f"data_batch_{i}" for i in range(1, 6)]
    for base in (folder, folder / "cifar-10-batches-bin", folder / "cifar-10-batches-py"):
        for ending in (".bin", ""):
            paths = tuple(base / f"{name}{ending}" for name in names)
            there = [path.is_file() for path in paths]
            if all(there):
                return paths
            if any(there):
                missing = [path.name for path, here in zip(paths, there, strict=True) if not here]
                raise UserError(f"cifar10: {base} lacks {', '.join(missing)}.")
    raise UserError(
        f"cifar10: {folder} holds neither {names[0]}.bin nor {names[0]}. Fetch the data: limen data get "
        "cifar10"
    )


@lru_cache(maxsize=2)
def _read_part(paths: tuple[Path, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(N, 3072) pixel bytes, plane by plane, and (N,) labels."""
    batches = [(_read_binary if path.suffix == ".bin" else _read_pickle)(path) for path in paths]
    labels = np.concatenate([batch[1] for batch in batches])
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(CLASSES)):
        raise UserError(f"{paths[0].parent}: labels must be in 0..9, got {labels.min()}..{labels.max()}.")
    return np.concatenate([batch[0] for batch in batches]), labels


def _read_binary(path: Path) -> tuple[np.ndarray, np.ndarray]:
    data = np.fromfile(path, np.uint8)
    if len(data) == 0 or len(data) % (PIXELS + 1):
        raise UserError(
            f"{path}: its {len(data)} bytes are not a multiple of the record size of {PIXELS + 1} bytes; the "
            "file is empty or cut short."
        )
    records = data.reshape(-1, PIXELS + 1)
    return records[:, 1:], records[:, 0]


class _OnlyArrays(pickle.Unpickler):
    """Rebuilds numpy arrays and plain containers; any other name in the file is refused before it is
    imported."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):  # how Python 2 strings arrive from protocol 2
            return lambda text, encoding: str(text).encode("latin1")
        if module in ("numpy.core.multiarray", "numpy._core.multiarray") and name == "_reconstruct":
            return np.zeros(0).__reduce__()[0]
        if module in ("numpy.core.numeric", "numpy._core.numeric") and name == "_frombuffer":  # protocol 5
            return lambda buffer, dtype, shape, order: np.frombuffer(buffer, dtype).reshape(
                shape, order=order
            )
        if module == "numpy" and name in ("ndarray", "dtype"):
            return getattr(np, name)
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR-10 file needs")


def _read_pickle(path: Path) -> tuple[np.ndarray, np.ndarray]:
    try:
        batch = _OnlyArrays(io.BytesIO(path.read_bytes()), encoding="bytes").load()
        entries = {key.decode() if isinstance(key, bytes) else key: value for key, value in batch.items()}
        pixels, labels = np.asarray(entries["data"]), np.asarray(entries["labels"])
    except Exception as error:  # a damaged pickle can raise anything
        raise UserError(
            f"{path}: is not a CIFAR-10 batch ({type(error).__name__}: {error}). Nothing in it was run."
        ) from None
    if pixels.dtype != np.uint8 or pixels.shape != (len(labels), PIXELS) or labels.dtype.kind not in "iu":
        raise UserError(
            f"{path}: data must be (N, {PIXELS}) bytes with N labels, got {pixels.shape} {pixels.dtype} "
            f"with {labels.shape}."
        )
    return pixels, labels

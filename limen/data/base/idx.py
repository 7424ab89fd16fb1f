"""Pictures and labels in IDX files, the format of MNIST and of data sets modelled on it.

Big-endian: two zero bytes, 0x08 for unsigned bytes, the number of dimensions, their sizes (4 bytes each),
then the bytes.
"""

import gzip
import struct
import zlib
from functools import lru_cache
from math import prod
from pathlib import Path

import numpy as np
import torch

from limen.core.errors import UserError
from limen.core.types import Sample
from limen.data.base.dataset import DataOptions, Dataset, ordered
from limen.data.base.split import split_numbers
from limen.data.fetch.cache import fetched

LARGEST = 640 * 2**20
"""Bytes of a file, unpacked: the largest data set in this format (EMNIST by class) has 547,171,888."""


class IdxOptions(DataOptions):
    """Options of data sets in IDX files."""

    path: str | None = None
    """Folder with the four files, plain or .gz; null: the cache of `limen data get`."""


def idx_dataset(name: str, classes: list[str], options: IdxOptions) -> Dataset:
    """Samples (1, H, W) in [0, 1] with ids like "test/00042"."""
    folder = Path(options.path).expanduser() if options.path else fetched(name)
    if not folder.is_dir():
        raise UserError(
            f"{name}: {folder} {'is a file' if folder.exists() else 'does not exist'}; a folder with IDX "
            f"files was expected. Name it with the option path, or fetch the data: limen data get {name}"
        )
    part = "t10k" if options.split == "test" else "train"
    images_path, labels_path = (
        _find(folder, f"{part}-images", "idx3-ubyte", name),
        _find(folder, f"{part}-labels", "idx1-ubyte", name),
    )
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise UserError(
            f"{name}: {images_path} holds {len(images)} pictures, but {labels_path} holds {len(labels)} "
            "labels."
        )
    if len(labels) and int(labels.max()) >= len(classes):
        raise UserError(f"{labels_path}: labels must be in 0..{len(classes) - 1}, got {int(labels.max())}.")
    numbers = split_numbers(len(labels), options.split)
    if not numbers:
        raise UserError(f"{name}: the split {options.split} in {folder} is empty.")
    ids = [f"{part}/{i:05d}" for i in numbers]

    def load(i: int) -> Sample:
        return Sample(
            f"{part}/{i:05d}", torch.from_numpy(images[i].astype(np.float32) / 255)[None], int(labels[i])
        )

    return Dataset(
        name, "picture", ordered(numbers, ids, options), load, classes=classes, shape=(1, *images.shape[1:])
    )


@lru_cache(maxsize=4)
def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array of unsigned bytes in an IDX file, plain or .gz."""
    start = 4 + 4 * dimensions
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            head = file.read(start)
            if len(head) < start or head[:4] != bytes([0, 0, 8, dimensions]):
                raise UserError(
                    f"{path}: is no IDX file of bytes in {dimensions} "
                    f"dimension{'s' if dimensions > 1 else ''}: it must begin 0000080{dimensions}, but "
                    f"begins {head[:4].hex() or 'nowhere (empty)'}."
                )
            shape = struct.unpack(f">{dimensions}I", head[4:])
            promised = f"{path}: its header promises {prod(shape):,} bytes ({' x '.join(map(str, shape))})"
            if prod(shape) > LARGEST:
                raise UserError(f"{promised}; at most {LARGEST:,} are read.")
            data = np.empty(prod(shape), np.uint8)
            there = file.readinto(data.data)
            if there < len(data) or file.read(1):
                raise UserError(f"{promised}, but the file has {there if there < len(data) else 'more'}.")
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read ({error}). It may be cut short.") from None
    return data.reshape(shape)


def _find(folder: Path, stem: str, suffix: str, name: str) -> Path:
    tries = [folder / f"{stem}{mark}{suffix}{ending}" for mark in "-." for ending in ("", ".gz")]
    for path in tries:
        if path.is_file():
            return path
    raise UserError(
        f"{name}: {folder} holds no {stem}-{suffix} (looked also for "
        f"{', '.join(p.name for p in tries[1:])}). Name the folder with the option path, or fetch the data: "
        f"limen data get {name}"
    )

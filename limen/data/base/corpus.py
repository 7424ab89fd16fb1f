"""Synthesised corpora: the one way from a function that makes a clip to a data set.

A corpus names its clips by (class, number) and makes each one from its options and its key alone. Clips are
made when they are read, or all at once and stored in the cache folder if many of them are wanted.
"""

import hashlib
import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from limen.audio.codecs import quantise
from limen.audio.resample import resample
from limen.core.types import Sample, TruthKind
from limen.data.base.dataset import DataOptions, Dataset, ordered
from limen.data.base.voices import RATE_HZ
from limen.data.fetch.cache import cache_folder

Key = tuple[str, int]
"""Class or language of a clip, and its number."""


class SpokenOptions(DataOptions):
    """Options of every synthesised corpus."""

    rate_hz: int = Field(default=RATE_HZ, ge=2000)
    """Sample rate of the clips; they are made at 16 kHz and resampled."""


class DrawnOptions(SpokenOptions):
    """Options of a corpus whose clips are drawn at random."""

    corpus_seed: int = 0
    """Seed of the corpus; another seed gives other clips."""


def corpus(
    name: str,
    options: SpokenOptions,
    *,
    ids: dict[Key, str],
    make: Callable[[Key], np.ndarray],
    truth: Callable[[Key], int | str],
    recipe: dict[str, Any],
    classes: list[str] | None = None,
    shape: tuple[int, ...] | None = None,
) -> Dataset:
    """The data set of the clips `ids`, in the order and at the sample rate that the options name.

    `make` gives the int16 samples of a clip at 16 kHz. `recipe` holds everything that they depend on.
    """
    keys = ordered(list(ids), list(ids.values()), options)
    clips = Clips(name, {"split": options.split, **recipe}, list(ids), make)
    clips.prepare(len(keys))

    def load(key: Key) -> Sample:
        return Sample(ids[key], waveform(clips.get(key), options.rate_hz), truth(key))

    kind_of_truth: TruthKind = "class" if classes else "transcript"
    return Dataset(name, "clip", keys, load, classes, options.rate_hz, shape, truth=kind_of_truth)


def waveform(samples: np.ndarray, rate_hz: int) -> Tensor:
    """(T,) int16 at 16 kHz -> (T',) in [-1, 1] at `rate_hz`, on the 16-bit grid."""
    x = torch.from_numpy(samples.astype(np.float32) / 32768)
    return x if rate_hz == RATE_HZ else quantise(resample(x, RATE_HZ, rate_hz))


@dataclass
class Clips:
    """The clips of one split, made on demand by `make(key)`, or all at once and stored in the cache folder.

    A stored clip has a checksum. One that does not match is made again, so a damaged file never gives a wrong
    sample.
    """

    name: str
    recipe: dict[str, Any]
    """Everything that the samples depend on; its hash names the folder."""
    keys: Sequence[Key]
    make: Callable[[Key], np.ndarray]
    stored: tuple[np.ndarray, list[int], list[int]] | None = None
    """All samples end to end, the start of each clip (and the end of the last), and checksums."""
    computed: dict[Key, np.ndarray] = field(default_factory=dict)
    positions: dict[Key, int] = field(default_factory=dict)

    def get(self, key: Key) -> np.ndarray:
        if self.stored is not None:
            samples, starts, checksums = self.stored
            i = self.positions[key]
            x = np.array(samples[starts[i] : starts[i + 1]])
            if zlib.crc32(x.tobytes()) == checksums[i]:
                return x
        if key not in self.computed:
            self.computed[key] = self.make(key)
        return self.computed[key]

    def prepare(self, wanted: int) -> None:
        """Open the stored clips. If there are none and a quarter is wanted, store all of them first."""
        folder = cache_folder() / self.name / self._hash()
        self.stored = self._open(folder)
        if self.stored is None and 4 * wanted >= len(self.keys):
            self._store(folder)
            self.stored = self._open(folder)
        self.positions = {key: i for i, key in enumerate(self.keys)}

    def _hash(self) -> str:
        return hashlib.sha256(json.dumps(self.recipe, sort_keys=True).encode()).hexdigest()[:16]

    def _open(self, folder: Path) -> tuple[np.ndarray, list[int], list[int]] | None:
        try:
            index = json.loads((folder / "index.json").read_text())
            samples = np.load(folder / "samples.npy", mmap_mode="r", allow_pickle=False)
            starts, checksums = index["starts"], index["crc32"]
            complete = (
                samples.dtype == np.int16
                and samples.shape == (starts[-1],)
                and len(checksums) == len(starts) - 1 == len(self.keys)
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError):
            return None
        return (samples, starts, checksums) if complete and index["recipe"] == self.recipe else None

    def _store(self, folder: Path) -> None:
        """Write to a temporary folder and rename it: of two processes at once, one result is kept."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = folder.parent / f".making-{uuid.uuid4().hex}"
        temporary.mkdir()
        try:
            clips = [
                self.computed[key] if key in self.computed else self.make(key)
                for key in _progress(self.keys, self.name)
            ]
            np.save(temporary / "samples.npy", np.concatenate(clips))
            starts = np.cumsum([0, *map(len, clips)]).tolist()
            index = {
                "recipe": self.recipe,
                "starts": starts,
                "crc32": [zlib.crc32(c.tobytes()) for c in clips],
            }
            (temporary / "index.json").write_text(json.dumps(index))
            if folder.exists() and self._open(folder) is None:  # damaged
                os.replace(folder, temporary / "damaged")
            try:
                os.rename(temporary, folder)
            except OSError:
                if self._open(folder) is None:
                    raise
            shutil.rmtree(folder / "damaged", ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _progress(keys: Sequence[Key], name: str) -> Iterable[Key]:
    if len(keys) < 400:  # under two seconds
        return keys
    from rich.console import Console
    from rich.progress import track

    return track(keys, f"Speaking {name} (once)", console=Console(stderr=True), transient=True)

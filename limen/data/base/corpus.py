"""What the synthesised corpora share: who speaks in which split, how noise and loudness are drawn, and where
finished clips are kept.

Everything is numpy on one thread: a clip has the same bits on every run, whatever the number of threads.
"""

import hashlib
import json
import math
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from limen.audio.codecs import quantise
from limen.audio.resample import resample
from limen.audio.synthesis import ACCENTS, speak
from limen.core import seeds
from limen.data.fetch.cache import cache_folder

RATE_HZ = 16_000

SPEAKERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "train": (
        ("Alicia", "Andrea", "anika", "f1", "f3", "linda"),
        (
            "Alex",
            "Andy",
            "Diogo",
            "Gene",
            "Gene2",
            "Henrique",
            "Hugo",
            "Lee",
            "Marco",
            "Mario",
            "Michael",
            "Nguyen",
            "Reed",
            "adam",
            "announcer",
            "benjamin",
            "david",
            "ed",
            "fast",
            "grandpa",
            "gustave",
            "ian",
            "iven2",
            "iven3",
            "iven4",
            "john",
            "kaukovalta",
            "klatt",
            "klatt2",
            "klatt4",
            "m1",
            "m2",
            "m4",
            "m6",
            "m8",
            "marcelo",
            "miguel",
            "pablo",
            "paul",
            "pedro",
            "quincy",
            "robert",
            "sandro",
            "shelby",
            "travis",
            "victor",
        ),
    ),
    "valid": (("Annie", "aunty", "f4"), ("Denis", "m5", "michel", "norbert", "rob")),
    "test": (
        ("belinda", "f2", "f5", "grandma"),
        ("Mike", "boris", "edward", "edward2", "m3", "m7", "max", "zac"),
    ),
}
"""Women and men of each split; nobody speaks in two, and variants made from one another stay together. Robots
and whispers stay out."""

CHATTER = (
    "the weather turned colder towards the evening and the streets were almost empty",
    "she bought a basket of apples from the market near the old railway bridge",
    "my brother plays the violin in a small orchestra every second thursday",
    "they were talking about the new library and how many books it would hold",
    "please remember to water the plants while the neighbours are travelling",
    "a long queue of people waited for the ferry to the other side of the river",
)
"""What the people in the background say; none of it is a word of a corpus."""

NOISES = ("white", "pink", "brown", "hum", "babble")


def stream(seed: int, *words: object) -> np.random.Generator:
    return np.random.default_rng(seeds.number(seed, *words))


def say(text: str, split: str, rng: np.random.Generator, word_gap: int = 0) -> np.ndarray:
    """The text by a speaker of the split, drawn with accent, speed and pitch; silence around it cut off."""
    speaker = rng.choice(SPEAKERS[split][int(rng.integers(2))])
    x = speak(
        text,
        f"{rng.choice(ACCENTS)}+{speaker}",
        speed_wpm=int(rng.integers(110, 191)),
        pitch=int(rng.integers(25, 76)),
        pitch_range=int(rng.integers(20, 81)),
        word_gap=word_gap,
    ).astype(np.float64)
    loud = np.flatnonzero(np.abs(x) > 0.005 * np.abs(x).max())
    return x[loud[0] : loud[-1] + 1]


def noise(kind: str, n: int, seed: int, split: str, rng: np.random.Generator) -> np.ndarray:
    """n samples of mean square 1."""
    if kind == "babble":
        crowd = _crowd(seed, split, int(rng.integers(4)))
        x = np.roll(crowd, -int(rng.integers(len(crowd))))[:n]
    elif kind == "hum":  # mains at 50 or 60 Hz with falling harmonics, and some pink noise
        t = np.arange(n) / RATE_HZ
        base = rng.choice((50.0, 60.0))
        x = sum(np.sin(2 * np.pi * (base * k * t + rng.random())) / k for k in range(1, 9)) + 0.2 * _coloured(
            1, n, rng
        )
    else:
        x = _coloured({"white": 0, "pink": 1, "brown": 2}[kind], n, rng)
    return x / np.sqrt(np.mean(x**2))


def _coloured(slope: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Noise whose power falls with frequency to the power of the slope, flat below 40 Hz."""
    size = (
        -(-n // 1600) * 1600
    )  # a length with small factors: the transform of a prime length takes ten times as long
    f = np.fft.rfftfreq(size, 1 / RATE_HZ).clip(40) / 40
    x = np.fft.irfft(np.fft.rfft(rng.standard_normal(size)) * f ** (-slope / 2), size)[:n]
    return x / np.sqrt(np.mean(x**2))


@lru_cache(maxsize=32)
def _crowd(seed: int, split: str, number: int) -> np.ndarray:
    """Six people of the split talking at once, for six seconds, as a loop."""
    rng = stream(seed, "crowd", split, number)
    x = np.zeros(6 * RATE_HZ)
    for text in CHATTER:
        voice = np.resize(say(text, split, rng), len(x))
        x += np.roll(voice, int(rng.integers(len(x)))) / np.sqrt(np.mean(voice**2))
    return x


def mix(speech: np.ndarray, at: int, n: int, seed: int, split: str, rng: np.random.Generator) -> np.ndarray:
    """n samples: the speech from sample `at` on, over noise of a drawn kind and level."""
    x = np.zeros(n)
    x[at : at + len(speech)] = speech
    snr_db = rng.uniform(10, 45)
    scale = np.sqrt(np.mean(speech**2)) * 10 ** (-snr_db / 20)
    return x + scale * noise(str(rng.choice(NOISES)), n, seed, split, rng)


def loudness_db(rng: np.random.Generator) -> float:
    """A mean level as recordings have it: a quarter low (below 50 dB), half medium, a quarter high (above 70
    dB)."""
    low, high = ((32, 49.5), (50.5, 69.5), (50.5, 69.5), (70.5, 75))[int(rng.integers(4))]
    return float(rng.uniform(low, high))


def at_level(x: np.ndarray, mean_db: float) -> np.ndarray:
    """int16 samples whose mean magnitude is so many decibels.

    Peaks that would not fit are pressed in softly, s tanh(g x / s), as a microphone too close to a mouth
    does; the gain g is bisected.
    """
    target, limit = 10 ** (mean_db / 20), 32_000.0
    g = target / np.abs(x).mean()
    if g * np.abs(x).max() > 0.5 * limit:
        some = np.abs(x[::5])  # enough for a tenth of a decibel
        low, high = math.log(g), math.log(g) + 5
        for _ in range(14):
            middle = (low + high) / 2
            loud = limit * np.tanh(some * (math.exp(middle) / limit))
            low, high = (middle, high) if loud.mean() < target else (low, middle)
        x = limit * np.tanh(x * (math.exp(high) / limit))
    else:
        x = g * x
    return np.round(x).astype(np.int16)


def waveform(samples: np.ndarray, rate_hz: int) -> Tensor:
    """(T,) int16 at 16 kHz -> (T',) in [-1, 1] at another rate, on the 16-bit grid."""
    x = torch.from_numpy(samples.astype(np.float32) / 32768)
    return x if rate_hz == RATE_HZ else quantise(resample(x, RATE_HZ, rate_hz))


@dataclass
class Clips:
    """The clips of one split, made on demand by `make(key)`, or all at once and kept in the cache folder.

    A stored clip carries a checksum; one that does not match is made again, so a damaged file costs time and
    never a wrong sample.
    """

    name: str
    recipe: dict[str, Any]
    """All that the samples depend on; its hash names the folder."""
    keys: Sequence[tuple[str, int]]
    make: Callable[[tuple[str, int]], np.ndarray]
    stored: tuple[np.ndarray, list[int], list[int]] | None = None
    """All samples in a row, where each clip starts (and the last ends), and checksums."""
    made: dict[tuple[str, int], np.ndarray] = field(default_factory=dict)
    places: dict[tuple[str, int], int] = field(default_factory=dict)

    def get(self, key: tuple[str, int]) -> np.ndarray:
        if self.stored is not None:
            samples, starts, checksums = self.stored
            i = self.places[key]
            x = np.array(samples[starts[i] : starts[i + 1]])
            if zlib.crc32(x.tobytes()) == checksums[i]:
                return x
        if key not in self.made:
            self.made[key] = self.make(key)
        return self.made[key]

    def prepare(self, wanted: int) -> None:
        """Open the stored clips; store all of them first if a good part is wanted, and leave it at single
        clips if only a few are."""
        folder = cache_folder() / self.name / self._hash()
        self.stored = self._open(folder)
        if self.stored is None and 4 * wanted >= len(self.keys):
            self._store(folder)
            self.stored = self._open(folder)
        self.places = {key: i for i, key in enumerate(self.keys)}

    def _hash(self) -> str:
        return hashlib.sha256(json.dumps(self.recipe, sort_keys=True).encode()).hexdigest()[:16]

    def _open(self, folder: Path) -> tuple[np.ndarray, list[int], list[int]] | None:
        try:
            index = json.loads((folder / "index.json").read_text())
            samples = np.load(folder / "samples.npy", mmap_mode="r", allow_pickle=False)
            starts, checksums = index["starts"], index["crc32"]
            whole = (
                samples.dtype == np.int16
                and samples.shape == (starts[-1],)
                and len(checksums) == len(starts) - 1 == len(self.keys)
            )
        except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError):
            return None
        return (samples, starts, checksums) if whole and index["recipe"] == self.recipe else None

    def _store(self, folder: Path) -> None:
        """Written beside and renamed into place: two processes at once do the work twice and one of the two
        results stays."""
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = folder.parent / f".making-{uuid.uuid4().hex}"
        beside.mkdir()
        try:
            clips = [
                self.made[key] if key in self.made else self.make(key)
                for key in _progress(self.keys, self.name)
            ]
            np.save(beside / "samples.npy", np.concatenate(clips))
            starts = np.cumsum([0, *map(len, clips)]).tolist()
            index = {
                "recipe": self.recipe,
                "starts": starts,
                "crc32": [zlib.crc32(c.tobytes()) for c in clips],
            }
            (beside / "index.json").write_text(json.dumps(index))
            if folder.exists() and self._open(folder) is None:  # damaged
                os.replace(folder, beside / "damaged")
            try:
                os.rename(beside, folder)
            except OSError:
                if self._open(folder) is None:
                    raise
            shutil.rmtree(folder / "damaged", ignore_errors=True)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


def _progress(keys: Sequence[tuple[str, int]], name: str) -> Iterable[tuple[str, int]]:
    if len(keys) < 400:  # under two seconds
        return keys
    from rich.console import Console
    from rich.progress import track

    return track(keys, f"Speaking {name} (once)", console=Console(stderr=True), transient=True)

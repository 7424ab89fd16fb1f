"""Ten spoken commands, other words and background noise, one second each, spoken by a synthesiser with many
voices.

Made in the likeness of Speech Commands (Warden 2018, https://arxiv.org/abs/1804.03209): the same twelve
classes. Voices of the test split are heard nowhere else. Clip number i of a class depends on the seed, the
split, the class and i alone.
"""

import numpy as np
from pydantic import Field

from limen.core.types import Sample
from limen.data.base.corpus import (
    NOISES,
    RATE_HZ,
    Clips,
    at_level,
    loudness_db,
    mix,
    noise,
    say,
    stream,
    waveform,
)
from limen.data.base.dataset import DataOptions, Dataset, ordered

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
CLASSES = ("silence", "unknown", *COMMANDS)
OTHERS = (
    "backward",
    "bed",
    "bird",
    "cat",
    "dog",
    "eight",
    "five",
    "follow",
    "forward",
    "four",
    "happy",
    "house",
    "learn",
    "marvin",
    "nine",
    "one",
    "seven",
    "sheila",
    "six",
    "three",
    "tree",
    "two",
    "visual",
    "wow",
    "zero",
)
"""The other words of Speech Commands: the class "unknown"."""

PER_CLASS = {"train": 400, "valid": 60, "test": 60}
VERSION = 2
"""Raised when the samples change."""


class SpokenWords(DataOptions):
    per_class: int | None = Field(default=None, ge=1)
    """Clips of each class; null: 400 in train, 60 in valid and in test."""
    corpus_seed: int = 0
    """Another seed is another corpus."""
    rate_hz: int = Field(default=RATE_HZ, ge=2000)
    """Sample rate of the clips; they are made at 16 kHz and resampled."""


def spoken_words(options: SpokenWords) -> Dataset:
    n = options.per_class or PER_CLASS[options.split]
    everything = [(word, i) for word in CLASSES for i in range(n)]
    ids = [f"{options.split}/{word}/{i:04d}" for word, i in everything]
    keys = ordered(everything, ids, options)
    recipe = {"version": VERSION, "seed": options.corpus_seed, "split": options.split, "per_class": n}
    clips = Clips(
        "spoken_words", recipe, everything, lambda key: make(options.corpus_seed, options.split, *key)
    )
    clips.prepare(len(keys))

    def load(key: tuple[str, int]) -> Sample:
        x = waveform(clips.get(key), options.rate_hz)
        return Sample(f"{options.split}/{key[0]}/{key[1]:04d}", x, CLASSES.index(key[0]))

    return Dataset("spoken_words", "clip", keys, load, list(CLASSES), options.rate_hz, (options.rate_hz,))


def make(seed: int, split: str, word: str, i: int) -> np.ndarray:
    """(16000,) int16."""
    rng = stream(seed, "spoken_words", split, word, i)
    if word == "silence":
        x = noise(str(rng.choice(NOISES)), RATE_HZ, seed, split, rng)
        return at_level(x, float(rng.uniform(20, 66)))
    speech = say(str(rng.choice(OTHERS)) if word == "unknown" else word, split, rng)[:RATE_HZ]
    free = RATE_HZ - len(speech)
    shift = int(rng.integers(-1600, 1601))  # up to 100 ms off the middle
    return at_level(
        mix(speech, min(max(free // 2 + shift, 0), free), RATE_HZ, seed, split, rng), loudness_db(rng)
    )

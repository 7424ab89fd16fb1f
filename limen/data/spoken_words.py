"""Ten spoken commands, other words and background noise, one second each, spoken by a synthesiser with many
voices.

Modelled on Speech Commands (Warden 2018, https://arxiv.org/abs/1804.03209), with the same twelve classes.
Each voice is in one split only. Clip number i of a class depends on the seed, the split, the class and i
alone.
"""

import numpy as np
from pydantic import Field

from limen.data.base.corpus import DrawnOptions, corpus
from limen.data.base.dataset import Dataset
from limen.data.base.voices import NOISES, RATE_HZ, at_level, loudness_db, mix, noise, say, stream

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
"""Increased when the samples change."""


class SpokenWords(DrawnOptions):
    per_class: int | None = Field(default=None, ge=1)
    """Clips of each class; null: 400 in train, 60 in valid and in test."""


def spoken_words(options: SpokenWords) -> Dataset:
    seed, split, n = options.corpus_seed, options.split, options.per_class or PER_CLASS[options.split]
    return corpus(
        "spoken_words",
        options,
        ids={(word, i): f"{split}/{word}/{i:04d}" for word in CLASSES for i in range(n)},
        make=lambda key: make(seed, split, *key),
        truth=lambda key: CLASSES.index(key[0]),
        recipe={"version": VERSION, "seed": seed, "per_class": n},
        classes=list(CLASSES),
        shape=(options.rate_hz,),
    )


def make(seed: int, split: str, word: str, i: int) -> np.ndarray:
    """(16000,) int16: the word near the middle of one second, or background noise."""
    rng = stream(seed, "spoken_words", split, word, i)
    if word == "silence":
        x = noise(str(rng.choice(NOISES)), RATE_HZ, seed, split, rng)
        return at_level(x, float(rng.uniform(20, 66)))
    speech = say(str(rng.choice(OTHERS)) if word == "unknown" else word, split, rng)[:RATE_HZ]
    free = RATE_HZ - len(speech)
    shift = int(rng.integers(-1600, 1601))  # up to 100 ms from the middle
    return at_level(
        mix(speech, min(max(free // 2 + shift, 0), free), RATE_HZ, seed, split, rng), loudness_db(rng)
    )

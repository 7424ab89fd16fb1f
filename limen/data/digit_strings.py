"""Strings of one to five spoken digits with their transcripts, for speech recognisers, spoken by a
synthesiser with many voices.

Each voice is in one split only. Clip number i depends on the seed, the split and i alone.
"""

import numpy as np
from pydantic import Field

from limen.data.base.corpus import DrawnOptions, corpus
from limen.data.base.dataset import Dataset
from limen.data.base.voices import at_level, loudness_db, mix, say, stream

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIZES = {"train": 2000, "valid": 200, "test": 300}
VERSION = 2
"""Increased when the samples change."""


class DigitStrings(DrawnOptions):
    size: int | None = Field(default=None, ge=1)
    """Clips of the split; null: 2000 in train, 200 in valid, 300 in test."""
    longest: int = Field(default=5, ge=1, le=12)
    """Most digits in a string."""


def digit_strings(options: DigitStrings) -> Dataset:
    seed, split, n = options.corpus_seed, options.split, options.size or SIZES[options.split]
    return corpus(
        "digit_strings",
        options,
        ids={("string", i): f"{split}/{i:05d}" for i in range(n)},
        make=lambda key: make(seed, split, key[1], options.longest),
        truth=lambda key: transcript(seed, split, key[1], options.longest),
        recipe={"version": VERSION, "seed": seed, "size": n, "longest": options.longest},
    )


def transcript(seed: int, split: str, i: int, longest: int) -> str:
    rng = stream(seed, "digit_strings", "words", split, i)
    return " ".join(str(w) for w in rng.choice(DIGITS, int(rng.integers(1, longest + 1))))


def make(seed: int, split: str, i: int, longest: int) -> np.ndarray:
    """(T,) int16: the string with 50 to 300 ms of background before and after."""
    rng = stream(seed, "digit_strings", split, i)
    # up to 60 ms of additional silence between the digits
    speech = say(transcript(seed, split, i, longest), split, rng, word_gap=int(rng.integers(0, 7)))
    before, after = (int(k) for k in rng.integers(800, 4801, 2))
    return at_level(mix(speech, before, before + len(speech) + after, seed, split, rng), loudness_db(rng))

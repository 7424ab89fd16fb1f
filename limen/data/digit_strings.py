"""Strings of one to five spoken digits with their transcripts, for speech recognisers, spoken by a
synthesiser with many voices.

Voices of the test split are heard nowhere else. Clip number i depends on the seed, the split and i alone.
"""

import numpy as np
from pydantic import Field

from limen.core.types import Sample
from limen.data.base.corpus import RATE_HZ, Clips, at_level, loudness_db, mix, say, stream, waveform
from limen.data.base.dataset import DataOptions, Dataset, ordered

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIZES = {"train": 2000, "valid": 200, "test": 300}
VERSION = 2
"""Raised when the samples change."""


class DigitStrings(DataOptions):
    size: int | None = Field(default=None, ge=1)
    """Clips of the split; null: 2000 in train, 200 in valid, 300 in test."""
    longest: int = Field(default=5, ge=1, le=12)
    """Most digits in a string."""
    corpus_seed: int = 0
    """Another seed is another corpus."""
    rate_hz: int = Field(default=RATE_HZ, ge=2000)
    """Sample rate of the clips; they are made at 16 kHz and resampled."""


def digit_strings(options: DigitStrings) -> Dataset:
    n = options.size or SIZES[options.split]
    everything = [("string", i) for i in range(n)]
    keys = ordered(everything, [f"{options.split}/{i:05d}" for _, i in everything], options)
    recipe = {
        "version": VERSION,
        "seed": options.corpus_seed,
        "split": options.split,
        "size": n,
        "longest": options.longest,
    }
    clips = Clips(
        "digit_strings",
        recipe,
        everything,
        lambda key: make(options.corpus_seed, options.split, key[1], options.longest),
    )
    clips.prepare(len(keys))

    def load(key: tuple[str, int]) -> Sample:
        x = waveform(clips.get(key), options.rate_hz)
        return Sample(
            f"{options.split}/{key[1]:05d}",
            x,
            transcript(options.corpus_seed, options.split, key[1], options.longest),
        )

    return Dataset("digit_strings", "clip", keys, load, rate_hz=options.rate_hz, truth="transcript")


def transcript(seed: int, split: str, i: int, longest: int) -> str:
    rng = stream(seed, "digit_strings", "words", split, i)
    return " ".join(str(w) for w in rng.choice(DIGITS, int(rng.integers(1, longest + 1))))


def make(seed: int, split: str, i: int, longest: int) -> np.ndarray:
    """(T,) int16: the string with 50 to 300 ms of background before and after."""
    rng = stream(seed, "digit_strings", split, i)
    # some run their digits together, some leave up to 60 ms more between them
    speech = say(transcript(seed, split, i, longest), split, rng, word_gap=int(rng.integers(0, 7)))
    before, after = (int(k) for k in rng.integers(800, 4801, 2))
    return at_level(mix(speech, before, before + len(speech) + after, seed, split, rng), loudness_db(rng))

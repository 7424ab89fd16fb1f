"""Speakers, background noise and levels of synthesised clips.

Everything is numpy on one thread: a clip has the same bits on every run, for any number of threads.
"""

import math
from functools import lru_cache

import numpy as np

from limen.audio.synthesis import ACCENTS, speak
from limen.core import seeds

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
"""Female and male speakers of each split. No speaker is in two splits, and variants of one voice are in the
same split. Robotic and whispered voices are left out."""

CHATTER = (
    "the weather turned colder towards the evening and the streets were almost empty",
    "she bought a basket of apples from the market near the old railway bridge",
    "my brother plays the violin in a small orchestra every second thursday",
    "they were talking about the new library and how many books it would hold",
    "please remember to water the plants while the neighbours are travelling",
    "a long queue of people waited for the ferry to the other side of the river",
)
"""Sentences of the background babble; none contains a word of a corpus."""

NOISES = ("white", "pink", "brown", "hum", "babble")


def stream(seed: int, *words: object) -> np.random.Generator:
    """The random numbers of one clip and purpose."""
    return np.random.default_rng(seeds.number(seed, *words))


def say(text: str, split: str, rng: np.random.Generator, word_gap: int = 0) -> np.ndarray:
    """The text spoken by a speaker of the split, with drawn accent, speed and pitch; silence is trimmed."""
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
    """n samples of noise with mean square 1."""
    if kind == "babble":
        crowd = _crowd(seed, split, int(rng.integers(4)))
        x = np.roll(crowd, -int(rng.integers(len(crowd))))[:n]
    elif kind == "hum":  # mains hum at 50 or 60 Hz with falling harmonics, and some pink noise
        t = np.arange(n) / RATE_HZ
        base = rng.choice((50.0, 60.0))
        x = sum(np.sin(2 * np.pi * (base * k * t + rng.random())) / k for k in range(1, 9)) + 0.2 * _coloured(
            1, n, rng
        )
    else:
        x = _coloured({"white": 0, "pink": 1, "brown": 2}[kind], n, rng)
    return x / np.sqrt(np.mean(x**2))


def _coloured(slope: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Noise whose power falls as 1 / frequency ** slope above 40 Hz, and is flat below."""
    # a length with small factors: the transform of a prime length takes ten times as long
    size = -(-n // 1600) * 1600
    f = np.fft.rfftfreq(size, 1 / RATE_HZ).clip(40) / 40
    x = np.fft.irfft(np.fft.rfft(rng.standard_normal(size)) * f ** (-slope / 2), size)[:n]
    return x / np.sqrt(np.mean(x**2))


@lru_cache(maxsize=32)
def _crowd(seed: int, split: str, number: int) -> np.ndarray:
    """Six speakers of the split talking at once for six seconds, as a loop."""
    rng = stream(seed, "crowd", split, number)
    x = np.zeros(6 * RATE_HZ)
    for text in CHATTER:
        voice = np.resize(say(text, split, rng), len(x))
        x += np.roll(voice, int(rng.integers(len(x)))) / np.sqrt(np.mean(voice**2))
    return x


def mix(speech: np.ndarray, at: int, n: int, seed: int, split: str, rng: np.random.Generator) -> np.ndarray:
    """n samples: the speech starting at sample `at`, with noise of a drawn kind and level."""
    x = np.zeros(n)
    x[at : at + len(speech)] = speech
    snr_db = rng.uniform(10, 45)
    scale = np.sqrt(np.mean(speech**2)) * 10 ** (-snr_db / 20)
    return x + scale * noise(str(rng.choice(NOISES)), n, seed, split, rng)


def loudness_db(rng: np.random.Generator) -> float:
    """A drawn mean level: a quarter of the clips are low (below 50 dB), half medium, a quarter high (above 70
    dB)."""
    low, high = ((32, 49.5), (50.5, 69.5), (50.5, 69.5), (70.5, 75))[int(rng.integers(4))]
    return float(rng.uniform(low, high))


def at_level(x: np.ndarray, mean_db: float) -> np.ndarray:
    """int16 samples whose mean magnitude is `mean_db` decibels.

    Peaks beyond the 16-bit range are compressed softly, s tanh(g x / s); the gain g is found by bisection.
    """
    target, limit = 10 ** (mean_db / 20), 32_000.0
    g = target / np.abs(x).mean()
    if g * np.abs(x).max() > 0.5 * limit:
        some = np.abs(x[::5])  # accurate to a tenth of a decibel
        low, high = math.log(g), math.log(g) + 5
        for _ in range(14):
            middle = (low + high) / 2
            loud = limit * np.tanh(some * (math.exp(middle) / limit))
            low, high = (middle, high) if loud.mean() < target else (low, middle)
        x = limit * np.tanh(x * (math.exp(high) / limit))
    else:
        x = g * x
    return np.round(x).astype(np.int16)

"""Speech Commands: one-second words by thousands of speakers, in the usual task of twelve classes (ten words,
unknown, silence).

Warden 2018, https://arxiv.org/abs/1804.03209; version 1 or 2, as unpacked. The split is the official one: a
file belongs to valid if
    sha1(name before _nohash_) mod 2^27 * 100 / (2^27 - 1) < 10,
to test if it is below 20, else to train, so that a speaker is in one split only. To the files of the ten
words in a split are added, for each class, 10 % of their number: of unknown, files of other words; of
silence, seconds of the recordings in _background_noise_ at a random volume. Departs from the authors'
program, which draws both anew in each run: here a hash picks them, always the same."""

import hashlib
import math
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.audio.files import SUFFIXES, read_clip
from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Sample
from limen.data.base.dataset import Dataset, FileOptions, ordered
from limen.data.base.folders import existing_folder, files_below, fit

WORDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
NOISE_FOLDER = "_background_noise_"
MODULUS = 2**27


class SpeechCommands(FileOptions):
    example: ClassVar[dict[str, Any]] = {"path": "speech_commands"}

    path: str
    """Folder of the unpacked data set: a folder per word and _background_noise_."""
    words: list[str] = WORDS
    """Words with a class of their own, in this order after silence and unknown."""
    rate_hz: int = Field(default=16000, ge=1)
    """Sample rate; the files have 16 kHz."""
    silence_percent: float = Field(default=10, ge=0)
    """Samples of silence, in percent of the samples of the words."""
    unknown_percent: float = Field(default=10, ge=0)
    """Samples of other words, in percent of the samples of the words."""


def speech_commands(options: SpeechCommands) -> Dataset:
    folder = existing_folder(options.path, "speech_commands")
    wanted: list[tuple[Path, int]] = []
    others: list[tuple[Path, int]] = []
    for word in sorted(
        sub.name for sub in folder.iterdir() if sub.is_dir() and not sub.name.startswith(("_", "."))
    ):
        files = [
            path
            for path in files_below(folder / word, (".wav",))
            if official_split(path.stem) == options.split
        ]
        if word in options.words:
            wanted += [(path, 2 + options.words.index(word)) for path in files]
        else:
            others += [(path, 1) for path in files]
    if not wanted:
        raise UserError(
            f"speech_commands: {folder} holds no file of the words {', '.join(options.words)} for the split "
            f"{options.split}; folders named after words, with .wav files, were expected."
        )
    unknown = math.ceil(len(wanted) * options.unknown_percent / 100)
    others = sorted(others, key=lambda pair: seeds.number(0, "unknown", _identity(pair[0])))[:unknown]
    noises = files_below(folder / NOISE_FOLDER, SUFFIXES)
    silence = math.ceil(len(wanted) * options.silence_percent / 100)
    if silence and not noises:
        warnings.warn(
            f"speech_commands: {folder} has no recordings in {NOISE_FOLDER}; there are no samples of "
            "silence.",
            stacklevel=2,
        )
        silence = 0

    def load(key: tuple[Path, int] | int) -> Sample:
        if isinstance(key, int):
            identity = f"silence/{options.split}_{key:05d}"
            return Sample(identity, _silence(noises, identity, options.rate_hz), 0)
        path, y = key
        return Sample(_identity(path), fit(read_clip(path, options.rate_hz), options.rate_hz), y)

    keys: list[tuple[Path, int] | int] = [*wanted, *others, *range(silence)]
    ids = [
        f"silence/{options.split}_{key:05d}" if isinstance(key, int) else _identity(key[0]) for key in keys
    ]
    return Dataset(
        "speech_commands",
        "clip",
        ordered(keys, ids, options),
        load,
        classes=["silence", "unknown", *options.words],
        rate_hz=options.rate_hz,
        shape=(options.rate_hz,),
        skip_bad=options.bad_files == "skip",
    )


def official_split(stem: str) -> str:
    """The split of a file by its name without ending, the same in both versions of the data."""
    speaker = stem.split("_nohash_")[0]
    percent = int(hashlib.sha1(speaker.encode()).hexdigest(), 16) % MODULUS * (100 / (MODULUS - 1))
    return "valid" if percent < 10 else "test" if percent < 20 else "train"


def _identity(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _silence(noises: list[Path], identity: str, rate_hz: int) -> Tensor:
    """One second of background noise; recording, position and volume are drawn from the id."""
    stream = seeds.generator(0, "silence", identity)
    noise = _recording(noises[int(torch.randint(len(noises), (), generator=stream))], rate_hz)
    start = int(torch.randint(max(1, len(noise) - rate_hz + 1), (), generator=stream))
    return fit(noise[start:], rate_hz) * torch.rand((), generator=stream)


@lru_cache(maxsize=8)
def _recording(path: Path, rate_hz: int) -> Tensor:
    return read_clip(path, rate_hz)  # a minute each; every one serves many samples

"""Everyday sentences in five languages with their transcripts, two to a clip, spoken by a synthesiser.

For models that detect the language: Whisper base recognises most clips of these five languages correctly
(recorded speech of five languages: the data set asterisk). The id begins with the language ("it/4"). All
languages have the same sentences; no sentence is in two splits.
"""

import json
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from limen.audio.synthesis import speak
from limen.core.errors import UserError
from limen.data.base.corpus import SpokenOptions, corpus
from limen.data.base.dataset import Dataset
from limen.data.base.voices import RATE_HZ

SENTENCES: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
PAIRS = {
    "train": ((0, 1), (2, 3), (1, 2), (3, 0)),
    "valid": ((4, 5), (5, 4)),
    "test": ((6, 7), (8, 9), (7, 8), (9, 6), (6, 8), (7, 9)),
}
"""Numbers of the two sentences of each clip."""
VOICES = {"en": "en-us"}
"""Voices whose name differs from the code of the language."""
VERSION = 1
"""Increased when the samples change."""

Language = Literal["en", "de", "es", "it", "pl"]
LANGUAGES: list[Language] = ["en", "de", "es", "it", "pl"]


class SpokenLanguages(SpokenOptions):
    languages: list[Language] = Field(default=LANGUAGES)
    """Codes of the languages."""
    voice: str = "edward"
    """Variant of the synthesiser's voice."""
    speed_wpm: int = Field(default=140, ge=80, le=450)
    """Words per minute."""


def spoken_languages(options: SpokenLanguages) -> Dataset:
    languages, split = list(dict.fromkeys(options.languages)), options.split
    if not languages:
        raise UserError(
            f"data set spoken_languages: no language is chosen. Choose from: {', '.join(SENTENCES)}."
        )
    voice = {"voice": options.voice, "speed_wpm": options.speed_wpm}
    return corpus(
        "spoken_languages",
        options,
        ids={(one, i): f"{one}/{split}-{i}" for one in languages for i in range(len(PAIRS[split]))},
        make=lambda key: make(*key, split, options.voice, options.speed_wpm),
        truth=lambda key: transcript(*key, split),
        recipe={"version": VERSION, "languages": languages, **voice},
    )


def transcript(language: str, i: int, split: str) -> str:
    return " ".join(SENTENCES[language][k] for k in PAIRS[split][i])


def make(language: str, i: int, split: str, voice: str, speed_wpm: int) -> np.ndarray:
    """(T,) int16: the sentences with a fifth of a second of silence before and after."""
    text = transcript(language, i, split)
    speech = speak(text, f"{VOICES.get(language, language)}+{voice}", speed_wpm=speed_wpm)
    return np.round(np.pad(speech, RATE_HZ // 5) * 32767).astype(np.int16)

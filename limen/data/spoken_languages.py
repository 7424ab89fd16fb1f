"""Everyday sentences in five languages with their transcripts, two to a clip, spoken by a synthesiser.

For models that tell languages apart: these are the languages in which a synthesised voice is clear enough for
Whisper base to name most of them rightly (recorded speech of five languages: the data set asterisk). The id
begins with the language ("it/4"). Every language says the same; no sentence of one split is heard in another.
"""

import json
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from limen.audio.synthesis import speak
from limen.core.errors import UserError
from limen.core.types import Sample
from limen.data.base.corpus import RATE_HZ, waveform
from limen.data.base.dataset import DataOptions, Dataset, ordered

SENTENCES: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
PAIRS = {
    "train": ((0, 1), (2, 3), (1, 2), (3, 0)),
    "valid": ((4, 5), (5, 4)),
    "test": ((6, 7), (8, 9), (7, 8), (9, 6), (6, 8), (7, 9)),
}
"""Which two sentences make a clip."""
VOICES = {"en": "en-us"}
"""Voices that are not called like the language."""

Language = Literal["en", "de", "es", "it", "pl"]
LANGUAGES: list[Language] = ["en", "de", "es", "it", "pl"]


class SpokenLanguages(DataOptions):
    languages: list[Language] = Field(default=LANGUAGES)
    """Codes of the languages."""
    voice: str = "edward"
    """Variant of the synthesiser's voice."""
    speed_wpm: int = Field(default=140, ge=80, le=450)
    """Words per minute."""
    rate_hz: int = Field(default=RATE_HZ, ge=2000)
    """Sample rate of the clips; they are made at 16 kHz and resampled."""


def spoken_languages(options: SpokenLanguages) -> Dataset:
    if not options.languages:
        raise UserError(
            f"data set spoken_languages: no language is chosen. There are: {', '.join(SENTENCES)}."
        )
    keys = [
        (language, i)
        for language in dict.fromkeys(options.languages)
        for i in range(len(PAIRS[options.split]))
    ]

    def load(key: tuple[str, int]) -> Sample:
        language, i = key
        text = " ".join(SENTENCES[language][k] for k in PAIRS[options.split][i])
        speech = speak(text, f"{VOICES.get(language, language)}+{options.voice}", speed_wpm=options.speed_wpm)
        samples = np.round(np.pad(speech, RATE_HZ // 5) * 32767).astype(
            np.int16
        )  # a fifth of a second of silence around it
        return Sample(f"{language}/{options.split}-{i}", waveform(samples, options.rate_hz), text)

    return Dataset(
        "spoken_languages",
        "clip",
        ordered(keys, [f"{language}/{options.split}-{i}" for language, i in keys], options),
        load,
        rate_hz=options.rate_hz,
        truth="transcript",
    )

"""Asterisk prompts: some 550 recorded telephone prompts with transcripts in each of English, Spanish, French,
Italian and Russian.

One professional voice per language, 8 kHz: digits, letters, words and sentences. Fetch a language with `limen
data get asterisk-en` (en, es, fr, it, ru). Prompts without words (tones, silence) or without a transcript are
left out. Split by a hash of the name: about 70 % train, 10 % valid, 20 % test."""

import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from limen.audio.files import read_clip
from limen.core.errors import UserError
from limen.core.text import How, normalised
from limen.core.types import Sample
from limen.data.base.dataset import Dataset, FileOptions, ordered
from limen.data.base.folders import existing_folder, files_below
from limen.data.base.split import split_of
from limen.data.fetch.cache import fetched

REMARK = re.compile(r"\[[^]]*\]|\([^)]*\)|<[^>]*>")
"""Text in brackets describes a sound or a key and is not spoken."""


class Asterisk(FileOptions):
    language: Literal["en", "es", "fr", "it", "ru"] = "en"
    """Language of the prompts."""
    path: str | None = None
    """Folder with the .wav files and core-sounds-LANGUAGE.txt; null: the cache of `limen data get`."""
    longest_s: float | None = Field(default=None, gt=0)
    """Leave out longer prompts; null takes all."""
    normalise: How = "words"
    """"words": lower case, only letters, digits, apostrophes and single spaces; "english": numbers as words
    too; "none": unchanged."""
    rate_hz: int = Field(default=16000, ge=1)
    """Sample rate to which clips are resampled; the recordings have 8 kHz."""


def asterisk(options: Asterisk) -> Dataset:
    folder = (
        existing_folder(options.path, "asterisk") if options.path else fetched(f"asterisk-{options.language}")
    )
    texts = _read_texts(folder / f"core-sounds-{options.language}.txt")
    prompts: list[tuple[Path, str, str]] = []
    for path in files_below(folder, (".wav",)):
        name = path.relative_to(folder).with_suffix("").as_posix()
        text = normalised(
            REMARK.sub(" ", texts.get(name) or texts.get(name.lower()) or ""), options.normalise
        )
        identity = f"{options.language}/{name}"
        if (
            text
            and not name.startswith("silence/")
            and split_of(identity, 0.1, 0.2) == options.split
            and _short_enough(path, options.longest_s)
        ):
            prompts.append((path, text, identity))
    if not prompts:
        raise UserError(
            f"asterisk: {folder} holds no prompt with a transcript for the split {options.split}. "
            f"Fetch them: limen data get asterisk-{options.language}"
        )

    def load(key: tuple[Path, str, str]) -> Sample:
        path, text, identity = key
        return Sample(identity, read_clip(path, options.rate_hz), text)

    keys = ordered(prompts, [identity for _, _, identity in prompts], options)
    return Dataset(
        "asterisk",
        "clip",
        keys,
        load,
        rate_hz=options.rate_hz,
        skip_bad=options.bad_files == "skip",
        truth="transcript",
    )


def _read_texts(path: Path) -> dict[str, str]:
    """Name -> text, from lines "name: text"; lines that begin with ; are comments. A name is also found in
    lower case."""
    if not path.is_file():
        raise UserError(f"asterisk: {path} does not exist; it should hold the transcripts of the prompts.")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text ({error}).") from None
    pairs = [
        (name.strip(), text.strip())
        for name, colon, text in (line.partition(":") for line in lines)
        if colon and not name.startswith(";")
    ]
    return {**{name.lower(): text for name, text in pairs}, **dict(pairs)}


def _short_enough(path: Path, longest_s: float | None) -> bool:
    import soundfile

    if longest_s is None:
        return True
    try:
        return soundfile.info(path).duration <= longest_s
    except (RuntimeError, OSError):
        return True  # unreadable: reading it will raise the error

"""Transcripts: speech with its transcripts, from a table (CSV or TSV, Common Voice included) or from folders
with a .txt file for each audio file.

A folder may hold `name.txt` next to `name.wav`, or LibriSpeech's `*.trans.txt` with a line "name TEXT" per
file. Splits: folders train, valid, test; or tables of those names (train.tsv, dev.tsv, test.tsv); else a hash
of the name by the two fractions, all test by default. Ids are the column `id` of a table if it has one, else
the paths. A set of adversarial clips that others made is data too: name the column with their paths as
`audio_column` and judge it without an attack."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from limen.audio.files import SUFFIXES, read_clip
from limen.core.errors import UserError
from limen.core.text import How, normalised
from limen.core.types import Sample
from limen.data.base.dataset import Dataset, ordered
from limen.data.base.folders import SPLIT_FOLDERS, SplitOptions, files_below, split_folders
from limen.data.base.split import split_of
from limen.data.base.tables import find_column, read_rows, read_text

AUDIO_COLUMNS = (
    "path",
    "audio",
    "audio_path",
    "audio_filepath",
    "audio_file",
    "wav",
    "wav_filename",
    "file",
    "filename",
    "file_name",
    "clip",
)
TEXT_COLUMNS = ("sentence", "text", "transcript", "transcription", "transcripts", "words", "wrd", "label")


class Transcripts(SplitOptions):
    example: ClassVar[dict[str, Any]] = {"path": "corpus"}

    path: str
    """A .csv or .tsv file, or a folder."""
    audio_column: str | None = None
    """Column with the path of the audio; null: the first of the usual names (path, audio, wav, file, ...)."""
    text_column: str | None = None
    """Column with the transcript; null: the first of the usual names (sentence, text, transcript, words,
    ...)."""
    normalise: How = "words"
    """"words": lower case, only letters, digits, apostrophes and single spaces; "english": numbers as words
    too; "none": unchanged."""
    rate_hz: int = Field(default=16000, ge=1)
    """Sample rate to which clips are resampled."""
    valid_fraction: float = Field(default=0.0, ge=0, le=1)
    """Share of the files in the valid split, by a hash of the file name, if no folder or table names the
    splits."""
    test_fraction: float = Field(default=1.0, ge=0, le=1)
    """Share of the files in the test split; the rest is train."""


@dataclass(frozen=True)
class Line:
    """One file and its text, or the reason why it has none."""

    id: str
    audio: Path
    text: str | None
    where: str


def transcripts(options: Transcripts) -> Dataset:
    path = Path(options.path).expanduser()
    if not path.exists():
        raise UserError(f"transcripts: {path} does not exist; a folder or a .csv or .tsv file was expected.")
    lines, already_split = (
        _folder_lines(path, options) if path.is_dir() else (_table_lines(path, options), False)
    )
    if not already_split:
        lines = [
            line
            for line in lines
            if split_of(line.id, options.valid_fraction, options.test_fraction) == options.split
        ]
    if not lines:
        raise UserError(
            f"transcripts: nothing for the split {options.split} was found in {path}. In a folder, audio "
            "with a .txt file of the same name or *.trans.txt files were expected; valid_fraction and "
            "test_fraction set the sizes of the splits."
        )

    def load(line: Line) -> Sample:
        if line.text is None:
            raise UserError(f"{line.audio}: there is no transcript: {line.where}.")
        if not line.audio.is_file():
            raise UserError(f"{line.audio}: there is no such file, but {line.where} names it.")
        text = normalised(line.text, options.normalise)
        if not text:
            raise UserError(f"{line.audio}: the transcript is empty ({line.where}).")
        return Sample(line.id, read_clip(line.audio, options.rate_hz), text)

    return Dataset(
        "transcripts",
        "clip",
        ordered(lines, [line.id for line in lines], options),
        load,
        rate_hz=options.rate_hz,
        skip_bad=options.bad_files == "skip",
        truth="transcript",
    )


def _folder_lines(folder: Path, options: Transcripts) -> tuple[list[Line], bool]:
    """The lines of a folder and whether they are of the split already."""
    for name in SPLIT_FOLDERS[options.split]:
        for ending in (".tsv", ".csv"):
            if (folder / f"{name}{ending}").is_file():
                return _table_lines(folder / f"{name}{ending}", options), True
    splits = split_folders(folder)
    if splits and options.split not in splits:
        raise UserError(
            f"transcripts: {folder} has the splits {', '.join(sorted(splits))}, but no folder for the split "
            f"{options.split}."
        )
    texts: dict[Path, tuple[str | None, str]] = {}
    top = splits.get(options.split, folder)
    for table in files_below(top, (".txt",)):
        if table.name.endswith(".trans.txt"):
            for row in read_text(table).splitlines():
                name, _, spoken = row.strip().partition(" ")
                texts[table.parent / name] = (spoken, str(table))
        else:
            texts[table.with_suffix("")] = (read_text(table), str(table))
    lines = []
    for audio in files_below(top, SUFFIXES):
        text, where = texts.get(
            audio.with_suffix(""), (None, f"{audio.with_suffix('.txt').name} does not exist")
        )
        lines.append(Line(audio.relative_to(folder).as_posix(), audio, text, where))
    if lines and all(line.text is None for line in lines):
        raise UserError(
            f"transcripts: {top} holds {len(lines)} audio files, but no transcript: a .txt of the same name "
            "for each, or *.trans.txt files, were expected. If a table has the texts, name it as path."
        )
    return lines, bool(splits)


def _table_lines(table: Path, options: Transcripts) -> list[Line]:
    columns, rows = read_rows(table)
    audio_column = find_column(table, columns, options.audio_column, AUDIO_COLUMNS, "audio_column")
    text_column = find_column(table, columns, options.text_column, TEXT_COLUMNS, "text_column")
    lines: list[Line] = []
    seen: set[str] = set()
    for number, row in rows:
        name = row[audio_column]
        if not name:
            raise UserError(f"{table}: line {number} has nothing in the column {audio_column}.")
        identity = row.get("id") or name
        lines.append(
            Line(
                f"{identity}#{number}" if identity in seen else identity,
                _audio_path(table.parent, name),
                row[text_column],
                f"line {number} of {table}",
            )
        )
        seen.add(identity)
    if not lines:
        raise UserError(f"{table}: has no rows below its header.")
    return lines


def _audio_path(folder: Path, name: str) -> Path:
    """The file in the folder of the table, or in the folder `clips` of Common Voice."""
    path, clips = folder / name, folder / "clips" / name
    try:
        return clips if not path.is_file() and clips.is_file() else path
    except OSError as error:  # a name too long for any file
        raise UserError(
            f"{folder / name[:80]}...: {error.strerror}; the path of an audio file was expected."
        ) from None

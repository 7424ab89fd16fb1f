"""Clip folder: audio files in one folder per class, or in {train,valid,test}/class."""

from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from limen.audio.files import SUFFIXES, read_clip
from limen.core.types import Sample
from limen.data.base.dataset import Dataset, ordered
from limen.data.base.folders import ClassFolderOptions, fit, labelled_files


class ClipFolder(ClassFolderOptions):
    example: ClassVar[dict[str, Any]] = {"path": "clips"}

    rate_hz: int = Field(default=16000, ge=1)
    """Sample rate to which clips are resampled."""
    duration_s: float | None = Field(default=None, gt=0)
    """Length to which every clip is cut or zero-padded at the end; null: unchanged."""


def clip_folder(options: ClipFolder) -> Dataset:
    found, classes = labelled_files("clip_folder", options, SUFFIXES)
    frames = None if options.duration_s is None else max(1, round(options.duration_s * options.rate_hz))

    def load(key: tuple[Path, int, str]) -> Sample:
        path, y, identity = key
        x = read_clip(path, options.rate_hz)
        return Sample(identity, x if frames is None else fit(x, frames), y)

    keys = ordered(found, [identity for _, _, identity in found], options)
    return Dataset(
        "clip_folder",
        "clip",
        keys,
        load,
        classes=classes,
        rate_hz=options.rate_hz,
        shape=None if frames is None else (frames,),
        skip_bad=options.bad_files == "skip",
    )

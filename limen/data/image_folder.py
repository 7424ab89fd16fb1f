"""Image folder: pictures in the layout of ImageNet, {train,val}/class/*.jpg, or one folder per class.

As usual for ImageNet the shorter side is resized and the centre is cut out. Every colour mode becomes RGB;
grey is repeated."""

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator
from torch import Tensor

from limen.core.types import Sample
from limen.data.base.dataset import Dataset, ordered
from limen.data.base.folders import ClassFolderOptions, labelled_files
from limen.images.files import SUFFIXES, open_picture, pixels


class ImageFolder(ClassFolderOptions):
    example: ClassVar[dict[str, Any]] = {"path": "pictures"}

    size: int = Field(default=224, ge=1)
    """Side of the centre crop."""
    resize: int = Field(default=256, ge=1)
    """Length of the shorter side before the crop."""
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    """Interpolation of the resize (with antialiasing)."""

    @model_validator(mode="after")
    def _sizes(self) -> "ImageFolder":
        if self.resize < self.size:
            raise ValueError(f"resize must be at least size ({self.size}), but is {self.resize}.")
        return self


def image_folder(options: ImageFolder) -> Dataset:
    found, classes = labelled_files("image_folder", options, SUFFIXES)

    def load(key: tuple[Path, int, str]) -> Sample:
        path, y, identity = key
        return Sample(identity, read_square(path, options.size, options.resize, options.interpolation), y)

    keys = ordered(found, [identity for _, _, identity in found], options)
    return Dataset(
        "image_folder",
        "picture",
        keys,
        load,
        classes=classes,
        shape=(3, options.size, options.size),
        skip_bad=options.bad_files == "skip",
    )


def read_square(path: Path, size: int, resize: int, interpolation: str = "bilinear") -> Tensor:
    """(3, size, size) in [0, 1]: the shorter side resized to `resize`, then the centre crop."""
    from PIL import Image

    picture, _ = open_picture(path)
    width, height = picture.size
    scale = resize / min(width, height)
    wide, high = max(resize, int(width * scale)), max(resize, int(height * scale))
    method = Image.Resampling.BICUBIC if interpolation == "bicubic" else Image.Resampling.BILINEAR
    left, top = round((wide - size) / 2), round((high - size) / 2)
    cut = picture.resize((wide, high), method).crop((left, top, left + size, top + size))
    return pixels(cut, 3).clamp(0, 1)  # bicubic interpolation of 16-bit grey may overshoot at edges

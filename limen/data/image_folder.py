"""Image folder: pictures in the layout of ImageNet, {train,val}/class/*.jpg, or one folder per class.

As usual for ImageNet the shorter side is resized and the centre is cut out. Every colour mode becomes RGB: grey is repeated, a palette is
looked up, 16-bit grey keeps its upper byte, and what is transparent shows white, as a viewer would show it."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from limen.data._dataset import Dataset, ordered
from limen.data._folders import ClassFolderOptions, labelled_files
from limen.errors import UserError
from limen.types import Sample

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


class ImageFolder(ClassFolderOptions):
    size: int = Field(default=224, ge=1)
    """Side of the square that is cut out of the centre."""
    resize: int = Field(default=256, ge=1)
    """Length of the shorter side before the cut."""
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    """How pixels are resized (with antialiasing)."""

    @model_validator(mode="after")
    def _sizes(self) -> "ImageFolder":
        if self.resize < self.size:
            raise ValueError(f"resize must be at least size ({self.size}), but is {self.resize}.")
        return self


def image_folder(options: ImageFolder) -> Dataset:
    found, classes = labelled_files("image_folder", options, SUFFIXES)

    def load(key: tuple[Path, int, str]) -> Sample:
        path, y, identity = key
        return Sample(identity, read_picture(path, options.size, options.resize, options.interpolation), y)

    keys = ordered(found, [identity for _, _, identity in found], options)
    return Dataset("image_folder", "picture", keys, load, classes=classes, shape=(3, options.size, options.size),
                   skip_bad=options.bad_files == "skip")  # fmt: skip


def read_picture(path: Path, size: int, resize: int, interpolation: str = "bilinear") -> Tensor:
    """(3, size, size) in [0, 1]."""
    from PIL import Image

    if not path.is_file():
        raise UserError(f"{path}: there is no such file; a picture was expected.")
    if path.stat().st_size == 0:
        raise UserError(f"{path}: the file is empty (0 bytes); a picture was expected.")
    try:
        with Image.open(path) as opened:
            image = _rgb(opened)
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise UserError(f"{path}: cannot be read as a picture ({error}).") from None
    width, height = image.size
    scale = resize / min(width, height)
    wide, high = max(resize, int(width * scale)), max(resize, int(height * scale))
    method = Image.Resampling.BICUBIC if interpolation == "bicubic" else Image.Resampling.BILINEAR
    left, top = round((wide - size) / 2), round((high - size) / 2)
    cut = image.resize((wide, high), method).crop((left, top, left + size, top + size))
    return torch.from_numpy(np.asarray(cut, np.float32) / 255).permute(2, 0, 1).contiguous()


def _rgb(image: Any) -> Any:
    from PIL import Image

    if image.mode.startswith("I"):
        pixels = np.asarray(image)
        if pixels.min() < 0 or pixels.max() > 65535:
            raise ValueError(f"its grey values must fit in 16 bits, but span {pixels.min()}..{pixels.max()}")
        return Image.fromarray((pixels // 256).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point pixels have no agreed range; save it with 8 or 16 bits")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer).convert("RGB")
    return image.convert("RGB")

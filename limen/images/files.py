"""Picture files to pixels in [0, 1] and back: many formats are read, 8-bit PNG is written.

Every part of Limen reads pictures here, so that a file has the same pixels as data, as a pair to measure, as
an imported sample and as a sticker: rotated according to its EXIF tag, palettes resolved, 16 bits of grey
kept, and transparency shown on white, as in a viewer. Pillow reads only the upper 8 of 16 bits of colour,
which `measure` notes.
"""

import io
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from limen.core.atomic import write_atomic
from limen.core.errors import UserError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".pgm", ".ppm")
"""Suffixes of files that readers of folders take for pictures."""

FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
"""Their names in Pillow. Its other readers are not used: some start programs."""
MOST_PIXELS = 50_000_000
"""Width x height at most. A file of some kilobytes can declare, and even contain, more pixels than memory."""


def open_picture(path: str | Path) -> tuple[Any, list[str]]:
    """The picture as a PIL image, and notes on conversions of its pixels.

    The mode is L or RGB, or F in [0, 1] for 16 bits of grey.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    path = Path(path)
    if not path.is_file():
        raise UserError(
            f"{path}: {'is a folder' if path.is_dir() else 'there is no such file'}; a picture was expected."
        )
    if path.stat().st_size == 0:
        raise UserError(f"{path}: the file is empty (0 bytes); a picture was expected.")
    try:
        with Image.open(path, formats=FORMATS) as file:
            check_size(path, *file.size)
            notes = ["16 bits of colour read as 8"] if _deep_colour(file) else []
            picture = ImageOps.exif_transpose(file)
            picture.load()
            return _plain(picture), [
                *notes,
                *(["transparency shown on white"] if picture.has_transparency_data else []),
            ]
    except UserError:
        raise
    except Exception as error:  # each format has its own exceptions for a damaged file
        reason = (
            "it has no known format" if isinstance(error, UnidentifiedImageError) else str(error).rstrip(".")
        )
        raise UserError(f"{path}: cannot be read as a picture ({reason}).") from None


def check_size(path: str | Path, width: int, height: int) -> None:
    """Refuse a picture that is too large to be read, from its header alone."""
    if width * height > MOST_PIXELS:
        raise UserError(
            f"{path}: its header declares {width:,} x {height:,} pixels; at most {MOST_PIXELS:,} are read. "
            "Scale the picture down."
        )


def read_picture(path: str | Path, channels: Literal[1, 3] | None = None) -> Tensor:
    """(1, H, W) grey or (3, H, W) RGB in [0, 1]; `channels` converts every picture to one of them."""
    return pixels(open_picture(path)[0], channels)


def pixels(picture: Any, channels: Literal[1, 3] | None = None) -> Tensor:
    """(C, H, W) in [0, 1] of an image from `open_picture`; colour becomes grey by its luma (ITU-R BT.601)."""
    if picture.mode == "RGB" and channels == 1:
        picture = picture.convert("L")
    values = np.atleast_3d(np.array(picture))
    x = torch.empty(
        values.shape[2], *values.shape[:2]
    )  # filled channel by channel: a large picture needs its memory once
    for channel, plane in enumerate(x):
        plane.copy_(torch.from_numpy(np.ascontiguousarray(values[:, :, channel]))).div_(
            1 if picture.mode == "F" else 255
        )
    return x.expand(3, -1, -1) if channels == 3 and len(x) == 1 else x


def write_picture(path: str | Path, x: Tensor) -> None:
    """(C, H, W) in [0, 1] as 8-bit PNG."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(Path(path), encoded(x, "PNG"))


def encoded(x: Tensor, form: Literal["PNG", "JPEG"], **options: Any) -> bytes:
    """(C, H, W) in [0, 1] as the bytes of an 8-bit file; C is 1 (grey) or 3 (RGB)."""
    from PIL import Image

    array = (quantise(x.detach().cpu()) * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    content = io.BytesIO()
    picture = Image.fromarray(np.ascontiguousarray(array[:, :, 0] if array.shape[2] == 1 else array))
    picture.save(content, format=form, **options)
    return content.getvalue()


def quantise(x: Tensor) -> Tensor:
    """Pixels in [0, 1] on the grid of 8-bit files, in steps of 1/255."""
    return (x * 255).round().clamp(0, 255) / 255


def _deep_colour(file: Any) -> bool:
    """True if a file that is opened, but not loaded, has more than 8 bits per colour, for which Pillow has no
    mode."""
    if file.mode.startswith("I") or not file.tile:
        return False
    codec, *_, args = file.tile[0]
    packed, *rest = (args,) if isinstance(args, str) else args
    return ";16" in str(packed) or (codec.startswith("ppm") and rest[0] > 255)


def _plain(picture: Any) -> Any:
    """The image in mode L, RGB or F."""
    from PIL import Image

    if picture.mode.startswith("I"):  # 16 bits of grey
        levels = np.array(picture)
        if levels.min() < 0 or levels.max() > 65535:
            raise ValueError(f"its grey values must fit in 16 bits, but span {levels.min()}..{levels.max()}")
        if picture.has_transparency_data:  # one grey value means transparent
            levels[levels == picture.info["transparency"]] = 65535
        return Image.fromarray((levels / 65535).astype(np.float32))
    if picture.mode == "F":
        raise ValueError("floating-point pixels have no agreed range; save it with 8 or 16 bits")
    grey = picture.mode in ("1", "L", "LA", "La")
    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return picture.convert("L" if grey else "RGB")

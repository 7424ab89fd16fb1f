"""Sounds, pictures and IDX files whose headers lie, or that were cut, mixed up or damaged."""

import gzip
import io
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from judging import Mutant, limen
from PIL import Image

SOUNDS = [
    ("wav", "WAV", "PCM_16"),
    ("wav", "WAV", "FLOAT"),
    ("wav", "WAVEX", "PCM_24"),
    ("wav", "RF64", "PCM_16"),
    ("flac", "FLAC", "PCM_16"),
    ("ogg", "OGG", "VORBIS"),
    ("mp3", "MP3", "MPEG_LAYER_III"),
    ("opus", "OGG", "OPUS"),
    ("aiff", "AIFF", "PCM_16"),
    ("au", "AU", "PCM_16"),
    ("caf", "CAF", "PCM_16"),
    ("w64", "W64", "PCM_16"),
]
PICTURES = [
    ("png", "L"),
    ("png", "RGB"),
    ("png", "RGBA"),
    ("png", "P"),
    ("png", "1"),
    ("png", "I;16"),
    ("jpg", "L"),
    ("jpg", "RGB"),
    ("gif", "P"),
    ("webp", "RGB"),
    ("tiff", "RGB"),
    ("tiff", "F"),
    ("bmp", "RGB"),
    ("ppm", "RGB"),
]
HUGE = [0, 1, 2**15, 2**16 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 0xFFFFFF00]


def sound(form: str, subtype: str) -> bytes:
    file = io.BytesIO()
    t = np.arange(4000) / 16000
    soundfile.write(file, 0.5 * np.sin(2 * np.pi * 440 * t), 16000, format=form, subtype=subtype)
    return file.getvalue()


def picture(ending: str, mode: str) -> bytes:
    file = io.BytesIO()
    values = np.random.default_rng(0).integers(0, 255, (24, 20, 4)).astype(np.uint8)
    if mode == "I;16":
        image = Image.fromarray(values[:, :, 0].astype(np.uint16) * 257)
    else:
        image = (
            Image.fromarray(values).convert("RGB").convert(mode)
            if mode != "RGBA"
            else Image.fromarray(values)
        )
    image.save(file, format={"jpg": "JPEG", "ppm": "PPM"}.get(ending, ending.upper()))
    return file.getvalue()


def idx(shape: tuple[int, ...], promised: tuple[int, ...]) -> bytes:
    return (
        bytes([0, 0, 8, len(shape)])
        + struct.pack(f">{len(promised)}I", *promised)
        + bytes(int(np.prod(shape)))
    )


def damaged(draw: random.Random, content: bytes) -> bytes:
    raw = bytearray(content)
    match draw.choice(
        ["field", "field", "field", "cut", "bytes", "header", "empty", "zeros", "insert", "twice", "other"]
    ):
        case "field":  # a number in the header becomes an extreme one
            for _ in range(draw.choice([1, 1, 2])):
                at, width = draw.randrange(min(len(raw), 80)), draw.choice([2, 4, 4, 8])
                value = (
                    draw.choice(HUGE) % 2 ** (8 * width)
                    if draw.random() < 0.8
                    else draw.getrandbits(8 * width)
                )
                raw[at : at + width] = value.to_bytes(width, draw.choice(["little", "big"]))
        case "cut":
            return content[
                : draw.choice([1, 4, 12, 44, len(raw) // 2, len(raw) - 1, draw.randrange(len(raw))])
            ]
        case "bytes":
            for _ in range(draw.choice([1, 5, 100])):
                raw[draw.randrange(len(raw))] = draw.randrange(256)
        case "header":
            for _ in range(draw.choice([1, 3])):
                raw[draw.randrange(min(len(raw), 64))] = draw.randrange(256)
        case "empty":
            return b""
        case "zeros":
            at = draw.randrange(len(raw))
            raw[at : at + 200] = bytes(len(raw[at : at + 200]))
        case "insert":
            at = draw.randrange(len(raw))
            raw[at:at] = draw.randbytes(draw.choice([1, 7, 300]))
        case "twice":
            raw += content
        case "other":
            raw = bytearray(
                draw.choice(
                    [
                        b"%!PS-Adobe-3.0 EPSF-3.0\n",
                        b"<svg/>",
                        b"RIFF",
                        b"\x89PNG\r\n\x1a\n",
                        b"fLaC",
                        draw.randbytes(500),
                    ]
                )
            )
    return bytes(raw)


def bombs() -> dict[str, bytes]:
    """Small files that are right and hold, or promise, more than fits."""
    file = io.BytesIO()
    Image.new("1", (30_000, 30_000)).save(file, format="PNG")
    wav = bytearray(sound("WAV", "PCM_16"))
    wav[40:44] = struct.pack("<I", 2**32 - 1)
    stream = bytearray(sound("FLAC", "PCM_16"))
    stream[21:26] = bytes([stream[21] | 0x0F, 255, 255, 255, 255])  # 2^36 - 1 frames: 256 GiB as floats
    rate = bytearray(sound("WAV", "PCM_16"))
    rate[24:28] = struct.pack("<I", 767_999)
    return {
        "bomb.png": file.getvalue(),
        "stream.wav": bytes(wav),
        "promise.flac": bytes(stream),
        "rate.wav": bytes(rate),
    }


def opened(spec: dict[str, Any]) -> Callable[[], None]:
    def run() -> None:
        from limen.core.components import parse

        component, options = parse("data", spec)
        for _ in component.function(options).batches(4):
            pass

    return run


def mutants(draw: random.Random, count: int, folder: Path) -> Iterator[Mutant]:
    whole = {f"{i}.{ending}": sound(form, subtype) for i, (ending, form, subtype) in enumerate(SOUNDS)}
    shown = {f"{i}.{ending}": picture(ending, mode) for i, (ending, mode) in enumerate(PICTURES)}
    clean = folder / "clean"
    clean.mkdir()
    for name, content in (whole | shown).items():
        (clean / name).write_bytes(content)
    for name in ("0.wav", "1.png"):  # no mutants: they import everything, which is no use of memory
        yield Mutant(name, limen("measure", clean / name, clean / name), clean / name)
    classes = folder / "classes"
    (classes / "a").mkdir(parents=True)
    held = bombs()
    for number in range(count + len(held)):
        if number < len(held):
            name, content = list(held.items())[number]
        elif draw.random() < 0.1:
            shape = draw.choice([(3, 28, 28), (0, 28, 28), (3, 1, 1)])
            promised = tuple(draw.choice([n, *HUGE]) if draw.random() < 0.4 else n for n in shape)
            content = damaged(draw, idx(shape, promised)) if draw.random() < 0.3 else idx(shape, promised)
            place = folder / "idx"
            place.mkdir(exist_ok=True)
            for old in place.iterdir():
                old.unlink()
            zipped = draw.random() < 0.5
            content = gzip.compress(content) if zipped else content
            path = place / f"t10k-images-idx3-ubyte{'.gz' if zipped else ''}"
            path.write_bytes(damaged(draw, content) if zipped and draw.random() < 0.3 else content)
            (place / "t10k-labels-idx1-ubyte").write_bytes(idx((3,), (3,)))
            yield Mutant(f"idx #{number}", opened({"name": "mnist", "path": str(place)}), path)
            continue
        else:
            name, content = draw.choice(list((whole | shown).items()))
            content = damaged(draw, content)
        for old in (classes / "a").iterdir():
            old.unlink()
        path = classes / "a" / name
        path.write_bytes(content)
        clip = path.suffix[1:] in {ending for ending, _, _ in SOUNDS}
        partner = clean / name if (clean / name).exists() else clean / ("0.wav" if clip else "1.png")
        spec = {
            "name": "clip_folder" if clip else "image_folder",
            "path": str(classes),
            "test_fraction": 1.0,
            "valid_fraction": 0.0,
        }
        asked = draw.choice(["measure", "measure", "data"]) if number >= len(held) else "measure"
        yield Mutant(
            f"{name} #{number}", limen("measure", partner, path) if asked == "measure" else opened(spec), path
        )

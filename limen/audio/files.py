"""Audio files to waveforms in [-1, 1] and back: many formats are read, 16-bit WAV or FLAC is written."""

import io
import struct
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from limen.audio.codecs import quantise
from limen.audio.resample import resample
from limen.core.atomic import write_atomic
from limen.core.errors import UserError

SUFFIXES = (
    ".wav",
    ".flac",
    ".ogg",
    ".oga",
    ".opus",
    ".mp3",
    ".aif",
    ".aiff",
    ".aifc",
    ".au",
    ".snd",
    ".caf",
    ".w64",
    ".rf64",
)
"""Suffixes of files that readers of folders take for audio."""

LOUDEST = 2.0
"""Largest magnitude of a file: decoders of lossy formats overshoot 1 slightly, which is clipped as in a
player; a larger one means another scale."""

WAV_HEADER = 44
"""Bytes before the samples in a WAV file of `encoded`."""

MOST_SAMPLES = 2**26
"""Samples of a file at most, over all channels: 23 minutes at 48 kHz, 70 minutes at 16 kHz. A header of a few
bytes can declare 126 GiB."""


def read_clip(path: str | Path, rate_hz: int) -> Tensor:
    """(T,) float32 in [-1, 1]: channels averaged, then resampled.

    A file that cannot be read completely is a UserError with its name.
    """
    import soundfile

    path = Path(path)
    if not path.is_file():
        raise UserError(
            f"{path}: {'is a folder' if path.is_dir() else 'there is no such file'}; an audio file was "
            "expected."
        )
    if path.stat().st_size == 0:
        raise UserError(f"{path}: the file is empty (0 bytes); an audio file was expected.")
    try:
        _check_complete(path)
        with soundfile.SoundFile(path) as file:
            declared, own_hz = file.frames, file.samplerate
            if declared * file.channels > MOST_SAMPLES:
                raise UserError(
                    f"{path}: its header declares {declared:,} frames of {file.channels} channels; at most "
                    f"{MOST_SAMPLES:,} samples are read. Cut the recording into clips."
                )
            samples = file.read(dtype="float32", always_2d=True)
    except (RuntimeError, OSError) as error:  # LibsndfileError is a RuntimeError
        reason = getattr(error, "error_string", None) or error
        raise UserError(f"{path}: cannot be decoded as audio ({str(reason).strip().rstrip('.')}).") from None
    if len(samples) < declared:
        raise UserError(
            f"{path}: is truncated: its header declares {declared} frames, {len(samples)} could be read."
        )
    if len(samples) == 0:
        raise UserError(f"{path}: contains no samples (zero length).")
    if not np.isfinite(samples).all():
        raise UserError(f"{path}: contains NaN or infinite samples.")
    if (peak := float(max(samples.max(), -samples.min()))) > LOUDEST:
        raise UserError(
            f"{path}: floating-point samples must be in [-1, 1], but reach {peak:g}. Scale the file down."
        )
    return resample(torch.from_numpy(samples.mean(1)), own_hz, rate_hz).clamp(-1, 1)


def write_clip(path: str | Path, x: Tensor, rate_hz: int) -> None:
    """Write (T,) as 16-bit FLAC if the suffix is .flac, else as WAV; reading it gives `quantise(x)`
    exactly."""
    if x.dim() != 1 or not bool(torch.isfinite(x).all()):
        raise UserError(
            f"{path}: a clip to write must be finite and of shape (T,), got {tuple(x.shape)}, "
            f"finite: {bool(torch.isfinite(x).all())}."
        )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, encoded(x[None], rate_hz, "FLAC" if path.suffix.lower() == ".flac" else "WAV"))


def encoded(x: Tensor, rate_hz: int, form: Literal["WAV", "FLAC"] = "WAV") -> bytes:
    """(channels, T) in [-1, 1] as the bytes of a 16-bit file; those of WAV begin with `WAV_HEADER` bytes of
    header."""
    import soundfile

    integers = (quantise(x.detach().cpu()) * 32768).to(torch.int16)
    content = io.BytesIO()
    soundfile.write(content, integers.T.numpy(), rate_hz, format=form, subtype="PCM_16")
    return content.getvalue()


def clip_header(path: str | Path) -> tuple[int, int]:
    """Sample rate and channels of a file that `read_clip` reads."""
    import soundfile

    try:
        info = soundfile.info(str(path))
    except (RuntimeError, OSError):
        read_clip(path, 16000)  # its error names the cause
        raise UserError(f"{path}: cannot be decoded as audio.") from None
    return info.samplerate, info.channels


def _check_complete(path: Path) -> None:
    """Refuse a truncated WAV file: libsndfile reads it as if it were shorter, so the size of the data chunk
    is checked here."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return
        while len(chunk := file.read(8)) == 8:
            name, length = struct.unpack("<4sI", chunk)
            if name == b"data":
                # 0xFFFFFFFF and values near it: a stream whose writer did not know its length
                if length < 0xFFFFFF00 and file.tell() + length > size:
                    raise UserError(
                        f"{path}: is truncated: its header declares {length} bytes of sound, "
                        f"{size - file.tell()} are in the file."
                    )
                return
            file.seek(length + length % 2, 1)

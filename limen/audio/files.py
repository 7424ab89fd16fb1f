"""Audio files to waveforms in [-1, 1] and back: any format, rate and channel count in, 16-bit WAV or FLAC
out."""

import io
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

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
"""Names that readers of folders take for audio."""

LOUDEST = 2.0
"""Decoders of lossy formats overshoot 1 a little, and that is clipped as a player would; a file far beyond it
has another scale."""

MOST_SAMPLES = 2**26
"""Samples of a file, all channels together: 23 minutes at 48 kHz, 70 minutes at 16 kHz. A header of a few
bytes can promise 126 GiB."""


def read_clip(path: str | Path, rate_hz: int) -> Tensor:
    """(T,) float32 in [-1, 1]: channels averaged, then resampled. A file that cannot be read in full is a
    UserError that names it."""
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
            promised, own_hz = file.frames, file.samplerate
            if promised * file.channels > MOST_SAMPLES:
                raise UserError(
                    f"{path}: its header promises {promised:,} frames of {file.channels} channels; at most "
                    f"{MOST_SAMPLES:,} samples are read. Cut the recording into clips."
                )
            samples = file.read(dtype="float32", always_2d=True)
    except (RuntimeError, OSError) as error:  # LibsndfileError is a RuntimeError
        reason = getattr(error, "error_string", None) or error
        raise UserError(f"{path}: cannot be decoded as audio ({str(reason).strip().rstrip('.')}).") from None
    if len(samples) < promised:
        raise UserError(
            f"{path}: is truncated: its header promises {promised} frames, {len(samples)} could be read."
        )
    if len(samples) == 0:
        raise UserError(f"{path}: holds no samples (zero length).")
    if not np.isfinite(samples).all():
        raise UserError(f"{path}: holds NaN or infinite samples.")
    if (peak := float(max(samples.max(), -samples.min()))) > LOUDEST:
        raise UserError(
            f"{path}: floating-point samples must lie in [-1, 1], but reach {peak:g}. Scale the file down."
        )
    return resample(torch.from_numpy(samples.mean(1)), own_hz, rate_hz).clamp(-1, 1)


def write_clip(path: str | Path, x: Tensor, rate_hz: int) -> None:
    """Write (T,) as 16-bit FLAC if the name ends so, else WAV: round(32768 x), clipped. Reading it back gives
    exactly x on that grid."""
    import soundfile

    if x.dim() != 1 or not bool(torch.isfinite(x).all()):
        raise UserError(
            f"{path}: a clip to write must be finite and of shape (T,), but {tuple(x.shape)} came, "
            f"finite: {bool(torch.isfinite(x).all())}."
        )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = (x.detach().cpu() * 32768).round().clamp(-32768, 32767).to(torch.int16)
    content = io.BytesIO()
    soundfile.write(
        content,
        whole.numpy(),
        rate_hz,
        format="FLAC" if path.suffix.lower() == ".flac" else "WAV",
        subtype="PCM_16",
    )
    write_atomic(path, content.getvalue())


def clip_header(path: str | Path) -> tuple[int, int]:
    """Sample rate and channels of a file that `read_clip` reads."""
    import soundfile

    try:
        info = soundfile.info(str(path))
    except (RuntimeError, OSError):
        read_clip(path, 16000)  # says what is wrong with the file
        raise UserError(f"{path}: cannot be decoded as audio.") from None
    return info.samplerate, info.channels


def _check_complete(path: Path) -> None:
    """libsndfile reads a WAV file that was cut off as if it had been shorter, so the size of its data chunk
    is checked here."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            return
        while len(chunk := file.read(8)) == 8:
            name, length = struct.unpack("<4sI", chunk)
            if name == b"data":
                # 0xFFFFFFFF and its neighbours: a stream whose writer could not know its length
                if length < 0xFFFFFF00 and file.tell() + length > size:
                    raise UserError(
                        f"{path}: is truncated: its header promises {length} bytes of sound, "
                        f"{size - file.tell()} are there."
                    )
                return
            file.seek(length + length % 2, 1)

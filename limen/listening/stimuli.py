"""The sounds of a screen as WAV files of the same length, rate, header and power, which differ only in their
samples.

Each clip goes through its effects, is set to the study's mean power, and is padded with silence to the length
of the longest. If a peak would clip, all sounds of the screen are turned down alike. If any of them begins or
ends abruptly (above 1 % of its peak), all get a rise and a fall of 10 ms, so that no click distinguishes
them. Sounds are kept in a cache folder under the hash of their inputs.
"""

import hashlib
import json
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from limen.audio.files import WAV_HEADER, clip_header, encoded, read_clip
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.seeds import number
from limen.listening.calibration_tones import RATE_HZ, generated_sound
from limen.listening.study import Study
from limen.trials.base.screen import Screen, Stimulus

LOWEST_HZ, HIGHEST_HZ = 8000, 48_000
"""Sample rates that every browser plays; others are resampled."""
LONGEST_S = 120.0
"""Longest clip of a trial."""
USUAL_DBFS = -26.0
"""Power of generated sounds if the study does not set the power of its clips."""
FADE_S = 0.01
ABRUPT = 0.01
LEVEL_AXES = ("gain",)
"""Axes that change the level: applied after all sounds were set to the same power, which would undo them."""
VERSION = 1
"""Part of every cache key; increased when the processing of sounds changes."""


def digest(wav: bytes) -> str:
    """sha256 of the samples, which the page sends back as proof of playback."""
    return hashlib.sha256(wav[WAV_HEADER:]).hexdigest()


def length_s(wav: bytes) -> float:
    """Duration, from the header."""
    return (len(wav) - WAV_HEADER) / int.from_bytes(wav[28:32], "little")


def inside(folder: Path, file: str) -> Path:
    """Path of a file of the study; a file outside the folder of the study is refused, also through a link."""
    try:
        path = (folder / file).resolve()
        there = path.is_relative_to(folder.resolve()) and path.is_file()
    except (ValueError, OSError, RuntimeError):  # a NUL in the name, a name too long, a loop of links
        there = False
    if not there:
        raise UserError(
            f"{file!r}: there is no such file in the folder of the study. Paths start from the study file."
        )
    return path


class Stimuli:
    def __init__(self, study: Study, folder: Path, cache: Path):
        """`folder` contains the study file; no file outside it is read. Sounds are cached in `cache`."""
        self.study, self.folder, self.cache = study, Path(folder).resolve(), Path(cache)

    def sounds(self, screen: Screen, seed: int) -> list[bytes]:
        """A complete 16-bit WAV file of each sound of the screen, in order. If there are several, each gets
        noise of its own of one 16-bit step: X is A again, but not byte by byte. A program that compares
        samples can still identify X (docs/listening.md)."""
        recipes = list(dict.fromkeys(_key(sound.stimulus) for sound in screen.sounds))
        by_key = {_key(sound.stimulus): sound.stimulus for sound in screen.sounds}
        wavs = self._together([by_key[key] for key in sorted(recipes)], seed)
        made_of = dict(zip(sorted(recipes), wavs, strict=True))
        out = [made_of[_key(sound.stimulus)] for sound in screen.sounds]
        if not self.study.dither or len(out) < 2:
            return out
        return [_dithered(wav, number(seed, digest(wav), place)) for place, wav in enumerate(out)]

    def _together(self, stimuli: Sequence[Stimulus], seed: int) -> list[bytes]:
        """Sounds of one screen, from the cache or newly made; independent of their order."""
        recipe = json.dumps(
            [
                VERSION,
                self.study.power_dbfs,
                seed if any(s.effects for s in stimuli) else None,
                [[self._content(s), _key(s)] for s in stimuli],
            ]
        )
        paths = [
            self.cache / f"{hashlib.sha256(f'{recipe}{k}'.encode()).hexdigest()}.wav"
            for k in range(len(stimuli))
        ]
        if all(p.is_file() for p in paths):
            return [p.read_bytes() for p in paths]
        made = self._make(stimuli, seed)
        with suppress(
            OSError
        ):  # a full disk must not prevent playback; the sound is made again when it is needed
            for path, wav in zip(paths, made, strict=True):
                _write(path, wav)
        return made

    def _content(self, stimulus: Stimulus) -> list[str]:
        """Hashes of all files used for a sound."""
        files = [stimulus.file, *(v for e in stimulus.effects for v in _files(e.axis).values())]
        return ["" if f.startswith("limen:") else _hash(*_stamp(inside(self.folder, f))) for f in files]

    def _make(self, stimuli: Sequence[Stimulus], seed: int) -> list[bytes]:
        rate_hz = max((self._rate_hz(s.file) for s in stimuli), default=RATE_HZ)
        clips = _smooth([self._degraded(s, rate_hz, seed) for s in stimuli], rate_hz)
        clips = [self._level(x, s, rate_hz, seed) for x, s in zip(clips, stimuli, strict=True)]
        peak = max((float(x.abs().max()) for x in clips), default=0.0)
        longest, channels = (max((x.shape[d] for x in clips), default=0) for d in (1, 0))
        # one step below full scale: 32767 / 32768 is the largest sample
        gain = min(1.0, 32767 / 32768 / peak) if peak else 1.0
        padded = [F.pad(x.expand(channels, -1), (0, longest - x.shape[1])) for x in clips]
        return [encoded(x * gain, rate_hz) for x in padded]

    def _rate_hz(self, file: str) -> int:
        return (
            RATE_HZ
            if file.startswith("limen:")
            else min(max(_header(*_stamp(self._short(file)))[0], LOWEST_HZ), HIGHEST_HZ)
        )

    def _short(self, file: str) -> Path:
        """Path of a file that is not too long."""
        path = inside(self.folder, file)
        if (seconds := _header(*_stamp(path))[1]) > LONGEST_S:
            raise UserError(
                f"{file}: lasts {seconds:.0f} s; a clip of a study may last up to {LONGEST_S:.0f} s."
            )
        return path

    def _degraded(self, stimulus: Stimulus, rate_hz: int, seed: int) -> Tensor:
        """(channels, T) before its power is set."""
        if stimulus.file.startswith("limen:"):
            return generated_sound(
                stimulus.file, USUAL_DBFS if self.study.power_dbfs is None else self.study.power_dbfs
            )
        x = _clip(*_stamp(self._short(stimulus.file)), rate_hz).double()
        return self._through(x, stimulus, rate_hz, seed, level=False)[None]

    def _level(self, x: Tensor, stimulus: Stimulus, rate_hz: int, seed: int) -> Tensor:
        if stimulus.file.startswith("limen:"):
            return x
        power = float(x.square().mean())
        if self.study.power_dbfs is not None and power > 0:
            x = x * math.sqrt(10 ** (self.study.power_dbfs / 10) / power)
        return self._through(x[0], stimulus, rate_hz, seed, level=True)[None]

    def _through(self, x: Tensor, stimulus: Stimulus, rate_hz: int, seed: int, level: bool) -> Tensor:
        """Apply the effects that change the level, or all others."""
        for k, effect in enumerate(stimulus.effects):
            if effect.strength is None or not 0 <= effect.strength <= 100:
                raise UserError(
                    f"{stimulus.file}: the strength of {effect.axis['name']} must be between 0 and 100, "
                    f"got {effect.strength}."
                )
            if (effect.axis["name"] in LEVEL_AXES) != level:
                continue
            files = {option: str(self._short(file)) for option, file in _files(effect.axis).items()}
            component, options = parse("degradations", {**effect.axis, **files})
            # the strength is not part of the seed, so a stronger noise is the same noise, louder
            chance = number(seed, stimulus.file, k, json.dumps(effect.axis, sort_keys=True))
            y = component.function(x, effect.strength, rate_hz, options, chance)
            if y.shape != x.shape or not bool(torch.isfinite(y).all()):
                raise UserError(
                    f"{stimulus.file}: the axis {component.name} at {effect.strength:g} gave no clip of the "
                    "same length."
                )
            x = y
        return x


def _files(axis: Mapping[str, Any]) -> dict[str, str]:
    """Options of an axis that name a file of the study: `file`, and those that end in _file."""
    return {
        k: v for k, v in axis.items() if (k == "file" or k.endswith("_file")) and isinstance(v, str) and v
    }


def _key(stimulus: Stimulus) -> str:
    return json.dumps(asdict(stimulus), sort_keys=True)


def _stamp(path: Path) -> tuple[Path, int, int]:
    """Cache key of a file: path, time of change and size."""
    stat = path.stat()
    return path, stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=4096)
def _header(path: Path, changed: int, size: int) -> tuple[int, float]:
    """Sample rate and duration."""
    import soundfile

    own_hz, _ = clip_header(path)
    return own_hz, soundfile.info(str(path)).frames / own_hz


@lru_cache(maxsize=32)
def _clip(path: Path, changed: int, size: int, rate_hz: int) -> Tensor:
    """Cached, because an adaptive track degrades the same clip repeatedly."""
    return read_clip(path, rate_hz)


@lru_cache(maxsize=4096)
def _hash(path: Path, changed: int, size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _smooth(clips: Sequence[Tensor], rate_hz: int) -> list[Tensor]:
    """All clips with a fade-in and fade-out if one of them needs it."""
    if not any(float(x[:, [0, -1]].abs().max()) > ABRUPT * float(x.abs().max()) for x in clips):
        return list(clips)
    return [_faded(x, min(round(FADE_S * rate_hz), x.shape[1] // 4)) for x in clips]


def _faded(x: Tensor, n: int) -> Tensor:
    ramp = torch.sin(torch.arange(n, dtype=x.dtype) / max(n, 1) * math.pi / 2).square()
    whole = torch.cat([ramp, x.new_ones(x.shape[1] - 2 * n), ramp.flip(0)])
    return x * whole


def _dithered(wav: bytes, seed: int) -> bytes:
    """Each sample moved by -1, 0 or 1, with probabilities 1/4, 1/2, 1/4: 93 dB below full scale."""
    samples = np.frombuffer(wav[WAV_HEADER:], "<i2")
    moved = samples + np.random.default_rng(seed).integers(0, 2, (2, len(samples))).sum(0) - 1
    return wav[:WAV_HEADER] + moved.clip(-32768, 32767).astype("<i2").tobytes()


def _write(path: Path, content: bytes) -> None:
    """Atomic write, also if two requests make the same sound at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)

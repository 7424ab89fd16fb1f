"""Speech from text with eSpeak NG: the same call returns the same samples.

The library and its voices are part of the package espeakng-loader.
"""

import ctypes
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from limen.core.errors import UserError

ACCENTS = (
    "en",
    "en-us",
    "en-us-nyc",
    "en-029",
    "en-gb-scotland",
    "en-gb-x-rp",
    "en-gb-x-gbclan",
    "en-gb-x-gbcwmd",
)
"""British, American, New York, Caribbean, Scottish, Received Pronunciation, Lancastrian and West Midlands
English."""

_SYNCHRONOUS, _DONT_EXIT, _UTF8 = 2, 0x8000, 1  # constants of espeak-ng's speak_lib.h
_RATE, _VOLUME, _PITCH, _RANGE, _WORD_GAP = 1, 2, 3, 4, 7
_RATE_HZ = 22_050  # of every voice of the library
_one_at_a_time = Lock()  # the library keeps its state in globals


def speak(
    text: str,
    voice: str = "en-us",
    *,
    speed_wpm: int = 160,
    pitch: int = 50,
    pitch_range: int = 50,
    word_gap: int = 0,
    rate_hz: int = 16_000,
) -> np.ndarray:
    """The text read aloud: float32 (T,) in [-1, 1], without silence added around it.

    `voice` is an accent or "accent+variant" ("en-us+f3", see `ACCENTS` and `variants()`). `speed_wpm` is
    words per minute, 80 to 450; `pitch` and `pitch_range` go from 0 to 99, 50 being the voice's own;
    `word_gap` is the pause between words in units of 10 ms.
    """
    pieces: list[np.ndarray] = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)
    def collect(wav: Any, samples: int, _events: Any) -> int:
        if wav and samples > 0:
            pieces.append(np.ctypeslib.as_array(wav, (samples,)).copy())
        return 0

    data = _english_data() if voice.partition("+")[0] in ACCENTS else _package()[1]
    with _one_at_a_time, _fresh_library(data) as library:
        library.espeak_SetSynthCallback(collect)
        _choose(library, voice)
        _seed(library)
        # volume 50: at 100 several voices clip
        for parameter, value in (
            (_RATE, speed_wpm),
            (_VOLUME, 50),
            (_PITCH, pitch),
            (_RANGE, pitch_range),
            (_WORD_GAP, word_gap),
        ):
            library.espeak_SetParameter(parameter, value, 0)
        words = text.encode()
        if library.espeak_Synth(words, len(words) + 1, 0, 0, 0, _UTF8, None, None) != 0:
            raise UserError(f"eSpeak NG could not speak {text!r} with the voice {voice}.")
    if not pieces:
        return np.zeros(0, np.float32)
    return _resample(np.concatenate(pieces) / 32768, rate_hz).clip(-1, 1).astype(np.float32)


def _resample(x: np.ndarray, rate_hz: int) -> np.ndarray:
    """In one thread of plain C, so that the bits do not depend on the number of threads, unlike torch's
    convolution."""
    from scipy.signal import upfirdn

    up, down, h = _low_pass(rate_hz)
    delay = len(h) // 2
    start = -(-delay // down)  # h is centred, and delay a multiple of down: output 0 is at input 0
    return upfirdn(h, x, up, down)[start : start + -(-len(x) * up // down)]


@cache
def _low_pass(rate_hz: int) -> tuple[int, int, np.ndarray]:
    from scipy.signal import firwin

    common = math.gcd(rate_hz, _RATE_HZ)
    up, down = rate_hz // common, _RATE_HZ // common
    widest = max(up, down)
    half = -(-16 * widest // down) * down
    return up, down, up * firwin(2 * half + 1, 0.95 / widest, window=("kaiser", 8.0))


@cache
def variants() -> tuple[str, ...]:
    """The names that may follow "+": speakers of different size, sex, age and roughness."""
    return tuple(sorted(os.listdir(_package()[1] / "voices" / "!v")))


def _package() -> tuple[str, Path]:
    """The library and the folder of its data."""
    try:
        import espeakng_loader
    except ImportError:
        raise UserError(
            "Speech synthesis needs the package espeakng-loader, which is not installed. Install it: pip "
            "install espeakng-loader"
        ) from None
    return espeakng_loader.get_library_path(), Path(espeakng_loader.get_data_path())


@contextmanager
def _fresh_library(data: Path) -> Iterator[ctypes.CDLL]:
    """The library, loaded anew and unloaded afterwards.

    Glottal flutter, wave phases and echo survive from one utterance to the next and even espeak_Terminate
    keeps them, so that speech would depend on earlier utterances. Unloading leaves no history and
    costs half a millisecond.
    """
    import _ctypes

    path = _package()[0]
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise UserError(
            f"The speech synthesiser {path} cannot be loaded: {error}. Reinstall the package espeakng-loader."
        ) from None
    try:
        if library.espeak_Initialize(_SYNCHRONOUS, 0, os.fsencode(data.parent), _DONT_EXIT) != _RATE_HZ:
            raise UserError(
                f"eSpeak NG does not find its data in {data}. Reinstall the package espeakng-loader."
            )
        yield library
    finally:
        library.espeak_Terminate()
        getattr(_ctypes, "dlclose" if os.name == "posix" else "FreeLibrary")(library._handle)


@cache
def _english_data() -> Path:
    """A copy of the English part of the data, with one file per accent in the folder the library searches
    first.

    With all its data, a newly loaded library opens about 250 voice files to find one, which takes three times
    as long as to speak a word.
    """
    data = _package()[1]
    folder = Path(tempfile.mkdtemp(prefix="limen-voices-")) / data.name
    Finalize(
        None, shutil.rmtree, (folder.parent, True), exitpriority=0
    )  # unlike atexit: also in worker processes, and not by a fork
    shutil.copytree(data / "voices" / "!v", folder / "voices" / "!v")
    for name in ("phondata", "phonindex", "phontab", "intonations", "en_dict"):
        shutil.copy(data / name, folder)
    for file in (data / "lang" / "gmw").glob("en*"):
        shutil.copy(file, folder / "voices" / file.name.lower())
    return folder


def _choose(library: ctypes.CDLL, voice: str) -> None:
    variant = voice.partition("+")[2]
    # an unknown accent returns an error and keeps the previous voice; an unknown variant is ignored silently
    if library.espeak_SetVoiceByName(voice.encode()) != 0 or (variant and variant not in variants()):
        raise UserError(
            f'eSpeak NG has no voice "{voice}". A voice is an accent such as {", ".join(ACCENTS)}, '
            f'optionally with a variant: "en-us+f3". Variants: {", ".join(variants())}.'
        )


def _seed(library: ctypes.CDLL) -> None:
    """Breath noise uses the library's generator, seeded by the clock when a voice is set; the Klatt voices
    use rand() of C."""
    library.espeak_ng_SetRandSeed(ctypes.c_long(1))
    ctypes.CDLL(None if os.name == "posix" else "msvcrt").srand(1)

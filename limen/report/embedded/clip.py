"""A clip example as three panels with player, spectrogram and waveform, embedded as WAV, PNG and SVG."""

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from limen.report.embedded.picture import data_uri, png
from limen.report.formatting import fmt

DYNAMIC_DB = 80.0
"""Range of the spectrograms below the loudest point of the clean clip."""
COLUMNS_PX, ROWS_PX, LEVELS = 260, 96, 48
# night blue, violet, rose, amber, ivory: lightness rises evenly, so the map is readable in grey, too
COLOURS = np.array(
    [(13, 14, 38), (66, 33, 105), (158, 52, 110), (228, 112, 75), (250, 190, 98), (253, 246, 214)], float
)


def clip_panels(paths: dict[str, Path | None]) -> list[dict[str, Any]]:
    """All three share the scale of the spectrogram; the waveform of the perturbation is enlarged by its
    note."""
    import soundfile

    assert paths["clean"] is not None
    assert paths["adversarial"] is not None
    clean, rate_hz = soundfile.read(paths["clean"], dtype="float64", always_2d=True)
    adversarial, _ = soundfile.read(paths["adversarial"], dtype="float64", always_2d=True)
    x, x_adv = clean.mean(1), adversarial.mean(1)
    n = min(len(x), len(x_adv))
    change = x_adv[:n] - x[:n]
    powers = {
        "clean": _power_db(x, rate_hz),
        "perturbation": _power_db(change, rate_hz),
        "adversarial": _power_db(x_adv, rate_hz),
    }
    top = max(float(powers["clean"].max()), float(powers["adversarial"].max()))
    loudest = max(float(np.abs(x).max(initial=0)), float(np.abs(x_adv).max(initial=0)), 1e-6)
    quiet = float(np.abs(change).max(initial=0))
    factor = 2 ** int(np.clip(np.floor(np.log2(loudest / quiet)), 0, 12)) if quiet else 1
    panels = []
    for role, wave, scale in (
        ("clean", x, 1.0),
        ("perturbation", change, float(factor)),
        ("adversarial", x_adv, 1.0),
    ):
        path = paths[role]
        sound = path.read_bytes() if path else _wav(wave, rate_hz)
        panels.append(
            {
                "role": role,
                "sound": data_uri(sound, "audio/wav"),
                "image": data_uri(_spectrogram(powers[role], top), "image/png"),
                "wave": _waveform(wave * scale / loudest),
                "note": f"wave × {factor}" if scale > 1 else "",
                # as loud as the loudest of the other two, never louder
                "louder": factor if scale > 1 else 0,
                "seconds": fmt(len(wave) / rate_hz, "2f"),
                "khz": fmt(rate_hz / 2000),
            }
        )
    return panels


def _wav(x: np.ndarray, rate_hz: int) -> bytes:
    import soundfile

    out = io.BytesIO()
    soundfile.write(out, x, rate_hz, format="WAV", subtype="PCM_16")
    return out.getvalue()


def _power_db(x: np.ndarray, rate_hz: int) -> np.ndarray:
    """(ROWS_PX, COLUMNS_PX) power in dB, high frequencies first; windows of about 32 ms."""
    size = 2 ** round(np.log2(0.032 * rate_hz))
    padded = np.pad(x, (size // 2, size))
    starts = np.linspace(0, max(len(x) - 1, 0), COLUMNS_PX).astype(int)
    frames = padded[starts[:, None] + np.arange(size)] * np.hanning(size)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    edges = np.linspace(0, power.shape[1], ROWS_PX + 1).astype(int)
    rows = np.stack([power[:, a : max(b, a + 1)].mean(1) for a, b in itertools.pairwise(edges)])
    return 10 * np.log10(rows[::-1] + 1e-14)


def _spectrogram(power_db: np.ndarray, top: float) -> bytes:
    from PIL import Image

    level = np.clip((power_db - top + DYNAMIC_DB) / DYNAMIC_DB, 0, 1) * (LEVELS - 1)
    image = Image.fromarray(level.round().astype(np.uint8), "P")
    at = np.linspace(0, len(COLOURS) - 1, LEVELS)
    image.putpalette(
        np.stack([np.interp(at, range(len(COLOURS)), c) for c in COLOURS.T], 1)
        .round()
        .astype(np.uint8)
        .tobytes()
    )
    return png(image)


def _waveform(x: np.ndarray) -> str:
    """SVG path of the envelope in a box of 260 x 40: one vertical line per column, from the lowest to the
    highest sample."""
    if not len(x):
        return ""
    edges = np.linspace(0, len(x), min(COLUMNS_PX, len(x)) + 1).astype(int)
    step = COLUMNS_PX / (len(edges) - 1)
    strokes = []
    for k, (a, b) in enumerate(itertools.pairwise(edges)):
        high, low = 20 - 18 * float(x[a:b].max()), 20 - 18 * float(x[a:b].min())
        strokes.append(f"M{k * step:.4g} {high:.1f}V{max(low, high + 0.4):.1f}")
    return "".join(strokes)

"""Examples to look at and listen to: pictures, clips, waveforms and spectrograms, all embedded in the
page."""

import base64
import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from limen.report.formatting import COLUMNS, fmt
from limen.report.run import CellResult
from limen.report.transcripts import align_words

ROLES = ("clean", "perturbation", "adversarial")
DYNAMIC_DB = 80.0
"""Range of the spectrograms below the loudest point of the clean clip."""
COLUMNS_PX, ROWS_PX, LEVELS = 260, 96, 48
# night blue, violet, rose, amber, ivory: lightness rises evenly, so the map reads in grey too
COLOURS = np.array(
    [(13, 14, 38), (66, 33, 105), (158, 52, 110), (228, 112, 75), (250, 190, 98), (253, 246, 214)], float
)


def choose(cells: list[CellResult], per_cell: int, megabytes: float) -> dict[str, list[dict[str, Any]]]:
    """Examples of each cell by turns, first ones first, until the page would grow past its size."""
    chosen: dict[str, list[dict[str, Any]]] = {c.id: [] for c in cells}
    room = megabytes * 1e6
    for turn in range(per_cell):
        # cheap ones first: pictures cost little, and must not be crowded out by clips
        costs = [(_cost(c, c.examples[turn]), k, c) for k, c in enumerate(cells) if turn < len(c.examples)]
        for cost, _, cell in sorted(costs, key=lambda item: item[:2]):
            if cost <= room:
                chosen[cell.id].append(cell.examples[turn])
                room -= cost
    return chosen


def _cost(cell: CellResult, example: dict[str, Any]) -> float:
    paths = [find(cell, example, role) for role in ROLES]
    size = sum(p.stat().st_size for p in paths if p) * 4 / 3
    return size + (45e3 if cell.kind == "clip" else 2e3)  # spectrograms and waveforms; markup


def find(cell: CellResult, example: dict[str, Any], role: str) -> Path | None:
    """The file of an example, if it is there; a name that leads out of the cell's folder is no file of
    ours."""
    name = (example.get("files") or {}).get(role)
    for base in (cell.folder, cell.folder / "examples") if name else ():
        path = (base / str(name)).resolve()
        if path.is_file() and path.is_relative_to(cell.folder.resolve()):
            return path
    return None


def show(cell: CellResult, example: dict[str, Any]) -> dict[str, Any]:
    """What the template needs for one example."""
    paths = {role: find(cell, example, role) for role in ROLES}
    shown: dict[str, Any] = {
        "id": str(example.get("id", "")),
        "label": _text(example.get("label")),
        "success": bool(example.get("success")),
        "already": bool(example.get("already")),
        "answers": {
            "clean": _text(example.get("clean_prediction")),
            "adversarial": _text(example.get("adversarial_prediction")),
        },
        "metrics": _metrics(example.get("metrics") or {}, cell.kind),
        "confidence": _confidences(example.get("metrics") or {}),
        "missing": [role for role in ("clean", "adversarial") if paths[role] is None],
        "panels": [],
    }
    if cell.output == "transcript":
        goal = cell.goal if cell.targeted and cell.goal["name"] == "transcript" else {}
        target = (example.get("metrics") or {}).get("target") or goal.get("text")
        shown["heard"] = align_words(
            cell, shown["label"], shown["answers"]["clean"], shown["answers"]["adversarial"], target
        )
    if not shown["missing"]:
        assert paths["clean"] is not None
        assert paths["adversarial"] is not None
        shown["panels"] = (
            _clip(paths) if cell.kind == "clip" else _picture(paths["clean"], paths["adversarial"])
        )
    return shown


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _metrics(metrics: dict[str, Any], kind: str | None) -> list[tuple[str, str]]:
    shown = [
        k
        for k in COLUMNS
        if isinstance(metrics.get(k), int | float)
        and k != "fooled"
        and not (kind == "clip" and k in ("l0", "l1", "dissimilarity_l2"))
    ]
    return [(COLUMNS[k][0], fmt(metrics[k], COLUMNS[k][1])) for k in shown]


def _confidences(metrics: dict[str, Any]) -> dict[str, str]:
    """How sure the model was of each answer, where the run measured it."""
    names = {
        "clean": ("clean_confidence", "confidence_clean"),
        "adversarial": ("confidence", "adversarial_confidence"),
    }
    return {
        role: fmt(metrics[k], "%")
        for role, keys in names.items()
        for k in keys
        if isinstance(metrics.get(k), int | float)
    }


def data_uri(data: bytes, mime: str) -> str:
    return f"data:{mime};base64,{base64.b64encode(data).decode('ascii')}"


def _picture(clean: Path, adversarial: Path) -> list[dict[str, Any]]:
    from PIL import Image

    with Image.open(clean) as a, Image.open(adversarial) as b:
        mode = "L" if a.mode in ("L", "1", "I;16") else "RGB"
        x, x_adv = (np.asarray(im.convert(mode), float) for im in (a, b))
    change = x_adv - x if x.shape == x_adv.shape else np.zeros_like(x)
    largest = np.abs(change).max()
    # the largest power of two (up to 64) that keeps the change inside the grey range
    factor = 2 ** int(np.clip(np.floor(np.log2(127 / largest)), 0, 6)) if largest else 1
    shown = Image.fromarray(np.clip(127.5 + factor * change, 0, 255).astype(np.uint8), mode)
    tiny = max(x.shape[:2]) <= 64
    note = f"×\u00a0{factor}" if largest else "smaller than one grey level"
    return [
        {"role": "clean", "image": data_uri(clean.read_bytes(), "image/png"), "tiny": tiny, "note": ""},
        {"role": "perturbation", "image": data_uri(_png(shown), "image/png"), "tiny": tiny, "note": note},
        {
            "role": "adversarial",
            "image": data_uri(adversarial.read_bytes(), "image/png"),
            "tiny": tiny,
            "note": "",
        },
    ]


def _clip(paths: dict[str, Path | None]) -> list[dict[str, Any]]:
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
    where = np.linspace(0, len(COLOURS) - 1, LEVELS)
    image.putpalette(
        np.stack([np.interp(where, range(len(COLOURS)), c) for c in COLOURS.T], 1)
        .round()
        .astype(np.uint8)
        .tobytes()
    )
    return _png(image)


def _png(image: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    return out.getvalue()


def _waveform(x: np.ndarray) -> str:
    """SVG path of the envelope in a box of 260 x 40: one vertical stroke per column from the lowest to the
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

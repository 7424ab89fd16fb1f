"""Small studies for the tests: tones and noise in a temporary folder, and a study file beside them."""

from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import yaml

RATE_HZ = 16_000
SECRETS = ("zebra_7f", "quagga_9c", "okapi", "pristine_cond", "perturbed_cond", "hidden_factor")
"""Words that stand in file names, ids, conditions and factors of `study`, and nowhere else: a page must never
show one."""


def tone(path: Path, hz: float, noise: float = 0.0, seconds: float = 0.3, seed: int = 0) -> Path:
    t = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    x = 0.2 * np.sin(2 * np.pi * hz * t) + noise * np.random.default_rng(seed).standard_normal(len(t))
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, x, RATE_HZ)
    return path


def items(
    folder: Path, n: int = 4, groups: tuple[str, ...] = (), seconds: float = 0.3
) -> list[dict[str, Any]]:
    """n items in two conditions; their ids, files and factors hold the words of SECRETS."""
    out = []
    for k in range(n):
        files = {"pristine_cond": f"audio/zebra_7f_{k}.wav", "perturbed_cond": f"audio/quagga_9c_{k}.wav"}
        for noise, file in zip((0.0, 0.05), files.values(), strict=True):
            tone(folder / file, 300 + 50 * k, noise, seconds, seed=k)
        item = {
            "id": f"okapi{k}",
            "files": files,
            "answer": ("left", "right")[k % 2],
            "factors": {"level": "hidden_factor"},
        }
        out.append(item | ({"group": groups[k % len(groups)]} if groups else {}))
    return out


STEPS: list[Any] = [
    "consent",
    {"name": "abx", "trials": 3, "teaching": 1, "catch": 1},
    {"name": "naturalness", "trials": 2, "identify": True},
    "demographics",
    "comments",
]
JND: list[Any] = [
    {
        "name": "same_different",
        "axes": ["noise"],
        "adaptive": {"max_trials": 6, "min_trials": 2},
        "sentinels": 1,
    }
]


def write(
    folder: Path,
    steps: list[Any] = STEPS,
    groups: tuple[str, ...] = (),
    n: int = 4,
    seconds: float = 0.3,
    **more: Any,
) -> Path:
    """A study file in the folder; `more` are further keys of it."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "name": "small",
        "title": "A small study",
        "listeners": 20,
        "items": items(folder, n, groups, seconds),
        "steps": steps,
    } | more
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def replies(screen: dict[str, Any]) -> dict[str, Any]:
    """An answer that a screen takes: the first choice, the lowest place, a word."""
    out: dict[str, Any] = {}
    for widget in screen["widgets"]:
        one = {
            "choose": lambda w: w["choices"][0]["value"],
            "slide": lambda w: w["low"],
            "type": lambda w: "12",
        }[widget["kind"]](widget)
        out[widget["name"]] = (
            {sound["label"]: one for sound in screen["sounds"] if sound["rated"]}
            if widget["each_sound"]
            else one
        )
    return out

"""The card of trained weights: their model, training and results on clean samples of the test split."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limen.core.atomic import write_atomic
from limen.models.base.load import ZOO
from limen.models.base.model import Model
from limen.models.training.options import TrainOptions


def write_card(
    folder: Path,
    model: Model,
    *,
    spec: Mapping[str, Any],
    data: Mapping[str, Any],
    options: TrainOptions,
    seed: int,
    history: list[dict[str, Any]],
    test: Mapping[str, Any],
    recipe: str | None = None,
) -> dict[str, Any]:
    """Write folder/card.json next to folder/weights.safetensors. `spec` and `data` are the model and data
    set as the experiment names them; `test` is the result of `score` on the test split."""
    weights = folder / "weights.safetensors"
    card = {
        "model": {k: v for k, v in spec.items() if k != "weights"},
        "data": {k: v for k, v in data.items() if k not in ("split", "limit")},
        "test": {k: round(v, 4) if isinstance(v, float) else v for k, v in test.items()},
        "seed": seed,
        "recipe": recipe,
        "epochs": len(history),
        "train": options.model_dump(exclude_defaults=True),
        "parameters": sum(p.numel() for p in model.parameters()),
        "bytes": weights.stat().st_size,
        "sha256": hashlib.sha256(weights.read_bytes()).hexdigest(),
    }
    write_atomic(folder / "card.json", (json.dumps(card, indent=1) + "\n").encode())
    return card


def read_card(name: str) -> dict[str, Any] | None:
    """The card of a model's shipped weights; None if none are shipped."""
    path = ZOO / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None

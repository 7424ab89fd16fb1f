"""The checkpoint of a training: its identity, and its state after the last finished epoch.

The identity contains everything that determines the result. A checkpoint with another identity is refused:
continuing it would give weights that neither training produces.
"""

import io
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import limen
from limen.core.atomic import write_atomic
from limen.core.errors import UserError
from limen.core.options import short_repr
from limen.data.base.dataset import Dataset
from limen.models.base.load import load_tensors
from limen.models.base.model import Model, inner
from limen.models.training.options import TrainOptions

PACKAGES = ("torch", "numpy", "transformers")
"""Packages whose version may change a result."""


def identity_of(
    model: Model,
    train_set: Dataset,
    valid_set: Dataset | None,
    options: TrainOptions,
    objective: Mapping[str, Any],
    spec: Mapping[str, Any],
    *,
    seed: int,
    processes: int,
) -> dict[str, Any]:
    """Everything that determines the training, as plain data. `spec` holds the specs of the model and of
    the data, if the caller knows them."""
    shapes = {name: list(value.shape) for name, value in inner(model).state_dict().items()}
    return {
        "seed": seed,
        "processes": processes,
        "objective": dict(objective),
        "spec": dict(spec),
        "weights": shapes,
        "train_set": _data(train_set),
        "valid_set": None if valid_set is None else _data(valid_set),
        "versions": {"limen": limen.__version__, **{name: _version(name) for name in PACKAGES}},
        "options": options.model_dump(mode="json", exclude={"objective"}),
    }


def read_checkpoint(path: Path, identity: Mapping[str, Any]) -> dict[str, Any] | None:
    """The state in the checkpoint; None if there is none. Raises a UserError if it belongs to another
    training."""
    if not path.exists():
        return None
    state = load_tensors(path)
    theirs = json.loads(state["identity"])
    differences = list(_differences(json.loads(json.dumps(identity)), theirs))
    if differences:
        raise UserError(
            f"{path} belongs to another training: {'; '.join(differences[:5])}. Use another folder, or "
            "delete the file to start again."
        )
    return state


def write_checkpoint(path: Path, identity: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Write the checkpoint atomically: a killed run leaves the old one or the new one."""
    content = io.BytesIO()
    torch.save({"identity": json.dumps(identity, sort_keys=True), **state}, content)
    write_atomic(path, content.getvalue())


def save_weights(model: Model, path: Path, dtype: torch.dtype = torch.float32) -> None:
    """Save the inner network's state dict as safetensors; `dtype` is the stored type of floating-point
    parameters."""
    from safetensors.torch import save

    network = inner(model)
    parameters = {name for name, _ in network.named_parameters()}
    stored = {name: v.to(dtype) if name in parameters else v for name, v in network.state_dict().items()}
    state = {name: v.detach().cpu().contiguous().clone() for name, v in stored.items()}
    write_atomic(path, save(state))


def _data(data: Dataset) -> dict[str, Any]:
    return {"name": data.name, "samples": len(data), "classes": data.classes, "rate_hz": data.rate_hz}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _differences(ours: Any, theirs: Any, name: str = "") -> list[str]:
    """The differences, as texts such as "options.lr is 0.1 here and 0.5 there"."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = []
        for key in sorted({*ours, *theirs}):
            below = f"{name}.{key}" if name else key
            found += _differences(ours.get(key), theirs.get(key), below)
        return found
    return [] if ours == theirs else [f"{name} is {short_repr(ours)} here and {short_repr(theirs)} there"]

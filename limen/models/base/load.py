"""Loading of models by name, with shipped, downloaded or random weights or those of a file. Weights are
data; code in a weights file is never executed."""

import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from limen.core.components import KINDS, Component, parse
from limen.core.errors import UserError
from limen.models.base.model import Model, ModelOptions, PublishedNames, inner

ZOO = Path(__file__).parent.parent / "zoo"
"""<model name>.safetensors and its card <model name>.json."""

WRAPPERS = ("state_dict", "model_state_dict", "model_state", "net")
"""Keys under which training scripts store the state dict in a checkpoint."""


def load_model(spec: str | Mapping[str, Any]) -> Model:
    """The model of a spec, "cnn" or {"name": "cnn", "weights": "mine.pth", ...}, in evaluation mode."""
    component, options = parse("models", spec)
    assert isinstance(options, ModelOptions)
    # random weights depend on init_seed only, and the caller's generator is not changed
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.init_seed)
        model: Model = component.function(options)
    if options.weights not in ("random", "own"):
        fetched = options.fetched() if options.weights == "zoo" else None
        if fetched is None:
            load_weights(inner(model), component, options.weights, ZOO)
        else:
            load_state(inner(model), fetched, f"model {component.name}: the downloaded weights")
    model.eval().prepare()
    return model


def load_weights(module: nn.Module, component: Component, weights: str, zoo: Path) -> None:
    """Load the weights that the option `weights` names: "zoo", "zoo:variant" or a file."""
    state, source = _weights(component, weights, zoo)
    who = KINDS[component.kind].singular
    load_state(module, state, f"{who} {component.name}: the weights {source}")


def _weights(component: Component, weights: str, zoo: Path) -> tuple[dict[str, Tensor], str]:
    """The state dict that `weights` names, and a description of it for messages."""
    name, _, variant = weights.partition(":")
    if name != "zoo":
        path = Path(weights).expanduser()
        return read_state(path), str(path)
    path = zoo / f"{component.name}{'_' if variant else ''}{variant}.safetensors"
    if not path.exists():
        shipped = ", ".join(sorted(p.stem for p in zoo.glob("*.safetensors")))
        what = f"weights {variant}" if variant else "weights"
        raise UserError(
            f"{KINDS[component.kind].singular} {component.name}: no {what} are shipped for it. Give a file "
            "(weights: path/to/weights.pth), train it (`limen train`), or use weights: random. Shipped "
            f"weights: {shipped or 'none'}."
        )
    return read_state(path), f"of the zoo ({path.name})"


def read_state(path: Path) -> dict[str, Tensor]:
    """A state dict from .safetensors, .pth or .pt, without a wrapper around it and without the prefix
    "module." of parallel training."""
    if path.is_dir():  # as written by Hugging Face
        path = path / "model.safetensors"
    if not path.is_file():
        raise UserError(f"There is no weights file {path}.")
    if path.suffix not in (".safetensors", ".pth", ".pt"):
        raise UserError(f"Weights are read from .safetensors, .pth or .pt, got {path}.")
    loaded: Any = _safetensors(path) if path.suffix == ".safetensors" else load_tensors(path)
    while isinstance(loaded, Mapping) and (
        key := next((k for k in WRAPPERS if isinstance(loaded.get(k), Mapping)), None)
    ):
        loaded = loaded[key]
    if not isinstance(loaded, Mapping) or not all(isinstance(v, Tensor) for v in loaded.values()):
        kinds = (
            ", ".join(map(str, list(loaded)[:5])) if isinstance(loaded, Mapping) else type(loaded).__name__
        )
        raise UserError(f"{path} must contain a state dict (names with tensors), got: {kinds}.")
    return {str(name).removeprefix("module."): value for name, value in loaded.items()}


def load_tensors(path: Path, mmap: bool = False) -> Any:
    """The content of a torch.save file that consists of tensors and plain values; a file that would run
    code is refused."""
    try:
        with warnings.catch_warnings():  # about the pickle's protocol
            warnings.simplefilter("ignore")
            return torch.load(
                path, map_location="cpu", weights_only=True, mmap=mmap and zipfile.is_zipfile(path)
            )
    except Exception as error:  # torch has no common exception for damaged files and other formats
        # torch's own message recommends loading the file unsafely, so only the name in it is shown
        if named := re.search(r"GLOBAL (\S+)", str(error)):
            raise UserError(
                f"{path} is refused: it names {named[1]}, and a file that names code can run it when it is "
                "read. Weights must be tensors only: save model.state_dict() instead of the model, or use "
                "safetensors."
            ) from None
        raise UserError(
            f"{path} cannot be read as weights: it is damaged, or not a torch.save file."
        ) from None


def _safetensors(path: Path) -> Any:
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except Exception as error:  # SafetensorError is no subclass of anything but Exception
        raise UserError(f"{path} cannot be read as safetensors: {str(error).splitlines()[0]}.") from None


def load_state(module: nn.Module, state: Mapping[str, Tensor], who: str) -> None:
    """Load a state dict strictly; the error lists names and shapes that do not fit. Weights in half
    precision are converted to the module's type."""
    expected = module.state_dict()
    if isinstance(module, PublishedNames):
        state = {module.our_name(name): value for name, value in state.items()}
    wrong = [
        f"{name} is {tuple(state[name].shape)} and should be {tuple(value.shape)}"
        for name, value in expected.items()
        if name in state and state[name].shape != value.shape
    ]
    optional = {
        name for name in expected if name.endswith("num_batches_tracked")
    }  # files from before torch 0.4.1 lack these counters
    troubles = {
        "missing": [n for n in expected if n not in state and n not in optional],
        "unexpected": [n for n in state if n not in expected],
        "of another shape": wrong,
    }
    if any(troubles.values()):
        listed = "; ".join(
            f"{len(v)} {k}: {', '.join(v[:4])}{', ...' if len(v) > 4 else ''}"
            for k, v in troubles.items()
            if v
        )
        raise UserError(
            f"{who} do not fit this architecture. {listed}. Check the model's name and options, or use "
            "weights: random."
        )
    module.load_state_dict(dict(state), strict=False)

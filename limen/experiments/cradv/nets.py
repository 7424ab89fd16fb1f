"""CrAdv's nets and data sources from Limen's models and data: the same weights files, the same normalisation,
the same folders.

CrAdv normalises in the data source, and its files give sizes in normalised units. Therefore attacks work on
normalised pictures,

    x_n = (x - mean) / std,   low = (0 - mean) / std,   high = (1 - mean) / std   per channel,

and on a `View` of the model that undoes the normalisation. All reported values are converted back to [0, 1]
first.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limen.core.components import load
from limen.core.errors import UserError
from limen.core.types import Batch, Outputs
from limen.data.base.dataset import Dataset
from limen.experiments.cradv import plan
from limen.models.base.load import ZOO, load_model
from limen.models.base.model import Classifier, Model, Normalized, inner

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
NORMALISATION = {
    "mnist": ([0.5], [0.5]),
    "fmnist": ([0.5], [0.5]),
    "cifar10": ([0.5] * 3, [0.5] * 3),
    "imagenet": IMAGENET,
    "imagenet_inc3": IMAGENET,
}
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
CLOTHES = [
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
]
CLASSES = {"mnist": [f"{i} - {word}" for i, word in enumerate(DIGITS)], "fmnist": CLOTHES}
"""Class names in which CrAdv differs from Limen."""


@dataclass(frozen=True)
class Space:
    """The normalised space of a data source."""

    mean: Tensor
    std: Tensor

    @staticmethod
    def of(datasource: str, device: torch.device) -> "Space":
        mean, std = NORMALISATION[datasource]
        return Space(*(torch.tensor(v, device=device).view(-1, 1, 1) for v in (mean, std)))

    def normalise(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.std

    def pixels(self, x_n: Tensor) -> Tensor:
        """Back to [0, 1]."""
        return x_n * self.std + self.mean

    @property
    def bounds(self) -> tuple[Tensor, Tensor]:
        return -self.mean / self.std, (1 - self.mean) / self.std


class View(Model):
    """The model as a function of normalised pictures."""

    def __init__(self, model: Model, space: Space):
        super().__init__()
        self.model, self.space = model, space
        self.copy_facts(model)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        return self.model(self.space.pixels(x), lengths, generators)


@dataclass(frozen=True)
class Opened:
    """An opened net: its model on raw pictures, its data and its normalised space."""

    spec: plan.Net
    model: Model
    space: Space
    data: Dataset
    classes: list[str]
    device: torch.device

    def batches(self, limit: int) -> Iterator[Batch]:
        """Normalised batches, exactly `limit` samples of them."""
        for batch in replace(self.data, keys=self.data.keys[:limit]).batches(self.spec.batch_size):
            yield self.normalised(batch.to(self.device))

    def normalised(self, batch: Batch) -> Batch:
        return replace(batch, x=self.space.normalise(batch.x))


@dataclass
class Opener:
    """Opens each net once and keeps it until a net is trained."""

    file: Path
    mapping: Mapping[str, str]
    device: torch.device
    say: Callable[[str], None]
    opened: dict[str, Opened] = field(default_factory=dict)

    def net(self, spec: plan.Net) -> Opened:
        key = json.dumps(spec.data, sort_keys=True)
        if key not in self.opened:
            data = self.data(spec, "test")
            model = self._model(spec, data)
            classes = CLASSES.get(spec.datasource) or data.classes or []
            classes = classes + [
                str(i) for i in range(len(classes), len(model.classes or []))
            ]  # the data folder may lack classes of the net
            self.opened[key] = Opened(
                spec, model, Space.of(spec.datasource, self.device), data, classes, self.device
            )
        return self.opened[key]

    def data(self, spec: plan.Net, split: str) -> Dataset:
        """CrAdv's test or train part, which includes the part of train that Limen uses for validation."""
        name, options = self._source(spec)
        options["order"] = "file" if spec.source.shuffle is False else "shuffled"
        folder = name == "image_folder"
        splits = {
            "test": ["valid" if folder else "test"],
            "train": ["train"] if folder else ["train", "valid"],
        }[split]
        component = load("data", name)
        parts = [component.function(component.parse({**options, "split": s})) for s in splits]
        return replace(parts[0], keys=[key for part in parts for key in part.keys])

    def find(self, relative: str) -> Path | None:
        """A file or folder of CrAdv's tree: through --map, relative to the working folder or to a folder
        above the task file."""
        given = Path(mapped(relative, self.mapping))
        tries = (
            [given]
            if given.is_absolute()
            else [Path(given), *(folder / given for folder in self.file.resolve().parents)]
        )
        return next((p for p in tries if p.exists()), None)

    def _source(self, spec: plan.Net) -> tuple[str, dict[str, Any]]:
        """Limen's data set and its options."""
        own = "imagenet" if spec.datasource.startswith("imagenet") else spec.datasource
        path = Path(spec.source.path).expanduser() if spec.source.path else self.find(f"data/datasets/{own}")
        if own == "imagenet":
            if path is None or not (path / "val").is_dir():
                problem = (
                    "is given (datasource_params.path) or found as data/datasets/imagenet"
                    if path is None
                    else f"val is in {path}"
                )
                raise UserError(
                    f"net {spec.id}: the data source {spec.datasource} needs a folder with train/ and val/, "
                    f"each with a folder per class, but no {problem}. A path of another machine is replaced "
                    "with --map OLD=NEW."
                )
            sizes = (
                {"size": 299, "resize": 299}
                if spec.datasource == "imagenet_inc3"
                else {"size": 224, "resize": 256}
            )
            return "image_folder", {"path": str(path), **sizes}
        name, below = {
            "mnist": ("mnist", "MNIST/raw"),
            "fmnist": ("fashion_mnist", "FashionMNIST/raw"),
            "cifar10": ("cifar10", ""),
        }[own]
        if path is not None and (path / below).is_dir():  # the folder structure of torchvision
            path = path / below
        if spec.source.path is None and (path is None or not any(p for p in path.rglob("*") if p.is_file())):
            return name, {}  # CrAdv would download; Limen uses its cache
        return name, {"path": str(path)}

    def _model(self, spec: plan.Net, data: Dataset) -> Model:
        component = load("models", spec.model)
        wanted = {"classes" if k == "num_classes" else k: v for k, v in spec.model_params.items()}
        options = {k: v for k, v in wanted.items() if k in component.options.model_fields and k != "weights"}
        if ignored := sorted(set(wanted) - set(options)):
            self.say(f"net {spec.id}: the model {spec.model} takes no {', '.join(ignored)}; ignored.")
        model = load_model({"name": spec.model, **options, "weights": self._weights(spec)})
        if data.shape is not None and model.shape is not None and data.shape[0] != model.shape[0]:
            raise UserError(
                f"net {spec.id}: the model {spec.model} takes {model.shape}, but {spec.datasource} gives "
                f"{data.shape}."
            )
        if not options.get("transform_input"):
            # in CrAdv the data source normalises, for any model
            network = Normalized(inner(model), *NORMALISATION[spec.datasource])
            model = Classifier(network, "picture", model.classes or [], shape=model.shape)
        return model.to(self.device).eval()

    def _weights(self, spec: plan.Net) -> str:
        wanted = f"data/weights/{spec.id}.pth"
        found = self.find(wanted)
        if found is not None:
            return str(found)
        if (ZOO / f"{spec.model}.safetensors").is_file() and not spec.model_params:
            self.say(
                f"net {spec.id}: there is no {wanted}; the weights that Limen ships for {spec.model} are "
                "used."
            )
            return "zoo"
        self.say(f"net {spec.id}: there is no {wanted}; the weights are random.")
        return "random"


def mapped(value: Any, mapping: Mapping[str, str]) -> Any:
    """The same data with the start of every path replaced, at any depth."""
    if isinstance(value, dict):
        return {k: mapped(v, mapping) for k, v in value.items()}
    if isinstance(value, list):
        return [mapped(v, mapping) for v in value]
    for old, new in mapping.items() if isinstance(value, str) else ():
        start = old.rstrip("/")
        if value in (old, start):
            return new
        if value.startswith(start + "/"):
            return new.rstrip("/") + value[len(start) :]
    return value

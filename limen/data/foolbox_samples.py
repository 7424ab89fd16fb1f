"""Foolbox samples: 20 pictures each of ImageNet, CIFAR-10, CIFAR-100, MNIST or Fashion-MNIST, enough to try a
model that is ready-made.

From the package foolbox (Rauber et al. 2020, https://doi.org/10.21105/joss.02607): fetch them with `limen
data get foolbox_samples`. The class of a picture is the number at the end of its name, in the usual order of
the data set."""

from pathlib import Path
from typing import Literal

from limen.core.errors import UserError
from limen.core.types import Sample
from limen.data.base.dataset import DataOptions, Dataset, ordered
from limen.data.fetch.cache import fetched
from limen.data.image_folder import read_square

CLASSES = {"imagenet": 1000, "cifar10": 10, "cifar100": 100, "mnist": 10, "fashionMNIST": 10}
SIDES = {"imagenet": 224, "cifar10": 32, "cifar100": 32, "mnist": 28, "fashionMNIST": 28}


class FoolboxSamples(DataOptions):
    of: Literal["imagenet", "cifar10", "cifar100", "mnist", "fashionMNIST"] = "imagenet"
    """Data set of the samples."""
    path: str | None = None
    """Folder with the pictures; null: the cache of `limen data get`."""


def foolbox_samples(options: FoolboxSamples) -> Dataset:
    folder = Path(options.path).expanduser() if options.path else fetched("foolbox_samples")
    if options.split != "test":
        raise UserError(f"foolbox_samples: all samples are in the split test; there is no {options.split}.")
    files = sorted(
        path for path in folder.glob(f"{options.of}_*_*.*") if path.stem.rsplit("_", 1)[-1].isdigit()
    )
    if not files:
        raise UserError(
            f"foolbox_samples: {folder} holds no files {options.of}_NN_CLASS. Fetch them: limen data get "
            "foolbox_samples"
        )
    side = SIDES[options.of]
    grey = options.of in ("mnist", "fashionMNIST")

    def load(path: Path) -> Sample:
        x = read_square(path, side, side)
        return Sample(path.name, x[:1] if grey else x, int(path.stem.rsplit("_", 1)[-1]))

    keys = ordered(files, [path.name for path in files], options)
    return Dataset(
        "foolbox_samples",
        "picture",
        keys,
        load,
        classes=[str(i) for i in range(CLASSES[options.of])],
        shape=(1 if grey else 3, side, side),
    )

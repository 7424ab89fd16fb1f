"""A working folder in which CrAdv's task files run."""

import json
import pickle

import numpy as np
import pytest
import torch
from cradv_files import HERE, Heard, idx, labels, weights

from limen.core.types import Batch
from limen.experiments.cradv.nets import Space, View
from limen.experiments.cradv.runner import run_cradv
from limen.models.base.model import Classifier


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Digits as torchvision keeps MNIST, things as it keeps CIFAR-10.

    Labels are what a net with random weights says, so all clean answers are right.
    """
    root, rng = tmp_path_factory.mktemp("pictures"), np.random.default_rng(1)
    for part, n in (("train", 40), ("t10k", 20)):
        x = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        idx(root / f"digits/MNIST/raw/{part}-images-idx3-ubyte", x)
        idx(root / f"digits/MNIST/raw/{part}-labels-idx1-ubyte", labels("resnet14_mnist", x[:, None]))
    things = root / "things/cifar-10-batches-py"
    things.mkdir(parents=True)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        x = rng.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
        (things / name).write_bytes(
            pickle.dumps(
                {b"data": x.reshape(12, -1), b"labels": labels("resnet14_cifar", x).tolist()}, protocol=2
            )
        )
    return root


@pytest.fixture
def at(tmp_path, monkeypatch, pictures):
    """A working folder with the weights of "digits"; `at(file)` runs a file there with its paths mapped, and
    returns the results folder and what was heard."""
    monkeypatch.chdir(tmp_path)
    weights("digits", 0)

    def run(content, **options):
        name = content if isinstance(content, str) else "given.json"
        content = json.loads((HERE / content).read_text()) if isinstance(content, str) else content
        heard = Heard()
        given = {
            "mapping": {"/srv/pictures": str(pictures)},
            "out": None,
            "limit": None,
            "device": "cpu",
            **options,
        }
        return run_cradv(content, HERE / name, **given, progress=heard), heard

    return run


@pytest.fixture(scope="module")
def small():
    """A net of three classes on pictures (3, 6, 6) in ImageNet's normalised space, and a batch whose labels
    it gets right."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(128, 3)
    ).eval()
    space = Space.of("imagenet", torch.device("cpu"))
    view = View(Classifier(network, "picture", list("abc")), space)
    x = space.normalise(torch.rand(6, 3, 6, 6, generator=torch.Generator().manual_seed(3)))
    with torch.no_grad():
        return view, space, Batch("picture", [f"s{i}" for i in range(6)], x, view(x).argmax(1))

"""The network that the benchmarks attack: a small CNN on 28 x 28 digits, trained here in under a minute and kept in build/.

MNIST where `limen data get mnist` has fetched it, otherwise scikit-learn's 8 x 8 digits enlarged; the table says which. The data are
read with numpy alone, so that nothing but torch decides what is timed.
"""

import gzip
import os
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

KEPT = Path(__file__).resolve().parent.parent / "build" / "benchmarks"


def network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(64 * 3 * 3, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def digits() -> tuple[str, Tensor, Tensor, Tensor, Tensor]:
    """Name of the data, then training and test pictures (N, 1, 28, 28) in [0, 1] and labels."""
    folder = Path(os.environ.get("LIMEN_CACHE") or Path.home() / ".cache" / "limen").expanduser() / "mnist"
    if folder.is_dir():
        x, y = _idx(folder, "train-images"), _idx(folder, "train-labels")
        x_test, y_test = _idx(folder, "t10k-images"), _idx(folder, "t10k-labels")
        return "MNIST", x[:, None].float() / 255, y.long(), x_test[:, None].float() / 255, y_test.long()
    from sklearn.datasets import load_digits

    images, labels = (torch.from_numpy(a) for a in load_digits(return_X_y=True))
    big = F.interpolate(images.float().view(-1, 1, 8, 8) / 16, 28, mode="bilinear")
    return "scikit-learn digits, enlarged", big[:1200], labels[:1200].long(), big[1200:], labels[1200:].long()


def _idx(folder: Path, prefix: str) -> Tensor:
    """A file of MNIST's IDX format, packed or not."""
    path = sorted(folder.rglob(f"{prefix}*"))[0]
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    dimensions = data[3]
    shape = np.frombuffer(data, ">i4", dimensions, 4)
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy())


def trained(robust: bool) -> tuple[str, nn.Sequential, Tensor, Tensor]:
    """Name of the data, the network (standard, or trained on PGD-7 samples with eps up to 0.3), test pictures and labels."""
    name, x, y, x_test, y_test = digits()
    path = KEPT / f"{name.split(',')[0].replace(' ', '_').lower()}_{'robust' if robust else 'standard'}.pth"
    model = network()
    if path.is_file():
        model.load_state_dict(torch.load(path, weights_only=True))
    else:
        torch.manual_seed(0)
        if robust:
            model = trained(robust=False)[1]
            _train(model, x, y, steps=289, robust=True)
        else:
            model = network()
            _train(model, x, y, steps=412, robust=False)
        KEPT.mkdir(parents=True, exist_ok=True)
        torch.save(model.state_dict(), path)
    return name, model.eval(), x_test, y_test


def _train(model: nn.Module, x: Tensor, y: Tensor, steps: int, robust: bool) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(steps):
        rows = torch.randint(len(x), (128,))
        batch = x[rows]
        if robust:
            eps = 0.3 * min(1.0, (step + 1) / (0.7 * steps))
            for _ in range(7):
                leaf = batch.detach().requires_grad_()
                (gradient,) = torch.autograd.grad(F.cross_entropy(model(leaf), y[rows]), leaf)
                batch = torch.minimum(torch.maximum(leaf.detach() + eps / 4 * gradient.sign(), x[rows] - eps), x[rows] + eps).clamp(0, 1)
        optimiser.zero_grad()
        F.cross_entropy(model(batch), y[rows]).backward()
        optimiser.step()

"""The networks that the benchmarks attack: small CNNs on MNIST and CIFAR-10, standard and adversarially
trained.

Their weights are in victims/, in half precision. `python benchmarks/victim.py mnist cifar10` trains them again
(about 40 minutes on one core). `limen data get mnist` and `limen data get cifar10` download the pictures. Data
are read with numpy alone, so that the timing depends on torch only.
"""

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

WEIGHTS = Path(__file__).resolve().parent / "victims"
CACHE = Path(os.environ.get("LIMEN_CACHE") or Path.home() / ".cache" / "limen").expanduser()
EPS = {"mnist": 0.3, "cifar10": 8 / 255}
"""Radius in L-inf of the adversarial training."""


def mnist_network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 3 * 3, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def cifar10_network() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128 * 4 * 4, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


NETWORKS = {"mnist": mnist_network, "cifar10": cifar10_network}


def pictures(data: str, split: str) -> tuple[Tensor, Tensor]:
    """Pictures (N, C, H, W) in [0, 1] and labels of the training or the test split."""
    folder = CACHE / data
    if not folder.is_dir():
        raise SystemExit(f"{folder} does not exist: run `limen data get {data}` first.")
    return {"mnist": _mnist, "cifar10": _cifar10}[data](folder, split)


def _mnist(folder: Path, split: str) -> tuple[Tensor, Tensor]:
    prefix = "train" if split == "train" else "t10k"
    return _idx(folder, f"{prefix}-images")[:, None].float() / 255, _idx(folder, f"{prefix}-labels").long()


def _idx(folder: Path, prefix: str) -> Tensor:
    """The content of a file in MNIST's IDX format, compressed or not."""
    path = sorted(folder.rglob(f"{prefix}*"))[0]
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    dimensions = data[3]
    shape = np.frombuffer(data, ">i4", dimensions, 4)
    return torch.from_numpy(np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape).copy())


def _cifar10(folder: Path, split: str) -> tuple[Tensor, Tensor]:
    paths = sorted(folder.rglob("data_batch_*.bin" if split == "train" else "test_batch.bin"))
    rows = torch.from_numpy(np.concatenate([np.fromfile(p, np.uint8) for p in paths]).reshape(-1, 3073))
    return rows[:, 1:].reshape(-1, 3, 32, 32).float() / 255, rows[:, 0].long()


def trained(data: str, robust: bool) -> nn.Sequential:
    network = NETWORKS[data]()
    network.load_state_dict(
        {k: v.float() for k, v in torch.load(_path(data, robust), weights_only=True).items()}
    )
    return network.eval()


def _path(data: str, robust: bool) -> Path:
    return WEIGHTS / f"{data}_{'robust' if robust else 'standard'}.pth"


def train(data: str, robust: bool) -> None:
    """Standard: Adam on the pictures. Robust: continued from there on PGD samples whose radius grows to EPS."""
    torch.manual_seed(0)
    x, y = pictures(data, "train")
    network = trained(data, False).train() if robust else NETWORKS[data]()
    steps = {("mnist", False): 500, ("mnist", True): 400, ("cifar10", False): 1200, ("cifar10", True): 800}[
        data, robust
    ]
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    inner = 7 if data == "mnist" else 3
    for step in range(steps):
        rows = torch.randint(len(x), (128,))
        clean, labels = x[rows], y[rows]
        if data == "cifar10":
            clean = _augmented(clean)
        batch = (
            _adversarial(network, clean, labels, EPS[data] * min(1.0, (step + 1) / (0.5 * steps)), inner)
            if robust
            else clean
        )
        optimiser.zero_grad()
        loss = F.cross_entropy(network(batch), labels)
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 100 == 0:
            print(data, robust, step, round(float(loss.detach()), 3), flush=True)
    WEIGHTS.mkdir(exist_ok=True)
    torch.save({k: v.half() for k, v in network.state_dict().items()}, _path(data, robust))
    network, (x, y) = trained(data, robust), pictures(data, "test")
    x, y = x[:2000], y[:2000]
    with torch.no_grad():
        clean_accuracy = (network(x).argmax(1) == y).float().mean()
    attacked = _adversarial(network, x, y, EPS[data], 20)
    with torch.no_grad():
        robust_accuracy = (network(attacked).argmax(1) == y).float().mean()
    print(data, robust, f"clean {clean_accuracy:.1%}, PGD-20 at {EPS[data]:.3g} {robust_accuracy:.1%}")


def _augmented(x: Tensor) -> Tensor:
    """The batch mirrored with probability one half, and shifted by up to 4 pixels."""
    x = x.flip(3) if torch.rand(()) < 0.5 else x
    i, j = torch.randint(0, 9, (2,)).tolist()
    return F.pad(x, (4, 4, 4, 4))[:, :, i : i + 32, j : j + 32]


def _adversarial(network: nn.Module, x: Tensor, y: Tensor, eps: float, steps: int) -> Tensor:
    x_adv = (x + eps * (2 * torch.rand_like(x) - 1)).clamp(0, 1)
    for _ in range(steps):
        leaf = x_adv.requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(network(leaf), y), leaf)
        x_adv = torch.minimum(
            torch.maximum(leaf.detach() + 2 * eps / steps * gradient.sign(), x - eps), x + eps
        ).clamp(0, 1)
    return x_adv


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:]:
        train(name, False)
        train(name, True)

"""Peak memory of our attacks relative to a bare loop of gradients, and the distribution of their time.

python benchmarks/bench_memory.py [--n 512]      prints two tables and writes docs/benchmarks_memory.md

Every number is measured in its own process: the peak of the resident set while the attack runs, minus the
memory before it. Time is divided into the forward pass of the network, its backward pass, and the rest of the
attack.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from victim import pictures, trained

from limen.attacks.engine.run import Attack
from limen.core.types import Batch
from limen.models.base.model import Classifier

LINF, L2 = {"name": "linf", "eps": 8 / 255}, {"name": "l2", "eps": 0.5}
ATTACKS = {
    "fgsm": {"name": "fgsm", "budget": LINF},
    "pgd": {"name": "pgd", "steps": 10, "budget": LINF},
    "pgd, l2": {"name": "pgd", "steps": 10, "budget": L2},
    "mi_fgsm": {"name": "mi_fgsm", "steps": 10, "budget": LINF},
    "apgd": {"name": "apgd", "steps": 10, "budget": LINF},
    "apgd, dlr": {"name": "apgd", "loss": "dlr", "steps": 10, "budget": LINF},
    "square": {"name": "square", "queries": 20, "budget": LINF},
    "deepfool": {"name": "deepfool", "steps": 5},
    "ddn": {"name": "ddn", "steps": 10},
    "fmn": {"name": "fmn", "steps": 10},
    "fab": {"name": "fab", "norm": "linf", "targets": 1, "steps": 10},
    "cw_l2": {"name": "cw_l2", "steps": 10, "search_steps": 1},
}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks_memory.md"


class Timed(nn.Module):
    """A network that adds up the time spent in it, forward and backward."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network, self.forward_s, self.backward_s, self.begun = network, 0.0, 0.0, 0.0

    def forward(self, x: Tensor) -> Tensor:
        start = time.process_time()
        if x.requires_grad:
            x = x.clone()
            x.register_hook(self._ends)
        logits = self.network(x)
        if logits.requires_grad:
            logits.register_hook(self._begins)
        self.forward_s += time.process_time() - start
        return logits

    def _begins(self, gradient: Tensor) -> None:
        self.begun = time.process_time()

    def _ends(self, gradient: Tensor) -> None:
        self.backward_s += time.process_time() - self.begun


def bare(network: nn.Module, x: Tensor, y: Tensor, steps: int = 3) -> None:
    for _ in range(steps):
        leaf = x.detach().requires_grad_()
        torch.autograd.grad(F.cross_entropy(network(leaf), y, reduction="sum"), leaf)


def attacked(name: str, network: nn.Module, x: Tensor, y: Tensor) -> None:
    batch = Batch("picture", [str(i) for i in range(len(x))], x, y)
    Attack.parse(ATTACKS[name])(Classifier(network, "picture", [str(i) for i in range(10)]), batch)


def child(name: str, n: int) -> None:
    """Print the peak in MB and the seconds of forward passes, of backward passes and in total."""
    torch.set_num_threads(1)
    x, y = pictures("cifar10", "test")
    x, y = x[:n].clone(), y[:n].clone()
    network = Timed(trained("cifar10", True))
    run = (
        (lambda k: bare(network, x[:k], y[:k]))
        if name == "bare"
        else (lambda k: attacked(name, network, x[:k], y[:k]))
    )
    run(8)  # loads code and buffers that are needed only once
    network.forward_s = network.backward_s = 0.0
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    start = time.process_time()
    run(n)
    print(memory("VmHWM") - before, network.forward_s, network.backward_s, time.process_time() - start)


def memory(field: str) -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=512, help="pictures in the batch (default 512)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        return child(arguments.child, arguments.n)
    figures = {}
    for name in ("bare", *ATTACKS):
        command = [sys.executable, __file__, "--n", str(arguments.n), "--child", name]
        figures[name] = [
            float(v)
            for v in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        ]
    heads = (
        "attack",
        "peak, MB",
        "relative to the bare loop",
        "forward pass",
        "backward pass",
        "rest of the attack",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for name, (peak, forward, backward, total) in figures.items():
        shares = [forward / total, backward / total, 1 - (forward + backward) / total]
        lines.append(
            f"| {name} | {peak:.0f} | {peak / figures['bare'][0]:.2f} | "
            + " | ".join(f"{s:.0%}" for s in shares)
            + " |"
        )
    table = "\n".join(lines)
    print(table)
    PAGE.write_text(f"""# Memory and distribution of the time

Written by `python benchmarks/bench_memory.py`: one batch of {arguments.n} CIFAR-10 pictures on the adversarially trained network of the
benchmarks, one thread, every attack in its own process. Peak: resident memory while the attack runs, minus the memory before it. The
bare loop computes three gradients of the full batch. The last three columns are shares of CPU time.

{table}
""")


if __name__ == "__main__":
    main()

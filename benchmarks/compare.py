"""Measures our attacks beside foolbox and torchattacks; run by bench_pgd.py in the environment that holds the peers."""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import foolbox
import torch
import torch.nn.functional as F
import torchattacks
from torch import Tensor, nn
from victim import trained

from limen.attacks._run import Attack
from limen.models._model import Classifier
from limen.types import Batch

ROOT = Path(__file__).resolve().parent.parent
STEPS = 40
CLASSES = [str(i) for i in range(10)]


class Traced(nn.Module):
    """Writes down every call: how many samples, and whether gradients came back through it."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network
        self.trace: list[list[int]] = []
        """[samples, backward passes] of each call."""

    def forward(self, x: Tensor) -> Tensor:
        entry = [len(x), 0]
        self.trace.append(entry)
        logits = self.network(x)
        if logits.requires_grad and x.requires_grad:
            logits.register_hook(lambda g: entry.__setitem__(1, entry[1] + 1))
        return logits


def replay(network: nn.Module, x: Tensor, y: Tensor, trace: list[list[int]]) -> None:
    """The bare loop of the same calls: forward, summed cross-entropy, gradient with respect to x; nothing else."""
    for n, backward in trace:
        if not backward:
            with torch.no_grad():
                network(x[:n])
            continue
        leaf = x[:n].detach().requires_grad_()
        loss = F.cross_entropy(network(leaf), y[:n], reduction="sum")
        for k in range(backward):
            torch.autograd.grad(loss, leaf, retain_graph=k + 1 < backward)


def weight(trace: list[list[int]]) -> float:
    """Rough cost, only to scale a part of a trace to the whole: a backward pass costs about 1.3 forward passes."""
    return sum(n * (1 + 1.3 * backward) for n, backward in trace)


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


@dataclass
class Row:
    attack: str
    model: str
    library: str
    asked: list[float] = field(default_factory=list)
    """Time over the bare loop of the calls asked for, one number per repeat."""
    made: list[float] = field(default_factory=list)
    """Time over the bare loop of the calls really made."""
    trace: list[list[int]] = field(default_factory=list)
    calls: str = ""
    strength: str = ""
    grads_left: bool = False

    def cells(self) -> list[str]:
        show = lambda v: f"{statistics.median(v):.2f} ({min(v):.2f}–{max(v):.2f})"  # noqa: E731
        return [self.attack, self.model, self.library, show(self.asked), show(self.made), self.calls, self.strength,
                "yes" if self.grads_left else "no"]  # fmt: skip


Run = Callable[[nn.Module, Tensor, Tensor], Tensor]


def ours(**spec: object) -> Run:
    attack = Attack.parse(spec)

    def run(network: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return attack(Classifier(network, "picture", CLASSES), Batch("picture", [str(i) for i in range(len(x))], x, y)).x_adv

    return run


def foolboxes(attack: object, eps: float | None) -> Run:
    return lambda network, x, y: attack(foolbox.PyTorchModel(network, (0, 1), device="cpu"), x, y, epsilons=eps)[1]  # type: ignore[operator]


def torchattackses(make: Callable[[nn.Module], object]) -> Run:
    return lambda network, x, y: make(network)(x, y)  # type: ignore[operator]


def measure(row: Row, run: Run, network: nn.Module, x: Tensor, y: Tensor, asked: int) -> None:
    """One repeat: bare loops just before and just after the attack, both of the calls asked for and of the calls really made."""
    for p in network.parameters():
        p.grad = None
    if not row.trace:  # a first run, not timed, warms up and says which calls are made
        traced = Traced(network).eval()
        run(traced, x, y)
        row.trace = traced.trace
        row.grads_left = any(p.grad is not None for p in network.parameters())
    made = row.trace
    halves = made[:: max(2, len(made) // 50)], made[1 :: max(2, len(made) // 50)]
    quarter = [[len(x), 1]] * max(1, min(asked // 4, 25))
    bare, same = 0.0, 0.0
    for half in (0, 1):
        bare += seconds(lambda: replay(network, x, y, quarter))
        same += seconds(lambda half=half: replay(network, x, y, halves[half]))
        if half == 0:
            start = time.process_time()
            x_adv = run(network, x, y)
            spent = time.process_time() - start
    row.asked.append(spent / (bare * asked / (2 * len(quarter))))
    row.made.append(spent / (same * weight(made) / weight(halves[0] + halves[1])))
    forward, backward = sum(n for n, _ in made) / len(x), sum(n * b for n, b in made) / len(x)
    row.calls = f"{forward:.1f} / {backward:.1f}"
    with torch.no_grad():
        right = network(x_adv).argmax(1) == y
    sizes = (x_adv - x).flatten(1).norm(dim=1)
    if row.attack.startswith("PGD"):
        row.strength = f"robust {right.float().mean():.1%}"
    else:
        row.strength = f"success {(~right).float().mean():.0%}, L2 median {sizes[~right].median():.3f}, mean {sizes[~right].mean():.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="repeats of the PGD rows; the others run once (default 3)")
    parser.add_argument("--no-write", action="store_true", help="do not write docs/benchmarks.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    started = time.time()
    rows: list[Row] = []
    for robust, label, eps, eps_l2 in ((False, "standard", 0.1, 1.5), (True, "adversarially trained", 0.2, 2.0)):
        data, network, x_all, y_all = trained(robust)
        with torch.no_grad():
            clean = (network(x_all[:2000]).argmax(1) == y_all[:2000]).float().mean()
        print(f"{label}: {data}, clean accuracy {clean:.1%} on 2,000 test pictures", flush=True)
        x, y = x_all[:128], y_all[:128]
        step, step_l2 = 2.5 * eps / STEPS, 2.5 * eps_l2 / STEPS
        pgd = {
            "PGD-linf-40": {
                "limen": ours(name="pgd", steps=STEPS, budget={"name": "linf", "eps": eps}),
                "limen, as the peers": ours(name="pgd", steps=STEPS, early_stop=False, shrink=False, budget={"name": "linf", "eps": eps}),
                "foolbox": foolboxes(foolbox.attacks.LinfPGD(abs_stepsize=step, steps=STEPS), eps),
                "torchattacks": torchattackses(lambda m, e=eps, s=step: torchattacks.PGD(m, eps=e, alpha=s, steps=STEPS)),
            },
            "PGD-l2-40": {
                "limen": ours(name="pgd", steps=STEPS, budget={"name": "l2", "eps": eps_l2}),
                "limen, as the peers": ours(name="pgd", steps=STEPS, early_stop=False, shrink=False, budget={"name": "l2", "eps": eps_l2}),
                "foolbox": foolboxes(foolbox.attacks.L2PGD(abs_stepsize=step_l2, steps=STEPS), eps_l2),
                "torchattacks": torchattackses(lambda m, e=eps_l2, s=step_l2: torchattacks.PGDL2(m, eps=e, alpha=s, steps=STEPS)),
            },
        }  # fmt: skip
        for name, libraries in pgd.items():
            here = [Row(f"{name}, eps {eps if 'linf' in name else eps_l2:g}", label, library) for library in libraries]
            for _ in range(arguments.repeats):
                for row, run in zip(here, libraries.values(), strict=True):
                    measure(row, run, network, x, y, STEPS)
            report(rows, here)
        x, y = x_all[:64], y_all[:64]
        deepfool = {"limen": ours(name="deepfool"), "foolbox": foolboxes(foolbox.attacks.L2DeepFoolAttack(steps=50, candidates=10), None)}
        cw = {"limen": ours(name="cw_l2"), "foolbox": foolboxes(foolbox.attacks.L2CarliniWagnerAttack(steps=100), None)}
        for name, libraries, n, calls in (("DeepFool-l2-50", deepfool, 64, 50), ("C&W-l2 9 x 100", cw, 32, 900)):
            here = [Row(name, label, library) for library in libraries]
            for row, run in zip(here, libraries.values(), strict=True):
                measure(row, run, network, x[:n], y[:n], calls)
            report(rows, here)
    if not arguments.no_write:
        write(rows, data, time.time() - started)


def report(rows: list[Row], new: list[Row]) -> None:
    rows += new
    for row in new:
        print("  ".join(row.cells()), flush=True)


def write(rows: list[Row], data: str, took: float) -> None:
    heads = ["attack", "model", "library", "time / bare, calls asked for", "time / bare, calls made", "forward / backward per image",
             "strength", "leaves p.grad"]  # fmt: skip
    table = ["| " + " | ".join(cells) + " |" for cells in [heads, ["---"] * len(heads), *(row.cells() for row in rows)]]
    (ROOT / "docs" / "benchmarks.md").write_text(
        f"""# Benchmarks

Written by `make bench`; how it is measured stands in `benchmarks/README.md`. Median over the repeats, range in brackets.

Data: {data}; 128 pictures (DeepFool 64, C&W 32). torch {torch.__version__}, foolbox {version("foolbox")}, torchattacks
{version("torchattacks")}, Python {platform.python_version()}, one thread, CPU time; the run took {took / 60:.0f} min.

{chr(10).join(table)}

*Calls asked for*: the bare loop of 40 (DeepFool 50, C&W 900) gradients of the whole batch. *Calls made*: a bare loop that replays
exactly the calls, batch sizes included, that the attack made; what is above 1 is overhead, and 5 % either way is noise.
*limen, as the peers* makes the very steps that they make (`early_stop: false, shrink: false`): compare its strength with theirs. By default
pictures that are fooled leave the batch and steps shrink, from 0.25 eps to nothing. That schedule was chosen on the networks and
pictures of this table (of five tried, all of the same cost), so its lead in strength here is a little flattered; the order was the same
in all four rows.
"""
    )
    print(f"written: docs/benchmarks.md ({took:.0f} s)")


if __name__ == "__main__":
    main()

"""Timing of an attack: CPU time of one thread relative to bare loops of gradients. One loop runs just before and
just after the attack, another one between its calls."""

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Run = Callable[[nn.Module, Tensor, Tensor, int], Tensor]
"""network, pictures, labels, seed -> adversarial pictures."""


class Traced(nn.Module):
    """Records every call: the number of samples and of backward passes. A random share of the calls is repeated
    at once as a bare call, timed separately, so that the machine is equally fast for both."""

    def __init__(self, network: nn.Module, x: Tensor, y: Tensor, share: float):
        super().__init__()
        self.network, self.x, self.y, self.share, self.dice = network, x, y, share, random.Random(0)
        self.trace: list[list[int]] = []
        """[samples, backward passes] of each call."""
        self.part: list[list[int]] = []
        """The calls that were repeated as bare calls."""
        self.bare = 0.0
        """Seconds of these bare calls."""

    def forward(self, x: Tensor) -> Tensor:
        self.repeat()
        entry = [len(x), 0]
        self.trace.append(entry)
        logits = self.network(x)
        if logits.requires_grad and x.requires_grad:
            logits.register_hook(lambda g: entry.__setitem__(1, entry[1] + 1))
        return logits

    def repeat(self) -> None:
        """Repeat the last call as a bare call; its backward passes have been made by now."""
        if self.trace and self.dice.random() < self.share:
            self.part.append(self.trace[-1])
            self.bare += seconds(lambda: replay(self.network, self.x, self.y, self.part[-1:]))


def replay(network: nn.Module, x: Tensor, y: Tensor, trace: list[list[int]]) -> None:
    """The bare loop of the same calls: forward, summed cross-entropy, gradient with respect to x, and
    nothing else."""
    for n, backward in trace:
        if n > len(x):  # several points of each picture at once
            x, y = x.repeat(-(-n // len(x)), 1, 1, 1), y.repeat(-(-n // len(y)))
        if not backward:
            with torch.no_grad():
                network(x[:n])
            continue
        with torch.enable_grad():
            leaf = x[:n].detach().requires_grad_()
            loss = F.cross_entropy(network(leaf), y[:n], reduction="sum")
            for k in range(backward):
                torch.autograd.grad(loss, leaf, retain_graph=k + 1 < backward)


def weight(trace: list[list[int]]) -> float:
    """Rough cost, used only to scale a part of a trace to the full trace: a backward pass costs about 1.3 forward
    passes."""
    return sum(n * (1 + 1.3 * backward) for n, backward in trace)


def seconds(function: Callable[[], object]) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


@dataclass
class Row:
    """One library's attack on one network."""

    attack: str
    network: str
    library: str
    requested: list[float] = field(default_factory=list)
    """Time over the bare loop of the requested calls, one number per repeat."""
    made: list[float] = field(default_factory=list)
    """Time over the bare loop of the calls that were made."""
    calls: str = ""
    fooled: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    """For every picture in every repeat."""
    sizes: Tensor = field(default_factory=lambda: torch.zeros(0))
    """For every picture in every repeat: norm of the change."""
    grads_left: bool = False
    minimal: bool = False
    """Whether the attack searches for the smallest change, so that its norm is compared."""

    @property
    def time(self) -> float:
        return statistics.median(self.requested)

    @property
    def success(self) -> float:
        return float(self.fooled.float().mean())

    @property
    def median(self) -> float:
        """Median norm over all pictures; one that is not fooled counts as infinitely far."""
        return float(torch.where(self.fooled, self.sizes, torch.inf).median())


def measure(
    row: Row,
    run: Run,
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    requested: int,
    norm: float | None,
    reports_success: bool,
) -> None:
    """Measure one repeat. `requested` is a number of gradients; `reports_success`: the library itself reports which
    pictures are fooled, so no pass is added for that.

    The bare loop of the requested calls runs in two halves, before and after the attack; that of the calls
    made, or of a third of them, between these. Every repeat has another seed, the same for all libraries.
    """
    seed = len(row.requested)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    for p in network.parameters():
        p.grad = None
    quarter = [[len(x), 1]] * max(8, min(requested // 4, 25))
    bare = seconds(lambda: replay(network, x, y, quarter))
    traced = Traced(network, x, y, share=1 if requested == 1 else 1 / 3).eval()
    start = time.process_time()
    x_adv = attacked(run, traced, x, y, seed, reports_success)
    spent = time.process_time() - start - traced.bare
    bare += seconds(lambda: replay(network, x, y, quarter))
    traced.repeat()
    made = traced.trace
    row.grads_left = any(p.grad is not None for p in network.parameters())
    row.requested.append(spent / (bare * requested / (2 * len(quarter))))
    row.made.append(spent / (traced.bare * weight(made) / weight(traced.part)))
    forward, backward = sum(n for n, _ in made) / len(x), sum(n * b for n, b in made) / len(x)
    row.calls = f"{forward:.1f} / {backward:.1f}"
    x_adv = x_adv.detach().float()
    with torch.no_grad():
        row.fooled = torch.cat([row.fooled, network(x_adv).argmax(1) != y])
    delta = (x_adv - x).flatten(1)
    sizes = (
        (delta.abs() > 1e-6).sum(1).float()
        if norm == 0
        else delta.norm(p=torch.inf if norm is None else norm, dim=1)
    )
    row.sizes = torch.cat([row.sizes, sizes])


def attacked(run: Run, network: nn.Module, x: Tensor, y: Tensor, seed: int, reports_success: bool) -> Tensor:
    """The result of the attack, with one more forward pass if the library does not report which pictures are
    fooled."""
    x_adv = run(network, x, y, seed)
    if not reports_success:
        with torch.no_grad():
            network(x_adv).argmax(1)
    return x_adv

"""Linear models whose answers are known in closed form, and a small curved one."""

from collections.abc import Callable
from itertools import combinations

import torch
from torch import Tensor, nn

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.run import Attack, Attacked
from limen.budgets.families.balls import L1Ball, L2Ball, LinfBall
from limen.budgets.families.budget import Budget
from limen.core import seeds
from limen.core.options import Options
from limen.core.types import Batch
from limen.goals.base.goal import Goal
from limen.models.base.model import Classifier, Model

DUAL = {"linf": 1.0, "l2": 2.0, "l1": torch.inf}
BALL = {"linf": LinfBall, "l2": L2Ball, "l1": L1Ball}


def linear(
    classes: int = 4, n: int = 6, d: int = 12, seed: int = 0
) -> tuple[Classifier, Batch, Tensor, Tensor]:
    """A linear model in double precision, samples in the middle of the range, its weights (K, d) and the gaps
    (n, K) to every class."""
    draw = torch.Generator().manual_seed(seed)
    layer = nn.Linear(d, classes).double()
    layer.weight.data = torch.randn(classes, d, generator=draw, dtype=torch.float64)
    layer.bias.data = -0.5 * layer.weight.data.sum(1)
    x = 0.5 + 0.03 * torch.randn(n, 1, 1, d, generator=draw, dtype=torch.float64)
    model = Classifier(nn.Sequential(nn.Flatten(), layer), "picture", [str(i) for i in range(classes)])
    with torch.no_grad():
        logits = model(x)
    y = logits.argmax(1)
    return (
        model,
        Batch("picture", [f"s{i}" for i in range(n)], x, y),
        layer.weight.data,
        logits.gather(1, y[:, None]) - logits,
    )


def smallest(weights: Tensor, gaps: Tensor, y: Tensor, dual: float) -> Tensor:
    """(n,) the exact distance to the nearest other class: min over k of gap_k / ||w_k - w_y||_dual."""
    distances = gaps / (weights[None] - weights[y][:, None]).norm(p=dual, dim=2)
    return distances.scatter(1, y[:, None], torch.inf).amin(1)


def some_wrong(n: int, wrong: int) -> tuple[Classifier, Batch, dict[str, object]]:
    """A linear model of four classes, a linf budget that half of the samples are nearer to another class
    than, and the first `wrong` labels false."""
    model, batch, weights, gaps = linear(n=n)
    eps = float(smallest(weights, gaps, batch.y, 1.0).median())
    batch.y[:wrong] = (batch.y[:wrong] + 1) % 4
    return model, batch, {"name": "linf", "eps": eps}


def to_target(weights: Tensor, gaps: Tensor, target: int) -> Tensor:
    """(n,) the exact L2 distance to the region of a class, { d : (w_t - w_k) d >= z_k - z_t for all k }: of
    every set of these constraints the shortest d that meets them as equations; the answer is the one whose
    multipliers are positive and that meets all."""
    others = [k for k in range(len(weights)) if k != target]
    rows, needs = weights[target] - weights[others], gaps[:, [target]] - gaps[:, others]
    exact = torch.where((needs <= 0).all(1), 0, torch.inf)
    for active in (list(s) for r in range(1, len(others) + 1) for s in combinations(range(len(others)), r)):
        multipliers = torch.linalg.solve(rows[active] @ rows[active].T, needs[:, active].T).T
        d = multipliers @ rows[active]
        meets = (multipliers >= 0).all(1) & (d @ rows.T >= needs - 1e-9).all(1)
        exact = torch.where(meets, d.norm(dim=1).minimum(exact), exact)
    return exact


def run(model: Classifier, batch: Batch, **spec: object) -> Attacked:
    attack = Attack.parse(spec)
    attack.craft(model, batch)
    return attack(model, batch)


def curved(classes: int = 4, n: int = 6, seed: int = 0) -> tuple[Classifier, Batch]:
    """A small network in double precision and pictures of two channels."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(2, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(6 * 36, classes)).double()
    x = torch.rand(n, 2, 8, 8, dtype=torch.float64)
    with torch.no_grad():
        return Classifier(network, "picture", [str(i) for i in range(classes)]), Batch(
            "picture", [f"p{i}" for i in range(n)], x, network(x).argmax(1)
        )


def fooled(
    search: Callable[..., Tensor],
    options: Options,
    model: Model,
    batch: Batch,
    ball: Budget,
    goal: Goal | None = None,
) -> Tensor:
    """(B,) bool: who reaches the goal within a ball of his own radius."""
    goal = goal or Goal(batch.y, False)
    x_adv = search(
        Problem(model, batch.x, goal, ball, seeds.generators(0, batch.ids, "attack"), 0.0, 1.0), options
    )
    assert (ball.norm(x_adv - batch.x) <= ball.radius * (1 + 1e-9)).all()
    with torch.no_grad():
        return goal.reached(model(x_adv))


class Trap(Model):
    """Gives the first picture a zero gradient, the second a NaN gradient, of the third logits so
    large that softmax saturates."""

    kind, output, classes = "picture", "class", ["a", "b"]

    def __init__(self, scale: float = 1000.0):
        super().__init__()
        self.scale = scale

    def forward(self, x, lengths=None, generators=None):
        value = x.flatten(1).sum(1)
        flat, broken = x[:, 0, 0, 0] < 0.15, (x[:, 0, 0, 0] > 0.15) & (x[:, 0, 0, 0] < 0.25)
        root = (value - value.detach() + (~broken).to(x)).sqrt()  # of 0: its slope is infinite
        z = torch.where(flat, value * 0 - 1, torch.where(broken, root - 1, self.scale * (value - 4)))
        return torch.stack([-z, z], 1)


class Hears(Model):
    """Says of a classifier that it writes transcripts."""

    kind, output, classes = "picture", "transcript", None

    def __init__(self, model: Model):
        super().__init__()
        self.model = model

    def forward(self, x, lengths=None, generators=None):
        return self.model(x)

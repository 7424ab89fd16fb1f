r"""Rotation and translation of pictures. Engstrom et al. 2019, https://arxiv.org/abs/1712.02779:

    max over (phi, du, dv) of  L( T(x) ),    T: pixel (u, v) goes to ( cos phi u - sin phi v + du,
        sin phi u + cos phi v + dv )

with |phi| <= max_rotation_deg and |du|, |dv| <= max_shift; values between pixels are interpolated, values
from outside of the picture are black.

- grid: every point of a grid, 31 rotations x 5 x 5 shifts in the paper, and the strongest of its three.
- worst_of_k: k points drawn at random.
- first_order: projected gradient steps on the three parameters, from a random start.

Departs from the paper: a sample is finished with the first point that reaches the goal, and the points of the
grid are tried from the mildest to the strongest, so the result is mild; the unchanged picture is always tried
first; the attack raises the margin of the logits; gradient steps are signs of parameters scaled to [-1, 1]
and shrink linearly to nothing. The attack has no L_p budget of its own; if one is given, moved pictures are
projected into it.
"""

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.attacks.engine.options import FORWARD, AttackOptions, LinearPromise
from limen.attacks.engine.problem import Problem, need_classes
from limen.attacks.shared.best import Best
from limen.attacks.shared.score_estimates import scored
from limen.core.errors import UserError
from limen.core.seeds import uniform_like

AT_ONCE = 8
"""Points of one sample that are evaluated together, for any batch size."""


class Spatial(AttackOptions):
    own_limit: ClassVar[bool] = True
    """The largest rotation and shift are options."""
    kinds: ClassVar[tuple[str, ...]] = ("picture",)
    promise: ClassVar[LinearPromise] = LinearPromise(None)
    quick: ClassVar[dict[str, Any]] = {"rotations": 3, "shifts": 3}

    method: Literal["grid", "worst_of_k", "first_order"] = "grid"
    """Search method for rotation and shift."""
    max_rotation_deg: float = Field(default=30.0, ge=0, le=180)
    """Largest rotation to either side."""
    max_shift: float = Field(default=0.1, ge=0, le=1)
    """Largest shift in each direction, as a share of the picture's height or width (the paper: 3 of 28 or 32
    pixels, 24 of 224)."""
    rotations: int = Field(default=31, ge=1)
    """Rotations of the grid, evenly spread."""
    shifts: int = Field(default=5, ge=1)
    """Shifts of the grid in each direction, evenly spread."""
    k: int = Field(default=10, ge=1)
    """Random points of worst_of_k."""
    steps: int = Field(default=40, ge=1)
    """Gradient steps of one run of first_order."""
    restarts: int = Field(default=1, ge=1)
    """Runs of first_order from different random starts; only samples not yet fooled are run again."""
    outside: Literal["zeros", "border", "reflection"] = "zeros"
    """Fill of pixels from outside of the picture: black, the nearest pixel, or the mirrored picture."""

    @property
    def uses_gradients(self) -> bool:
        return self.method == "first_order"

    def cost(self, classes: int | None = None) -> float:
        if self.method == "first_order":
            return self.steps * self.restarts
        return (self.rotations * self.shifts**2 if self.method == "grid" else self.k) * FORWARD


@torch.no_grad()
def spatial(problem: Problem, options: Spatial) -> Tensor:
    need_classes(problem, "spatial")
    if problem.x.dim() != 4:
        raise UserError(
            "The attack spatial turns and shifts pictures, but these samples are clips. Use pgd or "
            "kenansville."
        )
    best = Best.none(problem)
    everyone = torch.arange(len(problem), device=problem.x.device)
    best.take(everyone, problem.x, *problem.evaluate(problem.x, loss=problem.goal.margin))
    if options.method == "first_order":
        for _ in range(options.restarts):
            _climb(problem, options, best)
    else:
        _try_all(problem, options, best)
    return best.x


def _try_all(problem: Problem, options: Spatial, best: Best) -> None:
    """Evaluates the points in order; the result is the first that reaches the goal among those evaluated
    together, or else the one of highest loss."""
    points = _grid(options).to(problem.x).expand(len(problem), -1, -1)
    if options.method == "worst_of_k":
        points = 2 * uniform_like(problem.x.new_zeros(len(problem), options.k, 3), problem.generators) - 1
    for chunk in points.split(AT_ONCE, 1):
        left, n = _left(problem, best), chunk.shape[1]
        if not len(left) or not n:
            return
        active = problem.rows(left)
        many = active.rows(torch.arange(len(left), device=left.device).repeat_interleave(n))
        x_adv = _moved(many, chunk[left].flatten(0, 1), options).view(len(left), n, *problem.x.shape[1:])
        value, reached = scored(active, x_adv)
        order = torch.arange(n, 0, -1, device=left.device).to(value)
        pick = torch.where(reached.any(1), (reached * order).argmax(1), value.argmax(1))
        row = torch.arange(len(left), device=left.device)
        best.take(left, x_adv[row, pick], value[row, pick], reached[row, pick])


def _climb(problem: Problem, options: Spatial, best: Best) -> None:
    """One run of gradient steps on (phi, du, dv), each scaled to [-1, 1]."""
    left = _left(problem, best)
    if not len(left):
        return
    active = problem.rows(left)
    where = 2 * uniform_like(problem.x.new_zeros(len(left), 3), active.generators) - 1
    size = min(1.0, 5 / options.steps)
    for step in range(options.steps):
        gradient, loss, reached = active.gradient(
            where,
            loss=active.goal.margin,
            through=lambda p: _moved(active, p, options),  # noqa: B023
        )
        best.take(left, _moved(active, where, options), loss, reached)
        if problem.deterministic and bool(reached.any()):
            stay = ~reached
            active, left, where, gradient = active.rows(stay), left[stay], where[stay], gradient[stay]
            if not len(left):
                return
        where = (where + size * (1 - step / options.steps) * gradient.sign()).clamp(-1, 1)
    x_adv = _moved(active, where, options)
    best.take(left, x_adv, *active.evaluate(x_adv, loss=active.goal.margin))


def _left(problem: Problem, best: Best) -> Tensor:
    """Samples that are still searched; all if the model draws at random."""
    return (~best.reached | (not problem.deterministic)).nonzero().squeeze(1)


def _grid(options: Spatial) -> Tensor:
    """(P, 3) points of [-1, 1]^3, the mildest first."""
    # not linspace, whose middle is not exactly 0
    turns, shifts = (
        (2 * torch.arange(n, dtype=torch.float64) - (n - 1)) / max(n - 1, 1)
        for n in (options.rotations, options.shifts)
    )
    points = torch.cartesian_prod(turns, shifts, shifts)
    points = points[(points != 0).any(1)]  # the unchanged picture has been evaluated
    return points[points.square().sum(1).argsort(stable=True)]


def _moved(problem: Problem, where: Tensor, options: Spatial) -> Tensor:
    """The clean pictures turned and shifted by `where` (B, 3) in [-1, 1], within budget and range."""
    x = problem.x
    height, width = x.shape[2:]
    angle = where[:, 0, None, None] * (torch.pi * options.max_rotation_deg / 180)
    v, u = (torch.arange(n, device=x.device, dtype=x.dtype) - (n - 1) / 2 for n in (height, width))
    # the source of every pixel: undo the shift, then the rotation
    du, dv = (where[:, k, None, None] * (options.max_shift * n) for k, n in ((1, width), (2, height)))
    u, v = u[None, None] - du, v[None, :, None] - dv
    cos, sin = angle.cos(), angle.sin()
    source = torch.stack([(cos * u + sin * v) * (2 / width), (cos * v - sin * u) * (2 / height)], -1)
    return problem.project(F.grid_sample(x, source, padding_mode=options.outside, align_corners=False))

r"""Steps and projection for L1 budgets in a bounded range. Croce & Hein 2021,
https://arxiv.org/abs/2103.01208:

    x + delta projected onto { ||delta||_1 <= eps } and { low <= x + delta <= high } at once:
        delta_i = sign(d_i) * min( max( |d_i| - theta, 0 ), room_i ),
            theta >= 0 the smallest with ||delta||_1 <= eps

room_i is how far coordinate i can go before it leaves the range. Projecting onto one and then onto the other
gives a point well inside both, because the change cut off by the range is not given to other coordinates.
"""

import itertools

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.budgets.families.balls import L0Ball, expand


def project_l1(active: Problem, x_adv: Tensor) -> Tensor:
    """The nearest allowed point of an L1 budget, exactly."""
    flat = (x_adv - active.x).flatten(1)
    size = flat.abs()
    # largest movement of each coordinate: its own change, or to the end of the range
    room = (active.clip(x_adv) - active.x).flatten(1).abs().minimum(size)
    theta = _threshold(size, room, active.ball.radius[:, None])
    return active.clip(active.x + (flat.sign() * (size - theta).clamp_min_(0).minimum(room)).view_as(x_adv))


def _threshold(size: Tensor, room: Tensor, radius: Tensor) -> Tensor:
    """(B, 1) theta. The norm is piecewise linear in theta, with the number of coordinates strictly between 0
    and their room as slope, so Newton's method reaches the radius in a few iterations, without a sort.
    Iterates stay between a theta that is too small and one that is large enough; if a step would leave this
    interval, and in every eighth iteration, its middle is used, which guarantees fast convergence."""
    low, high = torch.zeros_like(radius), size.amax(1, keepdim=True)
    theta, close = low, 8 * torch.finfo(size.dtype).eps * radius
    shrunk, kept, moving = (torch.empty_like(size) for _ in range(3))
    for step in itertools.count(1):
        torch.minimum(torch.sub(size, theta, out=shrunk).clamp_min_(0), room, out=kept)
        excess = kept.sum(1, keepdim=True) - radius
        low, high = torch.where(excess > 0, theta, low), torch.where(excess > 0, high, theta)
        done = (excess.abs() <= close) | (high == 0)
        newton = theta + excess / torch.eq(kept, shrunk, out=moving).mul_(kept.sign()).sum(1, keepdim=True)
        fits = (newton > low) & (newton < high) & (step % 8 > 0)
        following = torch.where(done, theta, torch.where(fits, newton, (low + high) / 2))
        if bool((following == theta).all()):  # the floating-point numbers between the two are exhausted
            break
        theta = following
    return torch.where(done, theta, high)


def steepest(gradient: Tensor, count: Tensor, size: Tensor) -> Tensor:
    """A change of L1 norm `size` (B,), spread evenly over the `count` (B,) steepest coordinates."""
    signs = L0Ball(count).project(gradient).sign_()
    return signs.mul_(expand(size / signs.flatten(1).abs().sum(1).clamp_min(1), signs))

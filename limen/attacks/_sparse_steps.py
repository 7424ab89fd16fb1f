r"""Steps and projection for L1 budgets in a bounded range. Croce & Hein 2021, https://arxiv.org/abs/2103.01208:

    x + delta projected onto { ||delta||_1 <= eps } and { low <= x + delta <= high } at once:
        delta_i = sign(d_i) * min( max( |d_i| - theta, 0 ), room_i ),    theta >= 0 the smallest with ||delta||_1 <= eps

room_i is how far coordinate i can go before it leaves the range. Projecting onto the one and then onto the other ends well inside both:
what the range cuts off is lost instead of being given to other coordinates.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from limen.attacks._problem import Problem
from limen.budgets._balls import L0Ball, expand


def project_l1(active: Problem, x_adv: Tensor) -> Tensor:
    """The nearest allowed point of an L1 budget, exactly."""
    flat = (x_adv - active.x).flatten(1)
    size = flat.abs()
    # how far each coordinate could go at most: as far as it wants to, or to the end of the range
    room = (active.clip(x_adv) - active.x).flatten(1).abs().minimum(size)

    def threshold(top: Tensor, where: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        theta = _threshold(top, room[rows].gather(1, where), active.ball.radius[rows, None])
        return theta, (theta >= top[:, -1:]).squeeze(1)  # what is smaller than all of these is gone anyway

    theta = _from_largest(size, threshold)
    return active.clip(active.x + (flat.sign() * (size - theta).clamp_min(0).minimum(room)).view_as(x_adv))


def _from_largest(size: Tensor, threshold: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
    """(B, 1) a number per row of `size` (B, n) that in most rows hangs on the few largest entries alone, so that not all need be sorted.

    `threshold` gets the largest entries of some rows in falling order, where they stand, and the row numbers; it gives the numbers, and
    whether they are final (B,). Rows that are not come again with four times as many entries."""
    found, rows, k = size.new_empty(len(size), 1), torch.arange(len(size), device=size.device), 64
    while len(rows):
        left = size if len(rows) == len(size) else size[rows]
        top, where = left.topk(k) if k < size.shape[1] else left.sort(dim=1, descending=True)
        found[rows], final = threshold(top, where, rows)
        rows, k = rows[~final] if k < size.shape[1] else rows[:0], 4 * k
    return found


def _threshold(size: Tensor, room: Tensor, radius: Tensor) -> Tensor:
    """(B, 1) the theta of these coordinates. The norm as a function of it is piecewise linear: one more coordinate shrinks below each
    |d_i|, one less below |d_i| - room_i."""
    bends, order = torch.cat([size, size - room], 1).sort(dim=1, descending=True)
    slopes = torch.where(order < size.shape[1], 1, -1).cumsum(1).to(size.dtype)
    drops = bends - torch.cat([bends[:, 1:], torch.zeros_like(bends[:, :1])], 1)
    norms = (slopes * drops).cumsum(1)  # at the next bend; at theta = 0 in the last column
    first = (norms <= radius).sum(1, keepdim=True).clamp_max(norms.shape[1] - 1)  # it passes the radius before the bend after this one
    theta = bends.gather(1, first) - (radius - (norms - slopes * drops).gather(1, first)) / slopes.gather(1, first).clamp_min(1)
    return torch.where(norms[:, -1:] <= radius, 0, theta.clamp_min(0))


def steepest(gradient: Tensor, count: Tensor, size: Tensor) -> Tensor:
    """A change of L1 norm `size` (B,), spread evenly over the `count` (B,) steepest coordinates."""
    signs = L0Ball(count).project(gradient).sign_()
    return signs.mul_(expand(size / signs.flatten(1).abs().sum(1).clamp_min(1), signs))

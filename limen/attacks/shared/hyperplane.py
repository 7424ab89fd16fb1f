r"""The smallest change within the range that meets a hyperplane, in closed form.

    minimise ||d||_p    subject to    <w, d> = r,    low <= t + d <= high

Every coordinate moves along sign(r * w), by m_i <= room_i, its distance to the end of the range, and gains
|w_i| * m_i. Optimality leaves one unknown:

    m_i = min( lambda * |w_i|, room_i )     l2
    m_i = min( lambda, room_i )             linf
    m_i = room_i in the order of falling |w_i|, the last one partly    l1

The gain is a concave, piecewise linear function of lambda, so Newton's method from lambda = 0 reaches the
exact answer in a few iterations without a sort; l1 needs a sort and a running sum. If the range is too small
to reach r, every coordinate moves to its end.
"""

import torch
from torch import Tensor


def onto_hyperplane(
    t: Tensor, w: Tensor, r: Tensor, low: Tensor | float, high: Tensor | float, norm: str
) -> Tensor:
    """(..., n) points, normals, lower and upper ends, (...) what <w, d> must be -> (..., n) d."""
    direction = w.sign() * r.sign()[..., None]
    # sums and products throughout: torch.where takes twenty times as long as a multiplication
    room = ((low + high) / 2 - t).mul_(direction).add_((high - low) / 2)
    slope, need = w.abs(), r.abs()[..., None]
    if norm == "l1":
        return direction.mul_(_greedily(slope.expand_as(room), room, need))
    return direction.mul_(_together(slope, room, need, norm))


def _together(slope: Tensor, room: Tensor, need: Tensor, norm: str) -> Tensor:
    """Overwrites `room` and reuses one buffer for everything else, because allocating memory would cost more
    than the sums."""
    l2, largest = norm == "l2", torch.finfo(slope.dtype).max  # not infinity, because infinity times 0 is NaN
    rounding = 64 * torch.finfo(slope.dtype).eps  # relative rounding error of a sum
    rate, work = slope.square() if l2 else slope, torch.empty_like(room)
    scale = (need / rate.sum(-1, keepdim=True)).nan_to_num_(
        0.0, largest
    )  # as if no coordinate were bounded: never beyond the answer

    def moved() -> Tensor:
        """The movements if no coordinate were bounded."""
        return torch.mul(scale, slope, out=work) if l2 else scale

    while True:
        missing = need - torch.minimum(room, moved(), out=work).mul_(slope).sum(-1, keepdim=True)
        climbs = (missing > rounding * need) & (scale < largest)  # false for NaN, too
        if not bool(climbs.any()):
            return torch.minimum(room, moved(), out=room)  # linf: where the slope is 0, so is the direction
        # as if the coordinates not yet at their ends were unbounded: never beyond the answer, because they
        # are bounded
        further = missing / torch.gt(room, moved(), out=work).mul_(rate).sum(-1, keepdim=True)
        # converged rows stay fixed: further iterations for other rows must not move them by a rounding error
        scale = torch.where(climbs, (scale + further).clamp_max_(largest), scale)


def _greedily(slope: Tensor, room: Tensor, need: Tensor) -> Tensor:
    steepest, order = slope.sort(dim=-1, descending=True)
    gains = steepest * room.gather(-1, order)
    before = gains.cumsum(-1) - gains
    moves = torch.where(
        steepest > 0, (need - before).clamp_min(0) / torch.where(steepest > 0, steepest, 1), 0
    )
    return torch.zeros_like(room).scatter_(-1, order, torch.minimum(moves, room.gather(-1, order)))

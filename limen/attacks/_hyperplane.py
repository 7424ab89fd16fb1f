r"""The smallest change within the range that meets a hyperplane, in closed form.

    minimise ||d||_p    subject to    <w, d> = r,    low <= t + d <= high

Every coordinate moves along sign(r * w), by m_i of the room_i it has, and gains |w_i| * m_i. Optimality leaves one unknown:

    m_i = min( lambda * |w_i|, room_i )     l2
    m_i = min( lambda, room_i )             linf
    m_i = room_i in the order of falling |w_i|, the last one partly    l1

so that a sort and a running sum give it exactly. Where all the room does not suffice, all of it is used.
"""

import torch
from torch import Tensor


def onto_hyperplane(t: Tensor, w: Tensor, r: Tensor, low: Tensor, high: Tensor, norm: str) -> Tensor:
    """(B, n) points, normals, lower and upper ends, (B,) what <w, d> must be -> (B, n) d."""
    direction = w.sign() * r.sign()[:, None]
    room = torch.where(direction > 0, high - t, t - low) * direction.abs()
    slope, need = w.abs(), r.abs()[:, None]
    return direction * (_greedily(slope, room, need) if norm == "l1" else _together(slope, room, need, norm))


def _together(slope: Tensor, room: Tensor, need: Tensor, norm: str) -> Tensor:
    pace = slope if norm == "l2" else (slope > 0).to(slope)
    full = torch.where(pace > 0, room / pace, torch.inf)  # the lambda at which a coordinate has used its room
    full, order = full.sort(dim=1)
    used = (slope * room).gather(1, order).cumsum(1)
    # what those that still move gain per lambda; summed from the end, because the difference of two sums would lose the small ones
    moving = (slope * pace).gather(1, order).flip(1).cumsum(1).flip(1)
    before = used - (slope * room).gather(1, order)
    gain = before + torch.where(moving > 0, full * moving, 0)  # at the lambda where coordinate k has just used its room
    k = torch.searchsorted(gain.cummax(1).values, need).clamp_max(slope.shape[1] - 1)
    left, rate = need - before.gather(1, k), moving.gather(1, k)
    scale = torch.where(rate > 0, left / torch.where(rate > 0, rate, 1), torch.inf).clamp_min(0)
    return torch.minimum(torch.where(pace > 0, scale * pace, 0), room)


def _greedily(slope: Tensor, room: Tensor, need: Tensor) -> Tensor:
    steepest, order = slope.sort(dim=1, descending=True)
    gains = steepest * room.gather(1, order)
    before = gains.cumsum(1) - gains
    moves = torch.where(steepest > 0, (need - before).clamp_min(0) / torch.where(steepest > 0, steepest, 1), 0)
    return torch.zeros_like(slope).scatter_(1, order, torch.minimum(moves, room.gather(1, order)))

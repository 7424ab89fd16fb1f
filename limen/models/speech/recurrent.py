r"""Bidirectional recurrent layers for packed clips, with gradients written by hand.

Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000, and Cho et al. 2014,
https://arxiv.org/abs/1406.1078, as in torch:
    LSTM: c_t = f * c_{t-1} + i * g,  h_t = o * tanh(c_t)
        i, f, o = sigmoid(.), g = tanh(W x_t + U h_{t-1} + b)
    GRU:  h_t = (1 - z) * n + z * h_{t-1},  n = tanh(W x_t + b + r * (U h_{t-1} + b'))
Departs from torch's layers, which compute padding, iterate over the frames once per direction and store a
graph node for every operation of every frame. Here each step is one matrix product and a few operations for
both directions of all clips, forwards and backwards.

In single precision the outputs for a clip are bitwise equal in any batch. Matrix products of very few rows
use another algorithm of the library, so there are always at least four rows.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from limen.core.torchscript import scripted

FEWEST_ROWS = 4


class Order:
    """The order in which the frames of packed clips are read: from the first in one direction, from the
    last in the other."""

    @staticmethod
    def of(frames: list[int], like: Tensor) -> "Order":
        """The order for these clips, cached because every step of a search uses the same ones."""
        return _order(tuple(frames), FEWEST_ROWS if like.dtype == torch.float32 else 1, like.device)

    def __init__(self, frames: tuple[int, ...], fewest: int, device: torch.device):
        clips = max(len(frames), fewest)
        own = torch.tensor([*frames, *[frames[-1]] * (clips - len(frames))])
        begin = torch.tensor(
            [sum(frames[:b]) for b in range(len(frames))] + [sum(frames[:-1])] * (clips - len(frames))
        )
        step = torch.arange(max(frames))[:, None]
        # after its end a clip reads its last frame again; the results are not used, so they have no gradient
        read = torch.stack([begin + step.minimum(own - 1), begin + (own - 1 - step).clamp_min(0)], 1)
        self.steps, self.clips = len(step), clips
        self.read = (2 * read + torch.arange(2)[:, None]).flatten().to(device)
        """(steps * 2 * clips,) row among the (frames * 2) of frames and directions, for each step,
        direction and clip."""
        place = torch.arange(len(self.read)).view(self.steps, 2, clips)
        rows = [torch.stack([place[:n, 0, b], place[:n, 1, b].flip(0)], 1) for b, n in enumerate(frames)]
        self.written = torch.cat(rows).flatten().to(device)
        """(frames * 2,) the inverse of `read`."""

    def steps_of(self, rows: Tensor) -> Tensor:
        """Rows (N, 2, D) of frames and directions to steps (steps, 2, clips, D), in new memory."""
        return rows.flatten(0, 1).index_select(0, self.read).view(self.steps, 2, self.clips, -1)

    def rows_of(self, steps: Tensor) -> Tensor:
        """Steps (steps, 2, clips, D) to rows (N, 2, D)."""
        return steps.view(-1, steps.shape[-1]).index_select(0, self.written).view(-1, 2, steps.shape[-1])

    def slopes_of(self, rows: Tensor) -> Tensor:
        """Gradients with respect to rows (N, 2, D), as those with respect to steps (steps, 2, clips, D):
        zero for steps without a row."""
        slopes = rows.new_zeros(self.steps * 2 * self.clips, rows.shape[-1])
        return slopes.index_copy_(0, self.written, rows.flatten(0, 1)).view(self.steps, 2, self.clips, -1)


_order = lru_cache(maxsize=64)(Order)


def both_ways(x: Tensor, order: Order, layers: Sequence[Sequence[Tensor]]) -> Tensor:
    """A bidirectional layer: packed clips (N, D) to states (N, 2 H). `layers` holds, for each direction,
    the input and recurrent weights and the two biases in torch's order; the weights have four rows per
    unit for an LSTM and three for a GRU."""
    inputs, hidden, bias, hidden_bias = (torch.stack(pair) for pair in zip(*layers, strict=True))
    kind = _Lstm if hidden.shape[1] == 4 * hidden.shape[2] else _Gru
    if kind is _Lstm:
        bias = bias + hidden_bias
    gates = torch.nn.functional.linear(x, inputs.flatten(0, 1), bias.flatten()).view(len(x), 2, -1)
    return kind.apply(gates, hidden, hidden_bias[:, None], order).flatten(1)


class _Lstm(torch.autograd.Function):
    """Inputs of the gates (N, 2, 4 H), without their recurrent part, and recurrent weights (2, 4 H, H), to
    states (N, 2, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, _: Tensor, order: Order) -> Tensor:
        n, steps = weight.shape[2], order.steps_of(gates)
        state, cell = (steps.new_zeros(order.steps + 1, 2, order.clips, n) for _ in range(2))
        cell_tanh = torch.empty_like(cell[1:])
        _lstm_ahead(steps, weight, state, cell, cell_tanh)
        ctx.save_for_backward(steps, weight, state, cell, cell_tanh)
        ctx.order = order
        return order.rows_of(state[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        (steps, weight, state, cell, cell_tanh), order, n = (
            ctx.saved_tensors,
            ctx.order,
            ctx.saved_tensors[1].shape[2],
        )
        i, f, g, o = steps.split(n, 3)
        # derivative of the cell (for the output gate, of the state) by each gate's input, for all steps
        slopes = torch.cat(
            [g * i * (1 - i), cell[:-1] * f * (1 - f), i * (1 - g * g), cell_tanh * o * (1 - o)], 3
        )
        by_cell, by_state = o * (1 - cell_tanh * cell_tanh), order.slopes_of(gradient)
        _lstm_back(slopes, by_cell, by_state, f, weight)
        return (
            order.rows_of(slopes),
            _by_weight(slopes, state) if ctx.needs_input_grad[1] else None,
            None,
            None,
        )


class _Gru(torch.autograd.Function):
    """Inputs of the gates (N, 2, 3 H), without their recurrent part, recurrent weights (2, 3 H, H) and
    biases (2, 1, 3 H), to states (N, 2, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, order: Order) -> Tensor:
        n, steps = weight.shape[2], order.steps_of(gates)
        state, recurrent = steps.new_zeros(order.steps + 1, 2, order.clips, n), torch.empty_like(steps)
        _gru_ahead(steps, weight, bias, state, recurrent)
        ctx.save_for_backward(steps, weight, state, recurrent)
        ctx.order = order
        return order.rows_of(state[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        (steps, weight, state, recurrent), order, n = (
            ctx.saved_tensors,
            ctx.order,
            ctx.saved_tensors[1].shape[2],
        )
        r, z, new = steps.split(n, 3)
        # derivative of the state by each gate's input, for all steps at once
        by_new = (1 - z) * (1 - new * new)
        by_reset, by_update = by_new * recurrent[..., 2 * n :] * r * (1 - r), (state[:-1] - new) * z * (1 - z)
        slopes = torch.cat([by_reset, by_update, by_new * r], 3)
        d_states = order.slopes_of(gradient)
        _gru_back(slopes, d_states, z, weight)
        by_weight = _by_weight(slopes, state) if ctx.needs_input_grad[1] else None
        by_bias = slopes.sum((0, 2))[:, None] if ctx.needs_input_grad[2] else None
        by_input = torch.cat([slopes[..., : 2 * n], d_states * by_new], 3)
        return order.rows_of(by_input), by_weight, by_bias, None


def _by_weight(slopes: Tensor, state: Tensor) -> Tensor:
    """Gradient (2, G, H) with respect to the recurrent weights, over all steps and clips."""
    return slopes.transpose(0, 1).flatten(1, 2).mT @ state[:-1].transpose(0, 1).flatten(1, 2)


@scripted
def _lstm_ahead(steps: Tensor, weight: Tensor, state: Tensor, cell: Tensor, cell_tanh: Tensor) -> None:
    """LSTM forward pass in place: `steps` (steps, 2, clips, 4 H) hold the input part of the gates before,
    and the gates after."""
    n, back = weight.size(2), weight.transpose(1, 2)
    for t in range(steps.size(0)):
        gates = steps[t].baddbmm_(state[t], back)
        gates[..., : 2 * n].sigmoid_()
        g, o, c = gates[..., 2 * n : 3 * n].tanh_(), gates[..., 3 * n :].sigmoid_(), cell[t + 1]
        torch.mul(gates[..., n : 2 * n], cell[t], out=c)
        c.addcmul_(gates[..., :n], g)
        torch.mul(o, torch.tanh(c, out=cell_tanh[t]), out=state[t + 1])


@scripted
def _lstm_back(slopes: Tensor, by_cell: Tensor, by_state: Tensor, forget: Tensor, weight: Tensor) -> None:
    """LSTM backward pass in place: `slopes` (steps, 2, clips, 4 H) become the gradients with respect to
    the gates' inputs."""
    n, d_cell, last = weight.size(2), torch.zeros_like(by_cell[0]), slopes.size(0) - 1
    for k in range(last + 1):
        t = last - k
        d_state, slope = by_state[t], slopes[t]
        if k > 0:
            d_state.baddbmm_(slopes[t + 1], weight)
        d_cell.addcmul_(d_state, by_cell[t])
        slope.unflatten(2, [4, n])[:, :, :3].mul_(d_cell.unsqueeze(2))
        slope[..., 3 * n :].mul_(d_state)
        d_cell.mul_(forget[t])


@scripted
def _gru_ahead(steps: Tensor, weight: Tensor, bias: Tensor, state: Tensor, recurrent: Tensor) -> None:
    """GRU forward pass in place: `steps` (steps, 2, clips, 3 H) hold the input part of the gates before,
    and the gates after."""
    n, back = weight.size(2), weight.transpose(1, 2)
    for t in range(steps.size(0)):
        h, gates, recurrent_part = state[t], steps[t], torch.baddbmm(bias, state[t], back, out=recurrent[t])
        both = gates[..., : 2 * n].add_(recurrent_part[..., : 2 * n]).sigmoid_()
        new = gates[..., 2 * n :].addcmul_(both[..., :n], recurrent_part[..., 2 * n :]).tanh_()
        torch.lerp(new, h, both[..., n:], out=state[t + 1])


@scripted
def _gru_back(slopes: Tensor, by_state: Tensor, update: Tensor, weight: Tensor) -> None:
    """GRU backward pass in place: `slopes` (steps, 2, clips, 3 H) become the gradients with respect to the
    recurrent part of the gates, and `by_state` those with respect to the states."""
    n, last = weight.size(2), slopes.size(0) - 1
    for k in range(last + 1):
        t = last - k
        d_state, slope = by_state[t], slopes[t]
        if k > 0:
            d_state.addcmul_(by_state[t + 1], update[t + 1]).baddbmm_(slopes[t + 1], weight)
        slope.unflatten(2, [3, n]).mul_(d_state.unsqueeze(2))

r"""Recurrent layers that read clips in both directions at once, with gradients by hand.

Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000, and Cho et al. 2014, https://arxiv.org/abs/1406.1078, as in torch:
    LSTM: c_t = f * c_{t-1} + i * g,  h_t = o * tanh(c_t)                  i, f, o = sigmoid(.), g = tanh(W x_t + U h_{t-1} + b)
    GRU:  h_t = (1 - z) * n + z * h_{t-1},  n = tanh(W x_t + b + r * (U h_{t-1} + b'))
Departs from torch's layers: they compute padding, go through the frames once per direction and keep a node of the graph for every
operation of every frame. Here a frame costs one matrix product and a few operations for both directions of all clips, forwards and
backwards: a single clip takes half of torch's time, a batch of eight a third.

In single precision a clip gets, bit for bit, what it gets alone. A matrix product of a few rows goes another way through the library than
one of more, so there are always at least four.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

FEWEST_ROWS = 4


class Order:
    """Where the frames of clips that lie end to end are read: by one direction from the first on, by the other from the last on."""

    def __init__(self, frames: list[int], like: Tensor):
        clips = max(len(frames), FEWEST_ROWS) if like.dtype == torch.float32 else len(frames)
        own = torch.tensor([*frames, *[frames[-1]] * (clips - len(frames))])
        begin = torch.tensor([sum(frames[:b]) for b in range(len(frames))] + [sum(frames[:-1])] * (clips - len(frames)))
        step = torch.arange(max(frames))[:, None]
        # after its end a clip reads a frame of its own again: nobody asks what comes of it, so no gradient comes back either
        read = torch.stack([begin + step.minimum(own - 1), begin + (own - 1 - step).clamp_min(0)], 1)
        self.steps, self.clips = len(step), clips
        self.read = (2 * read + torch.arange(2)[:, None]).flatten().to(like.device)
        """(steps * 2 * clips,) for each step, direction and clip its row among the (frames * 2) of frames and directions."""
        place = torch.arange(len(self.read)).view(self.steps, 2, clips)
        rows = [torch.stack([place[:n, 0, b], place[:n, 1, b].flip(0)], 1) for b, n in enumerate(frames)]
        self.written = torch.cat(rows).flatten().to(like.device)
        """(frames * 2,) the other way round."""

    def steps_of(self, rows: Tensor) -> Tensor:
        """(N, 2, D) of frames and directions -> (steps, 2, clips, D), in fresh memory."""
        return rows.flatten(0, 1).index_select(0, self.read).view(self.steps, 2, self.clips, -1)

    def rows_of(self, steps: Tensor) -> Tensor:
        """(steps, 2, clips, D) -> (N, 2, D)."""
        return steps.view(-1, steps.shape[-1]).index_select(0, self.written).view(-1, 2, steps.shape[-1])

    def slopes_of(self, rows: Tensor) -> Tensor:
        """Gradients by rows (N, 2, D) -> by steps (steps, 2, clips, D): zero where nobody asks."""
        slopes = rows.new_zeros(self.steps * 2 * self.clips, rows.shape[-1])
        return slopes.index_copy_(0, self.written, rows.flatten(0, 1)).view(self.steps, 2, self.clips, -1)


def both_ways(x: Tensor, order: Order, layers: Sequence[Sequence[Tensor]]) -> Tensor:
    """(N, D), clips end to end -> (N, 2 H). `layers`: of each direction the input and recurrent weights and the two biases, as torch keeps
    them; those of an LSTM have four rows for each unit, those of a GRU three."""
    inputs, hidden, bias, hidden_bias = (torch.stack(pair) for pair in zip(*layers, strict=True))
    kind = _Lstm if hidden.shape[1] == 4 * hidden.shape[2] else _Gru
    if kind is _Lstm:
        bias = bias + hidden_bias
    gates = torch.nn.functional.linear(x, inputs.flatten(0, 1), bias.flatten()).view(len(x), 2, -1)
    return kind.apply(gates, hidden, hidden_bias[:, None], order).flatten(1)


class _Lstm(torch.autograd.Function):
    """What the inputs give to the gates (N, 2, 4 H) and recurrent weights (2, 4 H, H) -> states (N, 2, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, _: Tensor, order: Order) -> Tensor:
        n, steps = weight.shape[2], order.steps_of(gates)
        state, cell = (steps.new_zeros(order.steps + 1, 2, order.clips, n) for _ in range(2))
        bent = torch.empty_like(cell[1:])
        back, views = weight.mT, zip(steps, steps[..., : 2 * n], *steps.split(n, 3), state, state[1:], cell, cell[1:], bent, strict=False)
        for gate, in_forget, i, f, g, o, h, h_next, c, c_next, tanh in views:
            gate.baddbmm_(h, back)
            in_forget.sigmoid_()
            torch.mul(f, c, out=c_next).addcmul_(i, g.tanh_())
            torch.mul(o.sigmoid_(), torch.tanh(c_next, out=tanh), out=h_next)
        ctx.save_for_backward(steps, weight, state, cell, bent)
        ctx.order = order
        return order.rows_of(state[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        (steps, weight, state, cell, bent), order, n = ctx.saved_tensors, ctx.order, ctx.saved_tensors[1].shape[2]
        i, f, g, o = steps.split(n, 3)
        # what each gate's input changes in the cell (the output gate: in the state), for all steps at once
        slopes = torch.cat([g * i * (1 - i), cell[:-1] * f * (1 - f), i * (1 - g * g), bent * o * (1 - o)], 3)
        by_cell, by_state = o * (1 - bent * bent), order.slopes_of(gradient)
        by_three, by_out = slopes.view(*slopes.shape[:3], 4, n).split([3, 1], 3)
        views = zip(slopes, by_three, by_out[..., 0, :], by_cell, by_state, f, strict=True)
        d_cell, later = torch.zeros_like(by_cell[0]), None
        for slope, three, out, through, d_state, forget in reversed(list(views)):
            if later is not None:
                d_state.baddbmm_(later, weight)
            d_cell.addcmul_(d_state, through)
            three.mul_(d_cell[:, :, None])
            out.mul_(d_state)
            d_cell.mul_(forget)
            later = slope
        return order.rows_of(slopes), _by_weight(slopes, state) if ctx.needs_input_grad[1] else None, None, None


class _Gru(torch.autograd.Function):
    """What the inputs give to the gates (N, 2, 3 H), recurrent weights (2, 3 H, H) and biases (2, 1, 3 H) -> states (N, 2, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, order: Order) -> Tensor:
        n, steps = weight.shape[2], order.steps_of(gates)
        state, recalled = steps.new_zeros(order.steps + 1, 2, order.clips, n), torch.empty_like(steps)
        r, z, new = steps.split(n, 3)
        back, views = weight.mT, zip(steps[..., : 2 * n], r, z, new, recalled, recalled[..., : 2 * n], recalled[..., 2 * n :],
                                     state, state[1:], strict=False)  # fmt: skip
        for both, reset, update, fresh, recall, recall_both, recall_new, h, h_next in views:
            torch.baddbmm(bias, h, back, out=recall)
            both.add_(recall_both).sigmoid_()
            torch.lerp(fresh.addcmul_(reset, recall_new).tanh_(), h, update, out=h_next)
        ctx.save_for_backward(steps, weight, state, recalled)
        ctx.order = order
        return order.rows_of(state[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None, None]:
        (steps, weight, state, recalled), order, n = ctx.saved_tensors, ctx.order, ctx.saved_tensors[1].shape[2]
        r, z, new = steps.split(n, 3)
        # what each gate's input changes in the state, for all steps at once
        by_new = (1 - z) * (1 - new * new)
        by_reset, by_update = by_new * recalled[..., 2 * n :] * r * (1 - r), (state[:-1] - new) * z * (1 - z)
        slopes = torch.cat([by_reset, by_update, by_new * r], 3)
        d_states, later = order.slopes_of(gradient), None
        views = zip(slopes, slopes.view(*slopes.shape[:3], 3, n), d_states, z, strict=True)
        for slope, three, d_state, update in reversed(list(views)):
            if later is not None:
                d_state.addcmul_(*later[:2]).baddbmm_(later[2], weight)
            three.mul_(d_state[:, :, None])
            later = d_state, update, slope
        by_weight = _by_weight(slopes, state) if ctx.needs_input_grad[1] else None
        by_bias = slopes.sum((0, 2))[:, None] if ctx.needs_input_grad[2] else None
        by_input = torch.cat([slopes[..., : 2 * n], d_states * by_new], 3)
        return order.rows_of(by_input), by_weight, by_bias, None


def _by_weight(slopes: Tensor, state: Tensor) -> Tensor:
    """(2, G, H): the gradient by recurrent weights, of all steps and clips."""
    return slopes.transpose(0, 1).flatten(1, 2).mT @ state[:-1].transpose(0, 1).flatten(1, 2)

r"""The vocal part of a clip and the background around it. Vadillo & Santana 2022,
https://arxiv.org/abs/2001.08444, equation 13:

    sum_{i=a}^{b} x_i^2 / sum_i x_i^2 ~ 0.95

The paper does not specify which of the many such segments is meant; here it is the shortest with at least 95
%, the first of equals.
"""

import torch
from torch import Tensor

SHARE = 0.95


def vocal_part(x: Tensor, lengths: Tensor | None = None, share: float = SHARE) -> Tensor:
    """(B, T) -> (B, 2): first sample of the vocal part and one past its last; (0, 0) for digital silence.

    With E[k] the energy of the first k samples, the shortest segment from a ends at the first b with E[b] >=
    E[a] + share E[T]: one binary search per start, all starts at once.
    """
    energy = x.detach().double().square()
    if lengths is not None:
        energy = energy * (torch.arange(x.shape[-1], device=x.device) < lengths.to(x.device)[:, None])
    cumulative = torch.nn.functional.pad(energy.cumsum(-1), (1, 0))
    total = cumulative[:, -1:]
    start = cumulative[:, :-1].contiguous()
    end = torch.searchsorted(cumulative, start + share * total)
    size = torch.where(end <= x.shape[-1], end - torch.arange(x.shape[-1], device=x.device), x.shape[-1] + 1)
    shortest, first = size.min(-1)
    part = torch.stack([first, first + shortest], -1)
    return torch.where(total > 0, part, 0)


def vocal_mask(x: Tensor, lengths: Tensor | None = None, share: float = SHARE) -> Tensor:
    """(B, T) bool: True in the vocal part, False in the background and in padding."""
    part = vocal_part(x, lengths, share)
    t = torch.arange(x.shape[-1], device=x.device)
    return (t >= part[:, :1]) & (t < part[:, 1:])

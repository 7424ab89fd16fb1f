r"""Losses that attacks on classifiers maximise: each is a function of (logits, goal) with one value per
sample.

z_(1) >= z_(2) >= ... are the logits in falling order, y the class to leave, t the class to reach; margin is
the goal's own, positive where it is reached. Difference of logits ratio, Croce & Hein 2020,
https://arxiv.org/abs/2003.01690:

    dlr                 ( max_{i != y} z_i - z_y ) / ( z_(1) - z_(3) )
        untargeted: margin / ...
                        ( z_t - max_{i != t} z_i ) / ( z_(1) - (z_(3) + z_(4)) / 2 )    targeted: margin / ...
    dlr_towards(t)      ( z_t - z_y ) / ( z_(1) - (z_(3) + z_(4)) / 2 )
        untargeted, led towards the class t

It does not saturate: logits twice as large give the same loss. With three classes (z_(2) + z_(3)) / 2
replaces (z_(3) + z_(4)) / 2. With two classes any such ratio is constant, so the loss is the numerator alone.

    soft                margin,
        with the gradient of T log sum_{i != y} exp(z_i / T) for that of max_{i != y} z_i,    T = 0.4 |margin|

T = 1 would be the direction of the cross-entropy's gradient. A T proportional to the margin makes the loss
independent of the scale of the logits; all classes have weight while the boundary is far, and only the
nearest one when it is near.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core.types import Outputs
from limen.goals.base.goal import Goal

SOFTNESS = 0.4
"""T divided by the margin. Values from 0.3 to 0.7 make no difference on the networks of
docs/benchmarks.md."""


def ce(outputs: Outputs, goal: Goal) -> Tensor:
    """The loss of the goal: cross-entropy for classifiers. The only loss that also exists for recognisers and
    for several models."""
    return goal.loss(outputs)


def soft(outputs: Outputs, goal: Goal) -> Tensor:
    """The function for goals about one class of a classifier; for all others, the goal's own loss."""
    if not isinstance(outputs, Tensor) or type(goal) is not Goal:
        return goal.loss(outputs)
    margin, least = goal.margin(outputs).detach(), torch.finfo(outputs.dtype).tiny ** 0.5
    return softened(outputs, goal, margin, SOFTNESS * margin.abs().clamp_min(least))


def softened(logits: Tensor, goal: Goal, margin: Tensor, temperature: Tensor) -> Tensor:
    """The margin with a gradient over all other classes, because the highest of them may change from step to
    step and the gradient should not jump. `temperature` holds one T per sample."""
    own = goal.reference[:, None]
    others = logits.scatter(1, own, -torch.inf)
    top = others.detach().amax(1, keepdim=True)  # subtracted first: logits over a small T would overflow
    behind = (
        top.squeeze(1)
        + temperature * ((others - top) / temperature[:, None]).logsumexp(1)
        - logits.gather(1, own).squeeze(1)
    )
    value = -behind if goal.targeted else behind
    return value + (margin - value).detach()


def ce_towards(logits: Outputs, goal: Goal, target: Tensor) -> Tensor:
    """Minus the cross-entropy of the class `target` (B,)."""
    assert isinstance(logits, Tensor)
    return -F.cross_entropy(logits, target, reduction="none")


def dlr(logits: Outputs, goal: Goal) -> Tensor:
    assert isinstance(logits, Tensor)
    return goal.margin(logits) / _spread(logits, goal.targeted)


def dlr_towards(logits: Outputs, goal: Goal, target: Tensor) -> Tensor:
    assert isinstance(logits, Tensor)
    ahead = logits.gather(1, target[:, None]) - logits.gather(1, goal.reference[:, None])
    return ahead.squeeze(1) / _spread(logits, targeted=True)


def _spread(logits: Tensor, targeted: bool) -> Tensor | float:
    """The denominator of the ratio."""
    if logits.shape[1] == 2:
        return 1.0
    top = logits.topk(min(4 if targeted else 3, logits.shape[1]), dim=1).values
    return top[:, 0] - (top[:, -2:].mean(1) if targeted else top[:, 2]) + 1e-12

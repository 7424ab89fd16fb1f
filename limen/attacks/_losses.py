r"""What attacks on classifiers raise: each loss takes (logits, goal) and gives one value per sample.

z_(1) >= z_(2) >= ... are the logits in falling order, y the class to leave, t the class to reach; margin is the goal's own, positive where
it is reached. Difference of logits ratio, Croce & Hein 2020, https://arxiv.org/abs/2003.01690:

    dlr                 ( max_{i != y} z_i - z_y ) / ( z_(1) - z_(3) )                  untargeted: margin / ...
                        ( z_t - max_{i != t} z_i ) / ( z_(1) - (z_(3) + z_(4)) / 2 )    targeted: margin / ...
    dlr_towards(t)      ( z_t - z_y ) / ( z_(1) - (z_(3) + z_(4)) / 2 )                 untargeted, led towards the class t

It knows no saturation: logits twice as large give the same loss. With three classes (z_(2) + z_(3)) / 2 takes the place of
(z_(3) + z_(4)) / 2. With two, any such ratio is constant, so there the numerator stands alone.
"""

import torch.nn.functional as F
from torch import Tensor

from limen.goals._goal import Goal
from limen.types import Outputs


def ce(outputs: Outputs, goal: Goal) -> Tensor:
    """Cross-entropy, or whatever loss the goal has; the one loss that recognisers and several models have too."""
    return goal.loss(outputs)


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
    """What the differences are measured in."""
    if logits.shape[1] == 2:
        return 1.0
    top = logits.topk(min(4 if targeted else 3, logits.shape[1]), dim=1).values
    return top[:, 0] - (top[:, -2:].mean(1) if targeted else top[:, 2]) + 1e-12

r"""Anytime-valid tests and intervals of a mean by betting: a study may be evaluated after every listener,
however correlated the answers of a listener are.

The share of correct answers X of a listener is one number from 0 to 1; listeners are drawn independently. The
capital of a gambler who bets against a mean m without ever staking more than they have,

    K+_t = prod (1 + l_t (X_t - m)),     K-_t = prod (1 - l_t (X_t - m)),     l_t known before X_t

ever reaches 1/alpha with probability at most alpha if the mean is m (or, for K+, below). The confidence
sequence contains all m against which betting half of the capital on either side has not reached that. Stakes:
Waudby-Smith & Ramdas 2023, https://doi.org/10.1093/jrsssb/qkad009, equation 26. Results apply to the clips of
the study only: all listeners hear the same clips, so clips are not sampled as listeners are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from limen.core.errors import UserError

MEANS = 1001
"""Number of means that are tested."""
STAKED = 0.75
"""Largest share of the capital that one listener may cost."""


@dataclass(frozen=True)
class Bets:
    """`detected`: the mean is above chance. `equivalent`: it is within `bound` of chance."""

    listeners: int
    e_value: float
    low: float
    high: float
    detected: bool
    equivalent: bool | None


def bets(
    shares: Sequence[float], chance: float = 0.5, alpha: float = 0.05, bound: float | None = None
) -> Bets:
    """`shares`: shares of correct answers, one per listener, in the order in which they finished; may be
    empty."""
    x = np.asarray(shares, float)
    if ((x < 0) | (x > 1)).any():
        raise UserError(f"bets: got shares from {x.min():g} to {x.max():g}; expected numbers from 0 to 1.")
    means = np.linspace(0, 1, MEANS)
    tried = np.append(means, chance)
    t = np.arange(1, len(x) + 1)
    # estimates before each listener, with a prior listener of mean 1/2 and standard deviation 1/2
    squares = np.cumsum((x - (0.5 + np.cumsum(x)) / (t + 1)) ** 2)
    spread = (0.25 + np.concatenate([[0.0], squares])[: len(x)]) / t
    stake = np.sqrt(2 * np.log(2 / alpha) / (np.maximum(spread, 1e-6) * t * np.log(t + 1)))[:, None]
    with np.errstate(divide="ignore"):
        above = np.log1p(np.minimum(stake, STAKED / tried) * (x[:, None] - tried)).sum(0)
        below = np.log1p(-np.minimum(stake, STAKED / (1 - tried)) * (x[:, None] - tried)).sum(0)
    open_ = means[np.logaddexp(above, below)[:-1] - np.log(2) < np.log(1 / alpha)]
    step = means[1]
    low, high = (max(0.0, open_[0] - step), min(1.0, open_[-1] + step)) if len(open_) else (0.0, 1.0)
    inside = None if bound is None else bool(chance - bound < low and high < chance + bound)
    e = float(np.exp(min(above[-1], 700.0)))
    return Bets(len(x), e, float(low), float(high), e >= 1 / alpha, inside)

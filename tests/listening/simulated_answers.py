"""Answers of simulated studies whose truth is known: listeners and items differ by draws of their own.

A right answer has the log odds b + u + v with u of the listener and v of the item Gaussian; b makes the share
over all listeners and items what is asked for. The spread of u is what gives two answers of a listener the
intraclass correlation.
"""

from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

X, W = np.polynomial.hermite_e.hermegauss(80)
W = W / W.sum()


@cache
def listener_sd(icc: float) -> float:
    return (
        0.0
        if icc == 0
        else float(brentq(lambda s: float(W @ (expit(s * X) - 0.5) ** 2) / 0.25 - icc, 1e-6, 20))
    )


@cache
def middle(share: float, sd: float) -> float:
    return float(brentq(lambda b: float(W @ expit(b + sd * X)) - share, -30, 30))


def everyone_hears_all(listeners: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Listener and item of every answer."""
    return tuple(np.divmod(np.arange(listeners * items), items))


def right(
    who: np.ndarray,
    what: np.ndarray,
    share: float,
    icc: float,
    item_sd: float,
    studies: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """(studies, answers) of true and false."""
    sd = listener_sd(icc)
    u = sd * rng.standard_normal((studies, who.max() + 1))
    v = item_sd * rng.standard_normal((studies, what.max() + 1))
    return rng.random((studies, len(who))) < expit(
        middle(share, float(np.hypot(sd, item_sd))) + u[:, who] + v[:, what]
    )

r"""Mixed-effects logistic regression of correct answers.

    logit P(y = 1) = x' beta + sum_g u_g,
        u_g ~ N(0, sd_g^2), one for each listener and each item (crossed, or listeners only)

Fitted by maximising the Laplace approximation of the likelihood with the u's integrated out (Breslow &
Clayton 1993, https://doi.org/10.1080/01621459.1993.10594284; what lme4's glmer does). With v = u / sd and v^
the most probable v:

    l(beta, sd) = sum log P(y | beta, v^) - |v^|^2 / 2 - log det(I + sd Z' W Z sd) / 2,     W = diag P (1 - P)

Departs from it: a Gaussian prior of standard deviation PRIOR_SD on every coefficient keeps them finite if all
answers are correct; and intervals use Student's t with one degree of freedom less than the size of the
smaller group, because a standard deviation of a few items is not known any better. Effects are assumed to be
the same for every listener and item, so the model is descriptive: `sampled_share` and `sampled_mean` test
whether results generalise to other listeners and items.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.core.errors import UserError
from limen.core.statistics import LEVEL

PRIOR_SD = 10.0


@dataclass(frozen=True)
class Effect:
    """On the scale of log odds; interval and two-sided p-value from Student's t."""

    name: str
    value: float
    error: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class MixedModel:
    n: int
    effects: tuple[Effect, ...]
    spreads: dict[str, float]
    """Standard deviation between listeners, between items, ... on the scale of log odds."""
    groups: dict[str, int]
    log_likelihood: float


def mixed_logistic(
    rows: Sequence[Mapping[str, Any]],
    outcome: str = "correct",
    fixed: Sequence[str] = (),
    groups: Sequence[str] = ("listener", "item"),
    level: float = LEVEL,
) -> MixedModel:
    """Fit the model to one row per answer. `fixed`: numeric columns (code a condition as 0 and 1); an
    intercept is always included."""
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix, hstack
    from scipy.stats import t

    if not rows or any(name not in row for row in rows for name in (outcome, *fixed, *groups)):
        raise UserError(
            f"mixed_logistic: expected at least one row, each with {', '.join((outcome, *fixed, *groups))}; "
            f"got {len(rows)} rows."
        )
    y = np.asarray([bool(row[outcome]) for row in rows], float)
    x = np.asarray([[1.0, *(float(row[name]) for name in fixed)] for row in rows])
    parts, sizes = [], []
    for name in groups:
        labels, which = np.unique([str(row[name]) for row in rows], return_inverse=True)
        sizes.append(len(labels))
        parts.append(csr_matrix((np.ones(len(y)), (np.arange(len(y)), which)), (len(y), len(labels))))
    z, owner, p = hstack(parts).tocsr(), np.repeat(np.arange(len(sizes)), sizes), x.shape[1]
    start = np.concatenate([np.zeros(p), np.full(len(sizes), 0.5)])
    mode = np.zeros(z.shape[1])  # the mode of the previous evaluation is a good start for the next

    def loss(theta: np.ndarray) -> float:
        nonlocal mode
        value, mode = _laplace(y, x @ theta[:p], z, theta[p:][owner], mode)
        return -value + float((theta[:p] ** 2).sum()) / (2 * PRIOR_SD**2)

    found = minimize(
        loss,
        start,
        method="L-BFGS-B",
        bounds=[(None, None)] * p + [(0, 20)] * len(sizes),
        options={"ftol": 1e-12},
    )
    # a standard deviation at its bound of 0 has no curvature and is left out
    free = [i for i in range(len(start)) if i < p or found.x[i] > 1e-3]
    covariance = np.linalg.inv(_curvature(loss, found.x, free))
    df = max(1, min(sizes, default=2) - 1)
    q = float(t.ppf((1 + level) / 2, df))
    effects = []
    for i, name in enumerate(("intercept", *fixed)):
        value, error = float(found.x[i]), float(np.sqrt(max(covariance[i, i], 0.0)))
        effects.append(
            Effect(
                name,
                value,
                error,
                value - q * error,
                value + q * error,
                float(2 * t.sf(abs(value) / max(error, 1e-12), df)),
            )
        )
    spreads = {name: float(v) for name, v in zip(groups, found.x[p:], strict=True)}
    # without the prior, so that models can be compared
    likelihood = float((found.x[:p] ** 2).sum()) / (2 * PRIOR_SD**2) - float(found.fun)
    return MixedModel(len(y), tuple(effects), spreads, dict(zip(groups, sizes, strict=True)), likelihood)


def _laplace(
    y: np.ndarray, offset: np.ndarray, z: Any, sd: np.ndarray, v: np.ndarray
) -> tuple[float, np.ndarray]:
    """Log likelihood with the random effects integrated out, and their mode on the scale of standard
    deviations."""
    from scipy.special import expit, log_expit

    def joint(v: np.ndarray) -> tuple[float, np.ndarray]:
        eta = offset + z @ (sd * v)
        return float((y * log_expit(eta) + (1 - y) * log_expit(-eta)).sum() - v @ v / 2), eta

    value, eta = joint(v)
    for _ in range(50):
        mean = expit(eta)
        slope = sd * (z.T @ (y - mean)) - v
        curvature = (
            np.eye(len(v)) + sd[:, None] * (z.T @ z.multiply((mean * (1 - mean))[:, None])).toarray() * sd
        )
        step = np.linalg.solve(curvature, slope)
        new, eta_new = joint(v + step)
        while new < value - 1e-12:  # the function is concave: a shorter step always increases it
            step = step / 2
            new, eta_new = joint(v + step)
        v, value, eta = v + step, new, eta_new
        if np.abs(step).max() < 1e-9:
            break
    return value - np.linalg.slogdet(curvature)[1] / 2, v


def _curvature(loss: Any, at: np.ndarray, free: list[int], h: float = 1e-3) -> np.ndarray:
    """Second differences of the loss in its free parameters."""
    unit = np.eye(len(at)) * h
    out = np.empty((len(free), len(free)))
    for a, i in enumerate(free):
        for b, j in enumerate(free[: a + 1]):
            corners = [loss(at + s * unit[i] + t * unit[j]) for s, t in ((1, 1), (1, -1), (-1, 1), (-1, -1))]
            out[a, b] = out[b, a] = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * h * h)
    return out

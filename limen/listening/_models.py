r"""Right or wrong, explained: mixed-effects logistic regression, and the bootstrap over listeners and items.

    logit P(y = 1) = x' beta + sum_g u_g,     u_g ~ N(0, sd_g^2), one for each listener and each item (crossed, or listeners alone)

Fitted by maximising the Laplace approximation of the likelihood with the u's integrated out (Breslow & Clayton 1993,
https://doi.org/10.1080/01621459.1993.10594284; what lme4's glmer does). With v = u / sd and v^ the most probable v:

    l(beta, sd) = sum log P(y | beta, v^) - |v^|^2 / 2 - log det(I + sd Z' W Z sd) / 2,     W = diag P (1 - P)

Departs from it: a Gaussian prior of standard deviation PRIOR_SD on every coefficient keeps them finite where all answers are right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limen.errors import UserError
from limen.statistics import LEVEL, RESAMPLES

PRIOR_SD = 10.0


@dataclass(frozen=True)
class Effect:
    """On the scale of log odds; Wald's interval and two-sided p-value."""

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


@dataclass(frozen=True)
class ClusterMean:
    """A mean, or a difference of means, whose interval knows that answers of one listener (and to one item) resemble each other."""

    n: int
    listeners: int
    items: int | None
    value: float
    low: float | None
    high: float | None


def mixed_logistic(
    rows: Sequence[Mapping[str, Any]],
    outcome: str = "correct",
    fixed: Sequence[str] = (),
    groups: Sequence[str] = ("listener", "item"),
    level: float = LEVEL,
) -> MixedModel:
    """One row per answer. `fixed` names columns of numbers (code a condition as 0 and 1); an intercept is always there."""
    from scipy.optimize import minimize
    from scipy.sparse import csr_matrix, hstack
    from scipy.stats import norm

    if not rows or any(name not in row for row in rows for name in (outcome, *fixed, *groups)):
        raise UserError(f"mixed_logistic: {len(rows)} rows came; expected at least one, each with {', '.join((outcome, *fixed, *groups))}.")
    y = np.asarray([bool(row[outcome]) for row in rows], float)
    x = np.asarray([[1.0, *(float(row[name]) for name in fixed)] for row in rows])
    parts, sizes = [], []
    for name in groups:
        labels, which = np.unique([str(row[name]) for row in rows], return_inverse=True)
        sizes.append(len(labels))
        parts.append(csr_matrix((np.ones(len(y)), (np.arange(len(y)), which)), (len(y), len(labels))))
    z, owner, p = hstack(parts).tocsr(), np.repeat(np.arange(len(sizes)), sizes), x.shape[1]
    start = np.concatenate([np.zeros(p), np.full(len(sizes), 0.5)])
    mode = np.zeros(z.shape[1])  # found for the last point asked about: a good start for the next, which is near

    def loss(theta: np.ndarray) -> float:
        nonlocal mode
        value, mode = _laplace(y, x @ theta[:p], z, theta[p:][owner], mode)
        return -value + float((theta[:p] ** 2).sum()) / (2 * PRIOR_SD**2)

    found = minimize(loss, start, method="L-BFGS-B", bounds=[(None, None)] * p + [(0, 20)] * len(sizes), options={"ftol": 1e-12})
    # a spread at its bound of 0 has no curvature; the others are judged without it
    free = [i for i in range(len(start)) if i < p or found.x[i] > 1e-3]
    covariance = np.linalg.inv(_curvature(loss, found.x, free))
    q = float(norm.ppf((1 + level) / 2))
    effects = []
    for i, name in enumerate(("intercept", *fixed)):
        value, error = float(found.x[i]), float(np.sqrt(max(covariance[i, i], 0.0)))
        effects.append(Effect(name, value, error, value - q * error, value + q * error, float(2 * norm.sf(abs(value) / max(error, 1e-12)))))
    spreads = {name: float(v) for name, v in zip(groups, found.x[p:], strict=True)}
    # without the prior, so that models can be compared
    likelihood = float((found.x[:p] ** 2).sum()) / (2 * PRIOR_SD**2) - float(found.fun)
    return MixedModel(len(y), tuple(effects), spreads, dict(zip(groups, sizes, strict=True)), likelihood)


def _laplace(y: np.ndarray, offset: np.ndarray, z: Any, sd: np.ndarray, v: np.ndarray) -> tuple[float, np.ndarray]:
    """Log likelihood with the random effects integrated out, and their mode on the scale of standard deviations."""
    from scipy.special import expit, log_expit

    def joint(v: np.ndarray) -> tuple[float, np.ndarray]:
        eta = offset + z @ (sd * v)
        return float((y * log_expit(eta) + (1 - y) * log_expit(-eta)).sum() - v @ v / 2), eta

    value, eta = joint(v)
    for _ in range(50):
        mean = expit(eta)
        slope = sd * (z.T @ (y - mean)) - v
        curvature = np.eye(len(v)) + sd[:, None] * (z.T @ z.multiply((mean * (1 - mean))[:, None])).toarray() * sd
        step = np.linalg.solve(curvature, slope)
        new, eta_new = joint(v + step)
        while new < value - 1e-12:  # concave: a shorter step always climbs
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


def cluster_bootstrap(
    values: Sequence[float],
    listeners: Sequence[Any],
    items: Sequence[Any] | None = None,
    contrast: Sequence[bool] | None = None,
    level: float = LEVEL,
    seed: int = 0,
) -> ClusterMean:
    """Mean of the values, one entry per answer; with `contrast`, the mean where it is true less the mean where it is false.

    Listeners are drawn with replacement, and items too where given: an answer then counts as often as both were drawn. Owen 2007,
    https://doi.org/10.1214/07-AOAS122; with two ways the interval is a little too wide, with fewer than about ten listeners too narrow.
    """
    from limen.seeds import number

    y = np.asarray(values, float)
    if not len(y) or len(listeners) != len(y) or (items is not None and len(items) != len(y)):
        raise UserError(f"cluster_bootstrap: {len(y)} values and {len(listeners)} listeners came; expected as many of each, at least one.")
    side = np.ones(len(y), bool) if contrast is None else np.asarray(contrast, bool)
    rng = np.random.default_rng(number(seed, "clusters"))
    counted = [_drawn(names, rng) for names in (listeners, items) if names is not None]
    w = np.prod([draws for draws, _ in counted], axis=0)
    sizes = [size for _, size in counted]
    one = np.ones((1, len(y)))
    value = float(_means(one, y, side, contrast is not None)[0])
    found = ClusterMean(len(y), sizes[0], sizes[1] if len(sizes) > 1 else None, value, None, None)
    means = _means(w, y, side, contrast is not None)
    means = means[np.isfinite(means)]
    if sizes[0] < 2 or len(means) < 2:
        return found
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return ClusterMean(found.n, found.listeners, found.items, value, float(low), float(high))


def _drawn(names: Sequence[Any], rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """How often each answer's listener (or item) was drawn, (RESAMPLES, n), and how many there are."""
    labels, which = np.unique([str(name) for name in names], return_inverse=True)
    return rng.multinomial(len(labels), np.full(len(labels), 1 / len(labels)), RESAMPLES)[:, which], len(labels)


def _means(w: np.ndarray, y: np.ndarray, side: np.ndarray, difference: bool) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):  # a draw may hold no answer of one side
        first = w[:, side] @ y[side] / w[:, side].sum(1)
        return first - w[:, ~side] @ y[~side] / w[:, ~side].sum(1) if difference else first

"""95 % intervals of shares, means and rates."""

import math
from collections.abc import Sequence

import numpy as np

from limen.core import seeds

LEVEL = 0.95
RESAMPLES = 2000


def wilson(successes: float, n: int, level: float = LEVEL) -> tuple[float, float]:
    r"""Score interval of a share. Wilson 1927, https://doi.org/10.1080/01621459.1927.10502953:

    (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
    """
    from scipy.stats import norm

    z = float(norm.ppf(0.5 + level / 2))
    p = successes / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # at 0 of n and n of n the bound equals the share; rounding must not push it past
    return (
        0.0 if successes == 0 else max(0.0, middle - half),
        1.0 if successes == n else min(1.0, middle + half),
    )


def clopper_pearson(successes: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """Exact interval of a share, by quantiles of the beta distribution. Clopper and Pearson 1934,
    https://doi.org/10.1093/biomet/26.4.404."""
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.ppf(1 - tail, successes + 1, n - successes))
    return low, high


def t_interval(
    values: Sequence[float] | np.ndarray, level: float = LEVEL
) -> tuple[float, float] | tuple[None, None]:
    """Student's interval of the mean; none from a single value."""
    from scipy.stats import t

    n = len(values)
    if n < 2:
        return None, None
    half = float(t.ppf(0.5 + level / 2, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    mean = float(np.mean(values))
    return mean - half, mean + half


def pooled(
    errors: Sequence[float], totals: Sequence[float], level: float = LEVEL, seed: int = 0
) -> dict[str, float | None]:
    """Rate of a whole set, total errors / total words, with a percentile bootstrap over samples (Efron
    1979)."""
    e, n = np.asarray(errors, float), np.asarray(totals, float)
    if n.sum() == 0:
        return {"mean": None, "low": None, "high": None}
    rate = float(e.sum() / n.sum())
    if len(e) < 2:
        return {"mean": rate, "low": None, "high": None}
    draws = np.random.default_rng(seeds.number(seed, "bootstrap")).integers(0, len(e), (RESAMPLES, len(e)))
    below = n[draws].sum(1)
    rates = e[draws].sum(1)[below > 0] / below[below > 0]
    low, high = np.quantile(rates, [(1 - level) / 2, (1 + level) / 2])
    return {"mean": rate, "low": float(low), "high": float(high)}

r"""Agreement between listeners: Fleiss' kappa, Krippendorff's alpha, intraclass correlations.

    kappa = (P - P_e) / (1 - P_e)
        Fleiss 1971, https://doi.org/10.1037/h0031619: P agreeing pairs of raters, P_e expected by chance
    alpha = 1 - D_o / D_e
        Krippendorff 2004, chapter 11: observed over expected disagreement, any number of raters per unit
    ICC(2,1), ICC(2,k)                Shrout & Fleiss 1979,
        https://doi.org/10.1037/0033-2909.86.2.420: raters drawn at random, one or k

Intervals of kappa and alpha are bootstrap intervals over units; those of the ICC are Shrout and Fleiss's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from limen.core.errors import UserError
from limen.core.statistics import LEVEL, RESAMPLES

Scale = Literal["nominal", "ordinal", "interval"]


@dataclass(frozen=True)
class Agreement:
    """`value` is None if all ratings are equal, because agreement is then undefined."""

    measure: str
    value: float | None
    low: float | None
    high: float | None
    units: int
    raters: int


def fleiss_kappa(
    counts: Sequence[Sequence[int]] | np.ndarray, level: float = LEVEL, seed: int = 0
) -> Agreement:
    """Kappa of (units, categories) counts of raters who chose each category; every unit rated equally
    often."""
    table = np.asarray(counts, float)
    raters = table.sum(1)
    if table.ndim != 2 or not len(table) or (raters != raters[0]).any() or raters[0] < 2:
        raise UserError(
            "fleiss_kappa: every unit needs the same number of ratings, at least two. With gaps, use "
            "krippendorff_alpha."
        )

    def kappa(sample: np.ndarray) -> np.ndarray:
        n = raters[0]
        agreed = ((sample**2).sum(2) - n).mean(1) / (n * (n - 1))
        expected = ((sample.sum(1) / sample.shape[1] / n) ** 2).sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(expected < 1 - 1e-12, (agreed - expected) / (1 - expected), np.nan)

    low, high = _over_units(lambda rows: kappa(table[rows]), len(table), level, seed)
    return Agreement("Fleiss' kappa", _number(kappa(table[None])[0]), low, high, len(table), int(raters[0]))


def krippendorff_alpha(
    ratings: Sequence[Sequence[float | None]], scale: Scale = "nominal", level: float = LEVEL, seed: int = 0
) -> Agreement:
    """Alpha of (raters, units) ratings, None for a missing rating. Categories are numbers (for "nominal" they
    are only names)."""
    values = np.asarray([[np.nan if v is None else v for v in row] for row in ratings], float)
    categories = np.unique(values[~np.isnan(values)])
    table = (values.T[:, :, None] == categories).sum(1).astype(float)  # (units, categories)
    table = table[table.sum(1) >= 2]  # a unit rated once has no pair
    if not len(table):
        raise UserError(
            f"krippendorff_alpha: expected units with at least two ratings, got none in "
            f"{values.shape[1]} units."
        )
    low, high = _over_units(
        lambda rows: np.asarray([_alpha(table[r], categories, scale) for r in rows]), len(table), level, seed
    )
    return Agreement(
        f"Krippendorff's alpha, {scale}",
        _number(_alpha(table, categories, scale)),
        low,
        high,
        len(table),
        len(values),
    )


def _alpha(table: np.ndarray, categories: np.ndarray, scale: Scale) -> float:
    m = table.sum(1)
    # coincidences: every unit's ordered pairs of ratings, each pair weighing 1 / (m - 1)
    pairs = (table / (m - 1)[:, None]).T @ table - np.diag((table / (m - 1)[:, None]).sum(0))
    totals = pairs.sum(0)
    n = totals.sum()
    if scale == "nominal":
        distance = 1 - np.eye(len(categories))
    elif scale == "interval":
        distance = (categories[:, None] - categories) ** 2
    else:  # ratings between the two, plus half of each
        middle = np.cumsum(totals) - totals / 2
        distance = (middle[:, None] - middle) ** 2
    expected = (np.outer(totals, totals) * distance).sum() / (n - 1)
    return float(1 - (pairs * distance).sum() / expected) if expected > 0 else float("nan")


def icc(
    ratings: Sequence[Sequence[float]] | np.ndarray, average: bool = False, level: float = LEVEL
) -> Agreement:
    """ICC(2,1) of (units, raters) ratings without gaps: absolute agreement of single raters; with `average`
    ICC(2,k), that of the mean of all raters."""
    from scipy.stats import f

    x = np.asarray(ratings, float)
    if x.ndim != 2 or min(x.shape) < 2 or np.isnan(x).any():
        raise UserError(
            f"icc: expected at least two units by two raters, without gaps, got the shape {x.shape}."
        )
    n, k = x.shape
    grand = x.mean()
    rows = k * ((x.mean(1) - grand) ** 2).sum() / (n - 1)
    columns = n * ((x.mean(0) - grand) ** 2).sum() / (k - 1)
    error = ((x - x.mean(1, keepdims=True) - x.mean(0) + grand) ** 2).sum() / ((n - 1) * (k - 1))
    name = f"ICC(2,{k})" if average else "ICC(2,1)"
    below = rows + (k - 1) * error + k * (columns - error) / n
    if below <= 0 or error <= 0:
        return Agreement(name, 1.0 if rows > 0 else None, None, None, n, k)
    single = (rows - error) / below
    ratio = columns / error
    df = (
        (k - 1)
        * (n - 1)
        * (k * single * ratio + n * (1 + (k - 1) * single) - k * single) ** 2
        / ((n - 1) * k**2 * single**2 * ratio**2 + (n * (1 + (k - 1) * single) - k * single) ** 2)
    )
    upper, lower = f.ppf((1 + level) / 2, n - 1, df), f.ppf((1 + level) / 2, df, n - 1)
    low = n * (rows - upper * error) / (upper * (k * columns + (k * n - k - n) * error) + n * rows)
    high = n * (lower * rows - error) / (k * columns + (k * n - k - n) * error + n * lower * rows)
    if average:  # of the mean of k raters: Spearman and Brown
        single, low, high = (k * v / (1 + (k - 1) * v) for v in (single, low, high))
    return Agreement(name, float(single), float(low), float(high), n, k)


def _over_units(measure, units: int, level: float, seed: int) -> tuple[float | None, float | None]:
    from limen.core.seeds import number

    if units < 2:
        return None, None
    rows = np.random.default_rng(number(seed, "units")).integers(0, units, (RESAMPLES, units))
    values = measure(rows)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return None, None
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)

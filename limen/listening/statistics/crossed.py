r"""The mean of the answers of a sample of listeners to a sample of items: its variance and degrees of
freedom.

Answers of one listener, and answers to one item, are correlated, so n answers are worth fewer than n. With
a_k the weight of answer k in the estimate (1/n in a mean, -+1/n_c in a difference of conditions), r_k its
deviation from the mean of its condition, and variances tau of single answers, of listeners and of items,

    Q_L = sum over listeners (sum of a r)^2,     Q_I = sum over items (sum of a r)^2,
        MS_E = residual mean square after listeners and items

each have an expectation that is linear in the tau; so has the variance V of the estimate. Solving for it
gives an unbiased V in every design (the method of moments, Henderson 1953, https://doi.org/10.2307/3001853).
If every listener hears every item once, it is the analysis of variance, V = (MS_L + MS_I - MS_E) / n, the
quasi-F of Clark 1973, https://doi.org/10.1016/S0022-5371(73)80014-3. Its degrees of freedom are
Satterthwaite's, 2 V^2 / var V (https://doi.org/10.2307/3002019), with var V that of Gaussian answers.

Between two conditions these tau are those of listeners and items within a condition. An effect of a listener
or an item that is common to both conditions cancels in the difference if both are heard equally often, but if
different listeners hear a clip in the two conditions (a Latin square) it does not cancel in Q_L. It is
therefore fitted and removed from r, and the remainder in an unbalanced design has a tau of its own, estimated
from sums with |a| instead of a.

Two modifications, without which tests are conservative if answers are not correlated: V is at least 0.45 of
the variance of independent answers, and the degrees of freedom are at least those of listeners alone or items
alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from limen.listening.statistics.moments import Fit, Moments, Way, moments, sums

Names = Sequence[Any] | np.ndarray
LEAST_EFFECT = 0.45
"""Smallest design effect that is used."""
WAYS = "listeners", "items"
"""The ways in which answers are clustered."""
NONE = 1e-12
"""Smaller contributions of clusters to the variance of an estimate are rounding errors."""
ENOUGH = 10
"""Degrees of freedom from which the variance of single answers is known well enough to represent independent
answers."""


@dataclass(frozen=True)
class Spread:
    """An estimate with its variance and degrees of freedom; arrays if several studies of one design are
    evaluated together."""

    value: Any
    variance: Any
    df: Any
    design_effect: Any
    """Variance divided by that of the same number of independent answers."""


class Crossing:
    """A design, that is which listener answered to which item, and everything that does not depend on the
    answers. `second` marks the answers of the second of two conditions: the estimate is then its mean minus
    that of the first."""

    def __init__(self, listeners: Names, items: Names, second: Names | None = None) -> None:
        people, things = _codes(listeners), _codes(items)
        side = np.zeros(len(people), int) if second is None else np.asarray(second, int)
        # repeated answers of a listener to an item are averaged
        cells, self._cell = np.unique(np.stack([people, things, side]), axis=1, return_inverse=True)
        self._cell = self._cell.reshape(-1)
        self.n, self.listeners, self.items = len(people), int(people.max()) + 1, int(things.max()) + 1
        self._counts, self._answer_side = np.bincount(self._cell), side
        self._people, self._things, self._side = cells
        self._sizes = np.bincount(side, minlength=self._side.max() + 1)
        self._weight = self._counts / self._sizes[self._side]  # sums to 1 in each condition
        self._fits: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[Fit, int]] = {}
        self._signed = self._weight * (np.where(self._side == 1, 1, -1) if second is not None else 1)

    def spread(self, y: np.ndarray) -> Spread:
        """(..., n) answers -> spreads of (...)."""
        y = np.asarray(y, float)
        cells = sums(y, self._cell, len(self._counts)) / self._counts
        value, alone = (cells * self._signed).sum(-1), self._independent(y)
        s = self._system
        q = [way.square(cells) for way in s.ways]
        if s.df_error is not None:
            explained, df = self._unexplained
            q.append((explained.left(cells) ** 2).sum(-1) / max(df, 1))
        quadratics = np.stack(q, -1)
        tau = quadratics @ s.inverse.T
        # effects of items or listeners common to all conditions are no part of a difference
        single = np.maximum(tau[..., -1], 0.0) * (self._signed**2).sum() if s.enough >= ENOUGH else alone
        variance = np.maximum(quadratics @ s.weights, LEAST_EFFECT * np.minimum(alone, single))
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = np.where(alone > 0, variance / alone, np.nan)
        return Spread(value, variance, self._freedom(variance, tau), effect)

    def expected(self, of_listeners: float, of_items: float, of_answers: float) -> Spread:
        """The variance and degrees of freedom that a study of this design has for the given tau; the value is
        unknown."""
        known = {"listeners": of_listeners, "items": of_items}
        s = self._system
        # variances that cannot be separated from that of single answers are added to it
        tau = np.array(
            [
                *(known[name] for name in s.separable),
                of_answers + sum(v for name, v in known.items() if name not in s.separable),
            ]
        )
        variance = float(s.expected @ tau @ s.weights)
        alone = (of_listeners + of_items + of_answers) * float((1 / self._sizes).sum())
        return Spread(None, variance, float(self._freedom(np.array(variance), tau)), variance / alone)

    def sign_p(self) -> float:
        """Two-sided p if all listeners show the same difference: a sign test of those who heard both
        conditions; if none did, a permutation test of the assignment of listeners to conditions."""
        of = [set(self._people[self._side == side].tolist()) for side in (0, 1)]
        both = len(of[0] & of[1])
        return min(1.0, 2 * 0.5**both if both else 2 / math.comb(self.listeners, len(of[0])))

    def _freedom(self, variance: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Satterthwaite's degrees of freedom."""
        s = self._system
        of_ways = s.weights[: len(s.ways)]
        half = np.einsum("g,h,ghef,...e,...f->...", of_ways, of_ways, s.products, tau, tau)
        if s.df_error:
            half = half + (s.weights[-1] * tau[..., -1]) ** 2 / s.df_error
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(half > 0, variance**2 / half, self.n - 1.0)
        return np.clip(df, min(s.least_df, self.n - 1.0), self.n - 1.0)

    @property
    def over(self) -> str:
        """What the estimate generalises to: ways in which answers cluster, and those in which every answer
        (to each condition) is from another listener or item, so that their variance is part of that of single
        answers."""
        return (
            " and ".join(name for name in WAYS if name in self._named or self._all_different(name))
            or "answers"
        )

    @property
    def fewest_items(self) -> int:
        """Number of different items in the condition with fewer."""
        return min(len(np.unique(self._things[self._side == side])) for side in range(len(self._sizes)))

    def _all_different(self, name: str) -> bool:
        within = len(np.unique(self._by_side(name)))
        return within == len(self._side) > len(self._sizes)

    @cached_property
    def _named(self) -> tuple[str, ...]:
        """The ways in which answers cluster in this design and that can be separated from each other."""
        found = [name for name in WAYS if self._clusters(name)]
        if self._paired:
            return ("listeners", *(name for name in found if name == "items"))
        for drop in reversed(WAYS):  # no residual degrees of freedom: drop items first
            if drop in found and self._left_over(tuple(found), ())[1] < 1:
                found.remove(drop)
        return tuple(found)

    @property
    def _paired(self) -> bool:
        """Listeners answer once to each condition, as in a paired t test: their sums are all that is known of
        single answers."""
        once = len(np.unique(self._people * 2 + self._side)) == len(self._people)
        return once and 1 < self.listeners < len(self._people)

    def _way(self, name: str) -> np.ndarray:
        return self._people if name == "listeners" else self._things

    def _clusters(self, name: str) -> bool:
        way = self._way(name)
        within = np.unique(way * 2 + self._side)
        # a single item of a condition cannot be separated from the condition
        return len(within) < len(way) and len(np.unique(way)) > 1 and len(within) > len(self._sizes)

    def _by_side(self, name: str) -> np.ndarray:
        return _compact(self._way(name) * len(self._sizes) + self._side)

    @cached_property
    def _spanning(self) -> tuple[str, ...]:
        """Ways whose clusters occur in both conditions; one that is not among the named only if answers are
        left over without it."""
        spanning = [name for name in WAYS if 1 < len(np.unique(self._way(name))) <= self._by_side(name).max()]
        spare = lambda name: not self._paired and self._left_over(self._named, (name,))[1] > 0
        return tuple(name for name in spanning if name in self._named or spare(name))

    @property
    def _unexplained(self) -> tuple[Fit, int]:
        """What listeners and items (and conditions) explain, and the degrees of freedom they leave to single
        answers."""
        return self._left_over(self._named, tuple(name for name in self._spanning if name not in self._named))

    def _left_over(self, within: tuple[str, ...], alike: tuple[str, ...]) -> tuple[Fit, int]:
        """Residual fit for ways within each condition, and for ways with the same effect in both; and its
        degrees of freedom."""
        if (within, alike) not in self._fits:
            blocks = [
                *(self._by_side(name) for name in within),
                *(_compact(self._way(name)) for name in alike),
            ]
            fit = Fit([self._side, *blocks], np.ones(len(self._side)))
            self._fits[within, alike] = fit, len(self._side) - fit.rank
        return self._fits[within, alike]

    @cached_property
    def _system(self) -> Moments:
        codes = {name: _compact(self._way(name)) for name in WAYS}
        conditions = Fit([self._side], self._weight)
        signed = [Way(name, codes[name], self._signed, conditions) for name in self._named]
        # effects common to both conditions that mostly cancel in the estimate, but not in the sums of
        # squares, are removed from the answers before these are summed
        out = [
            name
            for name in self._spanning
            if 2 * self._uncancelled(codes[name]) < self._uncancelled(self._by_side(name))
        ]
        if any(np.abs(way.through(codes[name])).max() > NONE for way in signed for name in out):
            fit = Fit([self._side, *(codes[name] for name in out)], self._weight)
            if len(self._side) - fit.rank > 1:
                signed = [replace(way, fit=fit) for way in signed]
        shared = [
            Way(name, codes[name], self._weight, conditions)
            for name in self._spanning
            if self._uncancelled(codes[name]) > NONE
        ]
        separable = [
            (name, self._by_side(name)) for name in self._named if not (self._paired and name == "listeners")
        ]
        return moments(
            signed, shared, separable, self._signed, None if self._paired else float(self._unexplained[1])
        )

    def _uncancelled(self, clusters: np.ndarray) -> float:
        """Contribution of clusters with a variance of 1 to the variance of the estimate."""
        return float((np.bincount(clusters, self._signed) ** 2).sum())

    def _independent(self, y: np.ndarray) -> np.ndarray:
        """Variance of the estimate if answers were independent."""
        out = np.zeros(y.shape[:-1])
        for c, size in enumerate(self._sizes):
            if size > 1:
                out = out + y[..., self._answer_side == c].var(-1, ddof=1) / size
        return out


def _codes(names: Names) -> np.ndarray:
    return _compact(np.asarray([str(name) for name in names]))


def _compact(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1].reshape(-1)

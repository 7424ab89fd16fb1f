r"""The mean of answers of a sample of listeners to a sample of items: its variance, and how well that is
known.

Answers of one listener resemble each other, and so do answers to one item, so n answers are worth fewer than
n. With a_k the weight of answer k in the estimate (1/n in a mean, -+1/n_c in a difference of conditions), r_k
what it departs from the mean of its condition, and variances tau of single answers, of listeners and of
items,

    Q_L = sum over listeners (sum of a r)^2,     Q_I = sum over items (sum of a r)^2,
        MS_E = what listeners and items leave unexplained

each have an expectation that is linear in the tau; so has the variance V of the estimate. Solving for it
gives V without bias in every design (the method of moments, Henderson 1953, https://doi.org/10.2307/3001853).
Where every listener hears every item once it is the analysis of variance, V = (MS_L + MS_I - MS_E) / n, the
quasi-F of Clark 1973, https://doi.org/10.1016/S0022-5371(73)80014-3. Its degrees of freedom are
Satterthwaite's, 2 V^2 / var V (https://doi.org/10.2307/3002019), with var V that of Gaussian answers.

Between two conditions these tau are those of listeners and items within a condition. What a listener, or an
item, adds to both alike cancels in the difference where both are heard equally often, but if different
listeners hear a clip in the one and in the other (a Latin square) it does not cancel in Q_L. It is therefore
fitted and taken out of r, and what is left of it in an unbalanced design has tau of its own, told from the
others by sums with |a| in place of a.

Two departures, without which tests are too careful where nothing clusters: V is never below 0.45 of what
independent answers would give, and the degrees of freedom never below what listeners alone or items alone
would have.
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
"""Smallest design effect that is believed."""
WAYS = "listeners", "items"
"""In which answers cluster."""
NONE = 1e-12
"""Below this, what clusters add to the variance of an estimate is a rounding error."""
ENOUGH = 10
"""Degrees of freedom from which on the spread of single answers is known well enough to stand for independent
answers."""


@dataclass(frozen=True)
class Spread:
    """An estimate with what is known of its variance; arrays where several studies of one design are judged
    at once."""

    value: Any
    variance: Any
    df: Any
    design_effect: Any
    """Variance over that of as many independent answers."""


class Crossing:
    """Who answered to what: everything about a design that does not depend on the answers. `second` marks the
    answers of the second of two conditions: the estimate is then its mean less that of the first."""

    def __init__(self, listeners: Names, items: Names, second: Names | None = None) -> None:
        people, things = _codes(listeners), _codes(items)
        side = np.zeros(len(people), int) if second is None else np.asarray(second, int)
        # a listener who hears one thing several times: the mean of these answers is one
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
        # what items or listeners add to every condition alike is no part of a difference between conditions
        single = np.maximum(tau[..., -1], 0.0) * (self._signed**2).sum() if s.enough >= ENOUGH else alone
        variance = np.maximum(quadratics @ s.weights, LEAST_EFFECT * np.minimum(alone, single))
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = np.where(alone > 0, variance / alone, np.nan)
        return Spread(value, variance, self._freedom(variance, tau), effect)

    def expected(self, of_listeners: float, of_items: float, of_answers: float) -> Spread:
        """The variance and degrees of freedom that a study of this design has if the tau are these; its value
        is not known."""
        known = {"listeners": of_listeners, "items": of_items}
        s = self._system
        # what cannot be told from single answers here varies with them
        tau = np.array(
            [
                *(known[name] for name in s.told),
                of_answers + sum(v for name, v in known.items() if name not in s.told),
            ]
        )
        variance = float(s.expected @ tau @ s.weights)
        alone = (of_listeners + of_items + of_answers) * float((1 / self._sizes).sum())
        return Spread(None, variance, float(self._freedom(np.array(variance), tau)), variance / alone)

    def sign_p(self) -> float:
        """Two-sided p where all listeners find the same difference: a sign test of those who heard both
        conditions; if none did, a permutation test of who heard which."""
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
        """What the estimate may be generalised to: ways that cluster, and those of which every answer (to
        each condition) is another one, so that their variance is part of that of single answers."""
        return (
            " and ".join(name for name in WAYS if name in self._named or self._all_different(name))
            or "answers"
        )

    @property
    def fewest_items(self) -> int:
        """Different items in the condition that has fewer."""
        return min(len(np.unique(self._things[self._side == side])) for side in range(len(self._sizes)))

    def _all_different(self, name: str) -> bool:
        within = len(np.unique(self._by_side(name)))
        return within == len(self._side) > len(self._sizes)

    @cached_property
    def _named(self) -> tuple[str, ...]:
        """The ways in which answers cluster here and that can be told from each other."""
        found = [name for name in WAYS if self._clusters(name)]
        if self._paired:
            return ("listeners", *(name for name in found if name == "items"))
        for drop in reversed(WAYS):  # nothing is left to compare them with: items go first
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
        # one item for a whole condition cannot be told from the condition
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
        """By ways within each condition, and by ways that add the same to both."""
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
        # what a cluster adds to both conditions alike: where it mostly cancels in the estimate, but not in
        # the sums of squares, it is taken out of the answers before they are summed
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
        told = [
            (name, self._by_side(name)) for name in self._named if not (self._paired and name == "listeners")
        ]
        return moments(
            signed, shared, told, self._signed, None if self._paired else float(self._unexplained[1])
        )

    def _uncancelled(self, clusters: np.ndarray) -> float:
        """What clusters with a variance of 1 add to that of the estimate."""
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

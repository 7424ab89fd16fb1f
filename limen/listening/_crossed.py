r"""The mean of answers of a sample of listeners to a sample of items: its variance, and how well that is known.

Answers of one listener resemble each other, and so do answers to one item, so n answers are worth fewer than n. With a_k the weight of
answer k in the estimate (1/n in a mean, -+1/n_c in a difference of conditions), r_k what it departs from the mean of its condition, and
variances tau of single answers, of listeners and of items,

    Q_L = sum over listeners (sum of a r)^2,     Q_I = sum over items (sum of a r)^2,     MS_E = what listeners and items leave unexplained

each have an expectation that is linear in the tau; so has the variance V of the estimate. Solving for it gives V without bias, whoever
heard what (the method of moments, Henderson 1953, https://doi.org/10.2307/3001853). Where every listener hears every item once it is the
analysis of variance, V = (MS_L + MS_I - MS_E) / n, the quasi-F of Clark 1973, https://doi.org/10.1016/S0022-5371(73)80014-3. Its degrees of
freedom are Satterthwaite's, 2 V^2 / var V (https://doi.org/10.2307/3002019), with var V that of Gaussian answers.

Two departures, without which tests are too careful where nothing clusters: V is never below 0.45 of what independent answers would give,
and the degrees of freedom never below what listeners alone or items alone would have.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Names = Sequence[Any] | np.ndarray
LEAST_EFFECT = 0.45
"""Smallest design effect that is believed."""
ENOUGH = 10
"""Degrees of freedom from which on the spread of single answers is known well enough to stand for independent answers."""


@dataclass(frozen=True)
class Spread:
    """An estimate with what is known of its variance; arrays where several studies of one design are judged at once."""

    value: Any
    variance: Any
    df: Any
    design_effect: Any
    """Variance over that of as many independent answers."""


@dataclass(frozen=True)
class _System:
    """Equations of the method of moments; single answers come last."""

    ways: list[np.ndarray]
    told: tuple[str, ...]
    """Ways whose tau can be told from that of single answers."""
    error: bool
    """Whether the mean square of single answers is among the quadratics; otherwise listeners' sums stand for it."""
    expected: np.ndarray
    """(quadratics, tau): what each tau adds to each quadratic."""
    inverse: np.ndarray
    weights: np.ndarray
    """Of the quadratics in the variance of the estimate."""
    products: np.ndarray
    df_error: float
    least_df: float
    """Of listeners alone or of items alone, the smaller."""


class Crossing:
    """Who answered to what: everything about a design that does not depend on the answers. `second` marks the answers of the second of two
    conditions: the estimate is then its mean less that of the first."""

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
        self._signed = self._weight * (np.where(self._side == 1, 1, -1) if second is not None else 1)

    def spread(self, y: np.ndarray) -> Spread:
        """(..., n) answers -> spreads of (...)."""
        y = np.asarray(y, float)
        cells = _sums(y, self._cell, len(self._counts)) / self._counts
        value, alone = (cells * self._signed).sum(-1), self._independent(y)
        s = self._system
        means = np.stack([(cells * self._weight * (self._side == c)).sum(-1) for c in range(len(self._sizes))], -1)
        scores = (cells - means[..., self._side]) * self._signed
        q = [(_sums(scores, way, way.max() + 1) ** 2).sum(-1) for way in s.ways]
        if s.error:
            q.append(self._unexplained(cells))
        quadratics = np.stack(q, -1)
        tau = quadratics @ s.inverse.T
        # what items or listeners add to every condition alike is no part of a difference between conditions
        single = np.maximum(tau[..., -1], 0.0) * (self._signed**2).sum() if s.df_error >= ENOUGH else alone
        variance = np.maximum(quadratics @ s.weights, LEAST_EFFECT * np.minimum(alone, single))
        with np.errstate(divide="ignore", invalid="ignore"):
            effect = np.where(alone > 0, variance / alone, np.nan)
        return Spread(value, variance, self._freedom(variance, tau), effect)

    def expected(self, of_listeners: float, of_items: float, of_answers: float) -> Spread:
        """The variance and degrees of freedom that a study of this design has if the tau are these; its value is not known."""
        known = {"listeners": of_listeners, "items": of_items}
        # what cannot be told from single answers here varies with them
        told = self._system.told
        tau = np.array([*(known[name] for name in told), of_answers + sum(v for name, v in known.items() if name not in told)])
        variance = float(self._system.expected @ tau @ self._system.weights)
        alone = (of_listeners + of_items + of_answers) * float((1 / self._sizes).sum())
        return Spread(None, variance, float(self._freedom(np.array(variance), tau)), variance / alone)

    def _freedom(self, variance: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """Satterthwaite's degrees of freedom."""
        s = self._system
        of_ways = s.weights[: len(s.ways)]
        half = np.einsum("g,h,ghef,...e,...f->...", of_ways, of_ways, s.products, tau, tau)
        if s.error:
            half = half + (s.weights[-1] * tau[..., -1]) ** 2 / s.df_error
        with np.errstate(divide="ignore", invalid="ignore"):
            df = np.where(half > 0, variance**2 / half, self.n - 1.0)
        return np.clip(df, min(s.least_df, self.n - 1.0), self.n - 1.0)

    @property
    def over(self) -> str:
        """What the estimate may be generalised to."""
        return " and ".join(self._named) or "answers"

    @cached_property
    def _named(self) -> tuple[str, ...]:
        """The ways in which answers cluster here and that can be told from each other."""
        found = [name for name in ("listeners", "items") if self._clusters(name)]
        if self._paired:
            return ("listeners", *(name for name in found if name == "items"))
        for drop in ("items", "listeners"):  # nothing is left to compare them with: items go first
            if self._residual(tuple(found))[1] < 1 and drop in found:
                found.remove(drop)
        return tuple(found)

    @property
    def _paired(self) -> bool:
        """Listeners answer once to each condition, as in a paired t test: their sums are all that is known of single answers."""
        once = len(np.unique(self._people * 2 + self._side)) == len(self._people)
        return once and 1 < self.listeners < len(self._people)

    def _way(self, name: str) -> np.ndarray:
        return self._people if name == "listeners" else self._things

    def _clusters(self, name: str) -> bool:
        way = self._way(name)
        within = np.unique(way * 2 + self._side)
        # one item for a whole condition cannot be told from the condition
        return len(within) < len(way) and len(np.unique(way)) > 1 and len(within) > len(self._sizes)

    @cached_property
    def _system(self) -> "_System":
        ways = [np.unique(self._way(name), return_inverse=True)[1].reshape(-1) for name in self._named]
        sides = len(self._sizes)
        told = tuple(name for name in self._named if not (self._paired and name == "listeners"))
        inner = [np.unique(self._way(name) * sides + self._side, return_inverse=True)[1].reshape(-1) for name in told]
        ones = np.zeros((len(self._side), sides))
        ones[np.arange(len(ones)), self._side] = 1
        means = ones * self._weight[:, None]
        a = self._signed
        total = lambda way, v: np.stack([np.bincount(way, column, way.max() + 1) for column in v.T], 1)  # noqa: E731
        # products[g, h, f] = B_g' K_f B_h, where B_g' r are the sums of way g and K_f says which answers share a cluster of f
        forms: list[list[list[np.ndarray]]] = []
        for g in ways:
            forms.append([])
            g_ones, g_means = total(g, ones * a[:, None]), total(g, means * a[:, None])
            through = [_table(g, f, a) - g_ones @ total(f, means).T for f in inner]
            for h in ways:
                h_ones, h_means = total(h, ones * a[:, None]), total(h, means * a[:, None])
                plain = _table(g, h, a * a) - g_means @ h_ones.T - g_ones @ h_means.T + g_ones @ (means.T @ means) @ h_ones.T
                others = [_table(h, f, a) - h_ones @ total(f, means).T for f in inner] if h is not g else through
                forms[-1].append([*(x @ z.T for x, z in zip(through, others, strict=True)), plain])
        rows, columns = len(ways), len(told) + 1
        expected = np.array([[np.trace(form) for form in forms[g][g]] for g in range(rows)]).reshape(rows, columns)
        target = np.array([*((np.bincount(f, a) ** 2).sum() for f in inner), (a * a).sum()])
        products = np.zeros((rows, rows, columns, columns))
        for g, h in np.ndindex(rows, rows):
            for e, f in np.ndindex(columns, columns):
                products[g, h, e, f] = (forms[g][h][e] * forms[g][h][f]).sum()
        # of each way alone, as if nothing else varied
        own = [told.index(name) if name in told else columns - 1 for name in self._named]
        alone = [expected[g, k] ** 2 / products[g, g, k, k] for g, k in enumerate(own)]
        if not self._paired:
            expected = np.vstack([expected, np.eye(columns)[-1:]])
        df_error = alone[0] if self._paired else float(self._residual(self._named)[1])
        inverse = np.linalg.pinv(expected)
        weights = inverse.T @ target
        return _System(ways, told, not self._paired, expected, inverse, weights, products, df_error, min(alone, default=df_error))

    def _independent(self, y: np.ndarray) -> np.ndarray:
        """Variance of the estimate if answers were independent."""
        out = np.zeros(y.shape[:-1])
        for c, size in enumerate(self._sizes):
            if size > 1:
                out = out + y[..., self._answer_side == c].var(-1, ddof=1) / size
        return out

    def _unexplained(self, cells: np.ndarray) -> np.ndarray:
        """Mean square of what listeners and items (and conditions) do not explain."""
        parts, df = self._residual(self._named)
        left = np.zeros(cells.shape[:-1])
        for mine, first, second, counts, schur in parts:
            y = cells[..., mine]
            left = left + (y**2).sum(-1)
            sums = _sums(y, first, len(counts))
            left = left - (sums**2 / counts).sum(-1)
            if schur is not None:
                rest = _sums(y, second, len(schur[0])) - (sums / counts) @ schur[1]
                left = left - np.einsum("...i,ij,...j->...", rest, schur[0], rest)
        return np.maximum(left, 0.0) / max(df, 1)

    def _residual(self, named: tuple[str, ...]) -> tuple[list[Any], int]:
        """By condition: least squares on indicators of the ways, by eliminating the first; and the degrees of freedom left over."""
        parts, df = [], 0
        for c in range(len(self._sizes)):
            mine = self._side == c
            codes = [np.unique(self._way(name)[mine], return_inverse=True)[1].reshape(-1) for name in named]
            codes = sorted(codes, key=lambda code: -code.max()) or [np.zeros(int(mine.sum()), int)]
            counts = np.bincount(codes[0])
            df += int(mine.sum()) - len(counts)
            second, schur = None, None
            if len(codes) > 1:
                second = codes[1]
                table = _table(codes[0], second, np.ones(len(second)))
                values, vectors = np.linalg.eigh(np.diag(table.sum(0)) - table.T @ (table / counts[:, None]))
                kept = values > 1e-9 * max(1.0, float(values.max()))
                df -= int(kept.sum())
                schur = ((vectors[:, kept] / values[kept]) @ vectors[:, kept].T, table)
            parts.append((mine, codes[0], second, counts, schur))
        return parts, df


def _codes(names: Names) -> np.ndarray:
    return np.unique([str(name) for name in names], return_inverse=True)[1].reshape(-1)


def _table(rows: np.ndarray, columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(clusters of the one, clusters of the other): sums of the weights of the answers in both."""
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    return np.bincount(rows * shape[1] + columns, weights, shape[0] * shape[1]).reshape(shape)


def _sums(values: np.ndarray, clusters: np.ndarray, count: int) -> np.ndarray:
    """(..., n) -> (..., clusters)."""
    from scipy.sparse import csr_matrix

    indicator = csr_matrix((np.ones(len(clusters)), (np.arange(len(clusters)), clusters)), (len(clusters), count))
    return np.asarray((indicator.T @ values.reshape(-1, len(clusters)).T).T).reshape(*values.shape[:-1], count)

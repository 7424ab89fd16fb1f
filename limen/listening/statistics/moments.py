r"""The equations of the method of moments for `limen.listening.statistics.crossed`: the contribution of each
variance to each sum of squares, and of the sums of squares to the variance of the estimate.

Every sum of squares is |C' M y|^2: C' sums the weighted answers of each cluster, and M = I - X (X' W X)^- X'
W removes their fit on indicators. tau_f, whose clusters have the indicators Z_f, adds the trace of C' M Z_f
Z_f' M' C to its expectation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


class Fit:
    """Weighted least squares on the indicators of clusters."""

    def __init__(self, blocks: Sequence[np.ndarray], weight: np.ndarray) -> None:
        first, *rest = sorted(blocks, key=lambda block: -int(block.max()))
        self.blocks, self.weight = [first, *rest], weight
        diagonal = np.bincount(first, weight)
        self._inverse = np.diag(1 / diagonal)
        self.rank = len(diagonal)
        if rest:  # the largest block is eliminated
            cross = self._sums(first, weight, rest)
            normal = np.concatenate([self._sums(block, weight, rest) for block in rest])
            scaled = cross / diagonal[:, None]
            values, vectors = np.linalg.eigh(normal - cross.T @ scaled)
            kept = values > 1e-9 * float(diagonal.max())
            inner = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
            across = scaled @ inner
            self._inverse = np.block([[self._inverse + across @ scaled.T, -across], [-across.T, inner]])
            self.rank += int(kept.sum())

    def left(self, y: np.ndarray) -> np.ndarray:
        """(..., n) -> (..., n): M y."""
        found = (
            np.concatenate([sums(y * self.weight, block, int(block.max()) + 1) for block in self.blocks], -1)
            @ self._inverse
        )
        start = 0
        for block in self.blocks:
            y = y - found[..., start + block]
            start += int(block.max()) + 1
        return y

    def onto(self, clusters: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(clusters, columns): C' X (X' W X)^-."""
        return self._sums(clusters, weights, self.blocks) @ self._inverse

    def weighted(self, clusters: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(columns, clusters): X' W C."""
        return self._sums(clusters, weights * self.weight, self.blocks).T

    def _sums(self, clusters: np.ndarray, weights: np.ndarray, blocks: Sequence[np.ndarray]) -> np.ndarray:
        return np.concatenate([table(clusters, block, weights) for block in blocks], 1)


@dataclass(frozen=True)
class Way:
    """A way in which answers cluster, and the fit that is removed before they are summed."""

    name: str
    clusters: np.ndarray
    weights: np.ndarray
    fit: Fit

    def square(self, y: np.ndarray) -> np.ndarray:
        """(..., n) -> (...)."""
        return (sums(self.fit.left(y) * self.weights, self.clusters, int(self.clusters.max()) + 1) ** 2).sum(
            -1
        )

    def through(self, clusters: np.ndarray) -> np.ndarray:
        """C' M Z."""
        fitted = self.fit.onto(self.clusters, self.weights) @ self.fit.weighted(
            clusters, np.ones(len(clusters))
        )
        return table(self.clusters, clusters, self.weights) - fitted

    def cross_product(self, other: "Way") -> np.ndarray:
        """C' M M' C of two ways: the contribution of single answers."""
        mine, theirs = (
            self.fit.onto(self.clusters, self.weights),
            other.fit.onto(other.clusters, other.weights),
        )
        squares = np.concatenate(
            [other.fit.weighted(block, self.fit.weight) for block in self.fit.blocks], 1
        ).T
        return (
            table(self.clusters, other.clusters, self.weights * other.weights)
            - mine @ self.fit.weighted(other.clusters, other.weights)
            - (theirs @ other.fit.weighted(self.clusters, self.weights)).T
            + mine @ squares @ theirs.T
        )


@dataclass(frozen=True)
class Moments:
    """The solved equations. Single answers are the last of the tau, their mean square is the last of the
    quadratics."""

    ways: list[Way]
    separable: tuple[str, ...]
    """Ways whose tau can be separated from that of single answers; a name that occurs twice: within
    conditions, and common to both."""
    df_error: float | None
    """Degrees of freedom of the mean square of single answers; None if sums over listeners replace it."""
    enough: float
    """Degrees of freedom of the variance of single answers."""
    expected: np.ndarray
    """(quadratics, tau): contribution of each tau to each quadratic."""
    inverse: np.ndarray
    weights: np.ndarray
    """Contribution of each quadratic to the variance of the estimate."""
    products: np.ndarray
    least_df: float
    """The smaller of the degrees of freedom of listeners alone and items alone."""


def moments(
    signed: Sequence[Way],
    shared: Sequence[Way],
    separable: Sequence[tuple[str, np.ndarray]],
    a: np.ndarray,
    df_error: float | None,
) -> Moments:
    """Solve the equations. `signed`: ways of the estimate, whose weights are `a`; `separable`: clusters
    within conditions whose variance is estimated; `shared`: clusters that occur in both conditions."""
    clusters = [*separable, *((s.name, s.clusters) for s in shared)]
    ways = [*signed, *shared]
    rows, columns = len(ways), len(clusters) + 1
    reach = [[way.through(f) for _, f in clusters] for way in ways]
    expected, products = np.zeros((rows, columns)), np.zeros((rows, rows, columns, columns))
    for g, h in np.argwhere(np.tri(rows)):
        forms = [*(x @ z.T for x, z in zip(reach[g], reach[h], strict=True)), ways[g].cross_product(ways[h])]
        for e, f in np.ndindex(columns, columns):
            products[g, h, e, f] = products[h, g, e, f] = (forms[e] * forms[f]).sum()
        if g == h:
            expected[g] = [np.trace(form) for form in forms]
    # each way alone, with all other variances zero
    names = [name for name, _ in separable]
    own = [names.index(way.name) if way.name in names else columns - 1 for way in signed]
    alone = [expected[g, k] ** 2 / products[g, g, k, k] for g, k in enumerate(own)]
    if df_error is not None:
        expected = np.vstack([expected, np.eye(columns)[-1:]])
    inverse = np.linalg.pinv(expected)
    target = np.array([*((np.bincount(f, a) ** 2).sum() for _, f in clusters), (a * a).sum()])
    enough = alone[0] if df_error is None else df_error
    least = min(alone, default=enough)
    return Moments(
        ways,
        tuple(name for name, _ in clusters),
        df_error,
        enough,
        expected,
        inverse,
        inverse.T @ target,
        products,
        least,
    )


def table(rows: np.ndarray, columns: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(clusters of the one, clusters of the other): sums of the weights of the answers in both."""
    shape = int(rows.max()) + 1, int(columns.max()) + 1
    return np.bincount(rows * shape[1] + columns, weights, shape[0] * shape[1]).reshape(shape)


def sums(values: np.ndarray, clusters: np.ndarray, count: int) -> np.ndarray:
    """(..., n) -> (..., clusters)."""
    from scipy.sparse import csr_matrix

    indicator = csr_matrix(
        (np.ones(len(clusters)), (np.arange(len(clusters)), clusters)), (len(clusters), count)
    )
    return np.asarray((indicator.T @ values.reshape(-1, len(clusters)).T).T).reshape(
        *values.shape[:-1], count
    )

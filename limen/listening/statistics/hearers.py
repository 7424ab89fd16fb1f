r"""Upper bound of the share of listeners who can hear a change, independently of the mean over all listeners.

A listener who hears it answers correctly with probability h or more in every trial, one who hears nothing
with probability c (chance) or more. A listener passes with at least k correct answers. With `alpha` and
`beta` the probabilities that a guesser and a listener who hears it pass, and theta that of a random listener,

    theta >= (1 - pi) alpha + pi beta,     so that     pi <= (U - alpha) / (beta - alpha)

where pi is the share of listeners who hear it and U the upper Clopper-Pearson bound of theta, for any
distribution of abilities. k is chosen from the design alone, to make the bound small if no listener hears
anything. If fewer listeners pass than expected from guessing, the bound is that of a study in which a
listener who hears it always passes and none did, 1 - 0.05^(1 / listeners). If listeners have different
numbers of trials, alpha and beta are means, because equal probabilities are the worst case (Hoeffding 1956,
https://doi.org/10.1214/aoms/1177728178).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from limen.core.errors import UserError
from limen.core.statistics import LEVEL, clopper_pearson
from limen.listening.statistics.betting import bets

DETECTED = 0.8
"""Share of trials in which a listener who hears it detects it; in the others they guess: 90 % correct with
two choices."""
FEW = 0.2
"""Largest share of listeners who may hear a change that is called inaudible."""


@dataclass(frozen=True)
class Hearers:
    listeners: int
    passed: int
    """Listeners with as many correct answers as one who hears it would have."""
    at_least: float
    """Share of correct answers of a listener who hears it."""
    high: float
    """Upper 95 % bound of the share of listeners who hear it."""


def hearers(
    right: Sequence[int], asked: Sequence[int], chance: float = 0.5, sides: int = 1, level: float = LEVEL
) -> Hearers:
    """One entry per listener: number of correct answers, and of trials. With two sides listeners with as many
    wrong answers pass, too (a preference for either)."""
    k, m = np.asarray(right, int), np.asarray(asked, int)
    if not len(k) or (m < 1).any() or (k < 0).any() or (k > m).any():
        raise UserError(
            f"hearers: got {list(right)} correct answers of {list(asked)} trials; expected at least one "
            "trial for each listener, and no more correct answers than trials."
        )
    reached = np.maximum(k, m - k) if sides == 2 else k
    least, alpha, beta = _least(m, chance, sides, level)
    passed = int((reached >= least).sum())
    return Hearers(len(k), passed, _right(chance), _bound(passed, len(k), alpha, beta, level))


def hearers_at_all_times(
    right: Sequence[int], asked: Sequence[int], planned: int, chance: float, alpha: float
) -> float:
    """Upper bound of the share of listeners who hear it, valid after every listener (`bets`). Listeners are
    in the order in which they finished; the number of correct answers to pass is chosen for the `planned`
    number of listeners, before any answer is known."""
    m = np.asarray(asked, int)
    least, guess, hear = _least(m, chance, 1, LEVEL, planned)
    top = bets((np.asarray(right, int) >= least).astype(float).tolist(), alpha=alpha).high
    return min(1.0, max(0.0, top - guess) / (hear - guess)) if hear > guess else 1.0


def power_few(
    asked: Sequence[int], share: float, chance: float, icc: float, sides: int = 1, level: float = LEVEL
) -> float:
    """Probability that the bound is at most FEW if all listeners have the same share of correct answers and
    two answers of a listener have the correlation icc (beta-binomial). `asked`: trials of each listener."""
    from scipy.stats import betabinom, binom

    m = np.asarray(asked, int)
    least, alpha, beta = _least(m, chance, sides, level)
    few = (
        bisect_right(range(len(m) + 1), FEW, key=lambda passed: _bound(passed, len(m), alpha, beta, level))
        - 1
    )
    more = (1 - icc) / icc if icc > 0 else 0.0
    one = betabinom(m, share * more, (1 - share) * more) if more else binom(m, share)
    passes = one.sf(least - 1) + (one.cdf(m - least) if sides == 2 else 0.0)
    return float(binom.cdf(few, len(m), min(1.0, float(np.mean(passes)))))


def _right(chance: float) -> float:
    """Share of correct answers of a listener who hears it."""
    return chance + DETECTED * (1 - chance)


def _least(
    m: np.ndarray, chance: float, sides: int, level: float, listeners: int | None = None
) -> tuple[np.ndarray, float, float]:
    """Correct answers that each listener needs to pass, and the mean probabilities that guessers and
    listeners who hear it pass."""
    from scipy.stats import binom

    need = {
        int(n): _threshold(int(n), listeners or len(m), chance, _right(chance), sides, level)
        for n in np.unique(m)
    }
    least = np.asarray([need[int(n)] for n in m])
    alpha = min(1.0, float(np.mean(sides * binom.sf(least - 1, m, chance))))
    return least, alpha, float(np.mean(binom.sf(least - 1, m, _right(chance))))


def _bound(passed: int, listeners: int, alpha: float, beta: float, level: float) -> float:
    return max(_corrected(passed, listeners, alpha, beta, level), _top(0, listeners, level))


def _corrected(passed: int, listeners: int, alpha: float, beta: float, level: float) -> float:
    """The bound, corrected for guessers who pass and for listeners who hear it but do not pass."""
    return (
        1.0
        if beta <= alpha
        else min(1.0, max(0.0, (_top(passed, listeners, level) - alpha) / (beta - alpha)))
    )


def _top(passed: int, listeners: int, level: float) -> float:
    """One-sided upper bound at this level."""
    return clopper_pearson(passed, listeners, 2 * level - 1)[1]


@cache
def _threshold(trials: int, listeners: int, chance: float, h: float, sides: int, level: float) -> int:
    """Number of correct answers to pass that minimises the expected bound if no listener hears anything."""
    from scipy.stats import binom

    best, found = np.inf, trials
    for need in range(trials, trials // 2, -1):
        alpha, beta = (
            min(1.0, float(sides * binom.sf(need - 1, trials, chance))),
            float(binom.sf(need - 1, trials, h)),
        )
        counts = np.unique(binom.ppf([0.05, 0.25, 0.5, 0.75, 0.95], listeners, alpha))
        weights = binom.pmf(counts, listeners, alpha)
        expected = float(
            np.average([_corrected(int(n), listeners, alpha, beta, level) for n in counts], weights=weights)
        )
        if expected < best:
            best, found = expected, need
    return found

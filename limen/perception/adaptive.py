r"""Adaptive sampling of a listener's threshold on one axis: the level to play next.

`next_level` and `posterior` depend on the answers so far and on nothing else, so a server that was killed
continues where it stopped.

psi         the level whose answer is expected to leave the least entropy. Kontsevich & Tyler 1999,
            https://doi.org/10.1016/S0042-6989(98)00285-5; Watson 2017 (QUEST+),
            https://doi.org/10.1167/17.3.10. With w the posterior over the points theta of the grid,
            h(p) = -p ln p - (1-p) ln(1-p) and p = P("different" | level, theta), the expected loss of
            entropy is

                I(level) = h( sum_theta w p ) - sum_theta w h(p)

            With `about` = "threshold" theta is the threshold alone and p its mean over slope, lapse and
            gamma: no trials are spent on the slope. Prins 2013, https://doi.org/10.1167/13.7.3.
greedy      near the most likely threshold, as in Manocha et al. 2020 (https://arxiv.org/abs/2001.04460):
            mu + q sigma, with mu and sigma maximising the likelihood times a prior that fades with the number
            of answers, and q against the answer given more often so far.
staircase   one up, one down; the step is halved at every turn. Levitt 1971,
            https://doi.org/10.1121/1.1912375.
random      levels drawn uniformly.
constant    a fixed set of levels, each once in random order, then again.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from limen.core import options as base
from limen.perception import psychometric
from limen.perception.psychometric import Grid, Posterior, Prior

History = Sequence[tuple[float, bool]]
"""(level, answered "different") of one listener on one axis, in the order of the answers."""


class Options(base.Options):
    """How levels are chosen, and when to stop."""

    method: Literal["psi", "greedy", "staircase", "random", "constant"] = "psi"
    """How the next level is chosen."""
    prior: Prior = Prior()
    """Levels that can be played, and the prior of a listener before the first answer."""
    about: Literal["threshold", "all"] = "threshold"
    """psi: what answers should determine, the threshold alone or also slope, lapse and false alarms."""
    prior_trials: float = Field(default=5.0, ge=0)
    """greedy: number of trials after which the prior (a Gaussian around the middle) has a third of its
    weight; 0: no prior."""
    push: float = Field(default=0.5, ge=0)
    """greedy: q if all answers so far were equal; 0 plays mu itself."""
    first_step: float = Field(default=20.0, gt=0)
    """staircase: first step, in levels."""
    last_step: float = Field(default=4.0, gt=0)
    """staircase: smallest step."""
    points: int = Field(default=9, ge=2, le=1000)
    """constant: number of levels."""
    min_trials: int = Field(default=8, ge=0)
    """Number of trials before which `stop_sd` does not end the track."""
    max_trials: int = Field(default=30, ge=1, le=1000)
    """Largest number of trials."""
    stop_sd: float | None = Field(default=None, gt=0)
    """Stop when the posterior standard deviation of the threshold is below this; null: never."""

    @model_validator(mode="after")
    def _in_order(self) -> "Options":
        if self.stop_sd is not None and self.min_trials > self.max_trials:
            raise ValueError(
                f"min_trials ({self.min_trials}) must not be larger than max_trials ({self.max_trials})."
            )
        return self


def posterior(options: Options, history: History) -> Posterior:
    """Threshold, slope, lapse and false alarms after these answers, with 95 % intervals."""
    levels, answers = _split(history)
    return psychometric.fit(levels, answers, options.prior)


def next_level(options: Options, history: History, seed: int) -> float | None:
    """The level to play next, one of the grid; None when the track has ended."""
    # cached: hundreds of listeners begin with the same few answers
    return _next_level(options, tuple(history), seed if options.method in ("random", "constant") else 0)


@lru_cache(maxsize=1 << 16)
def _next_level(options: Options, history: History, seed: int) -> float | None:
    if len(history) >= options.max_trials:
        return None
    levels, answers = _split(history)
    g = psychometric.grid(options.prior)
    stopping = options.stop_sd is not None and len(history) >= options.min_trials
    w = psychometric.weights(g, levels, answers) if stopping or options.method == "psi" else None
    if (
        w is not None
        and stopping
        and psychometric.estimate(g.thresholds, w.sum(1)).sd < (options.stop_sd or 0)
    ):
        return None
    if w is not None and options.method == "psi":
        return float(g.levels[most_informative(g, w[None], options.about)[0]])
    chosen = {"greedy": _greedy, "staircase": _staircase, "random": _random, "constant": _constant}[
        options.method
    ]
    return _nearest(g, chosen(options, levels, answers, seed))


def most_informative(g: Grid, w: np.ndarray, about: str = "threshold") -> np.ndarray:
    """(N, T, K) posteriors of N listeners -> (N,) indices of levels."""
    from scipy.special import entr

    down = w.sum(2).T  # (T, N)
    # (T, L, N): probability of each threshold together with "different" at each level
    joint = g.different @ w.transpose(1, 2, 0)
    different = joint.sum(0)
    if about == "all":
        left = np.tensordot(_entropies(g), w, ((0, 2), (1, 2)))
    else:
        left = (entr(joint) + entr(np.maximum(down[:, None] - joint, 0)) - entr(down)[:, None]).sum(0)
    gain = entr(different) + entr(1 - different) - left
    # ties, up to rounding that may differ between machines, are resolved to the lowest level
    return np.round(gain, 9).argmax(0)


@cache
def _entropies(g: Grid) -> np.ndarray:
    """(T, L, K): h(p) at every point."""
    from scipy.special import entr

    return entr(g.different) + entr(1 - g.different)


def _greedy(options: Options, levels: np.ndarray, answers: np.ndarray, seed: int) -> float:
    g = psychometric.grid(options.prior)
    middle, width = (g.levels[0] + g.levels[-1]) / 2, (g.levels[-1] - g.levels[0]) / 4
    n = len(levels)
    prior = (
        -0.5
        * ((g.thresholds - middle) / width) ** 2
        * (np.exp(-n / options.prior_trials) if options.prior_trials else 0)
    )
    fitted = psychometric.log_likelihood(g, levels, answers) + prior[:, None]
    # if all answers are equal the likelihood is flat over many thresholds: take their middle, not the first
    best = np.argwhere(fitted >= fitted.max() - 1e-9)
    mu, sigma = float(g.thresholds[best[:, 0]].mean()), float(g.slope[best[:, 1]].mean())
    q = options.push * (1 - 2 * answers.mean()) if n else 0.0
    return mu + q * sigma


def _staircase(options: Options, levels: np.ndarray, answers: np.ndarray, seed: int) -> float:
    if not len(levels):
        return (options.prior.lowest + options.prior.highest) / 2
    turns = int((answers[1:] != answers[:-1]).sum())
    step = max(options.last_step, options.first_step / 2**turns)
    return float(levels[-1]) + (-step if answers[-1] else step)


def _random(options: Options, levels: np.ndarray, answers: np.ndarray, seed: int) -> float:
    from limen.core.seeds import number

    rng = np.random.default_rng(number(seed, "level", len(levels)))
    return float(rng.choice(psychometric.grid(options.prior).levels))


def _constant(options: Options, levels: np.ndarray, answers: np.ndarray, seed: int) -> float:
    from limen.core.seeds import number

    block, place = divmod(len(levels), options.points)
    order = np.random.default_rng(number(seed, "block", block)).permutation(options.points)
    return float(np.linspace(options.prior.lowest, options.prior.highest, options.points)[order[place]])


def _nearest(g: Grid, level: float) -> float:
    return float(g.levels[np.abs(g.levels - level).argmin()])


def _split(history: History) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray([level for level, _ in history], float), np.asarray(
        [answer for _, answer in history], bool
    )

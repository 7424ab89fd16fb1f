"""Adaptive levels: psi beside QUEST+ and entropies written out in loops; what a killed server computes again;
how well it measures."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from limen.core.errors import UserError
from limen.core.options import parse_options
from limen.perception.adaptive import Options, next_level, posterior
from limen.perception.psychometric import Prior, grid, probability

COARSE = Prior(step=5, slopes=4, lapses=(0.02, 0.06), gammas=(0.04,))


def study(options, threshold, slope, lapse, luck, seed=0):
    history = []
    while (level := next_level(options, history, seed)) is not None:
        history.append((level, bool(luck[len(history)] < probability(level, threshold, slope, lapse, 0.04))))
    return history


@pytest.mark.parametrize("length", [0, 1, 4, 12])
def test_psi_about_all_chooses_what_questplus_chooses_on_the_same_grid(length):
    from questplus import QuestPlus

    theirs = QuestPlus(
        stim_domain={"intensity": np.arange(0, 101, 5.0)},
        param_domain={
            "mean": np.arange(0, 101, 5.0),
            "sd": np.geomspace(2, 32, 4),
            "lower_asymptote": np.array([0.04]),
            "lapse_rate": np.array([0.02, 0.06]),
        },
        outcome_domain={"response": ["Yes", "No"]},
        func="norm_cdf",
        stim_scale="linear",
        stim_selection_method="min_entropy",
        param_estimation_method="mean",
    )
    options = Options(prior=COARSE, about="all")
    rng = np.random.default_rng(length)
    history = []
    for _ in range(length):
        level, answer = float(rng.choice(np.arange(20, 81, 5.0))), bool(rng.random() < 0.5)
        history.append((level, answer))
        theirs.update(stim={"intensity": level}, outcome={"response": "Yes" if answer else "No"})
    assert next_level(options, history, seed=0) == theirs.next_stim["intensity"]
    assert posterior(options, history).threshold.mean == pytest.approx(theirs.param_estimate["mean"])


def test_psi_about_the_threshold_leaves_the_least_entropy_of_its_marginal():
    history = [(50.0, True), (30.0, False), (45.0, True), (35.0, False)]
    options = Options(prior=COARSE)
    left = {}
    for level in np.arange(0, 101, 5.0):
        expected = 0.0
        for answer in (False, True):
            after = np.array(posterior(options, [*history, (level, answer)]).marginal)
            expected += predicted(level, answer, history) * -(after * np.log(after + 1e-300)).sum()
        left[level] = expected
    assert next_level(options, history, seed=0) == min(left, key=left.__getitem__)


def predicted(level, answer, history):
    """Chance of an answer: ratio of the likelihoods of the history with and without it, both summed over the
    grid."""
    g = grid(COARSE)

    def summed(trials):
        total = 0.0
        for t in g.thresholds:
            p = [probability(x, t, g.slope, g.lapse, g.gamma) for x, _ in trials]
            total += sum(
                math.prod(q[k] if a else 1 - q[k] for q, (_, a) in zip(p, trials, strict=True))
                for k in range(len(g.slope))
            )
        return total

    return summed([*history, (level, answer)]) / summed(history)


@pytest.mark.parametrize("method", ["psi", "greedy", "staircase", "random", "constant"])
def test_a_killed_server_computes_the_same_levels_again(method):
    options = Options(method=method, max_trials=12, prior=COARSE)
    luck = np.random.default_rng(7).random(12)
    history = study(options, 42, 8, 0.02, luck)
    assert len(history) == 12
    assert [next_level(options, history[:n], 0) for n in range(12)] == [level for level, _ in history]
    assert next_level(options, history, 0) is None
    assert all(level in grid(COARSE).levels for level, _ in history)


def test_other_seeds_give_other_random_levels_and_the_same_psi():
    drawn = [
        [next_level(Options(method="random"), [(50.0, True)] * n, seed) for n in range(10)] for seed in (0, 1)
    ]
    assert drawn[0] != drawn[1]
    assert next_level(Options(), [(50.0, True)], 0) == next_level(Options(), [(50.0, True)], 1)


def test_constant_levels_come_once_per_block():
    options = Options(method="constant", points=5)
    levels = [next_level(options, [(0.0, True)] * n, 3) for n in range(10)]
    assert sorted(levels[:5]) == sorted(levels[5:]) == [0, 25, 50, 75, 100]
    assert levels[:5] != levels[5:]


def test_a_staircase_goes_down_after_different_and_halves_its_step_at_turns():
    options = Options(method="staircase", first_step=16, last_step=4)
    answers, levels = [True, True, False, True, False, False], []
    for n in range(6):
        levels.append(next_level(options, list(zip(levels, answers[:n], strict=True)), 0))
    assert levels == [50, 34, 18, 26, 22, 26]
    assert next_level(options, [(98.0, False)], 0) == 100, "never outside the range"


def test_the_push_breaks_a_run_of_equal_answers():
    same = [(40.0, False), (45.0, False), (50.0, False), (50.0, True), (50.0, False)]
    plain, pushed = (next_level(Options(method="greedy", push=push), same, 0) for push in (0, 1))
    assert pushed > plain
    opposite = [(level, not answer) for level, answer in same]
    plain, pushed = (next_level(Options(method="greedy", push=push), opposite, 0) for push in (0, 1))
    assert pushed < plain


def test_the_prior_of_greedy_holds_the_first_levels_near_the_middle_and_then_fades():
    lied = [(50.0, False)]
    assert 50 < next_level(Options(method="greedy", push=0, prior_trials=5), lied, 0) < 75
    assert next_level(Options(method="greedy", push=0, prior_trials=0), lied, 0) > 75
    clear = [(20.0, False), (30.0, True)] * 15
    assert next_level(Options(method="greedy", push=0, max_trials=60), clear, 0) == pytest.approx(25, abs=2)


def test_it_stops_once_the_threshold_is_known_well_enough_but_not_before_the_fewest_trials():
    options = Options(prior=COARSE, stop_sd=6, min_trials=10, max_trials=60)
    history = study(options, 40, 3, 0.0, np.random.default_rng(0).random(60))
    assert 10 <= len(history) < 60
    assert posterior(options, history).threshold.sd < 6
    assert len(history) == 10 or posterior(options, history[:-1]).threshold.sd >= 6
    assert len(study(Options(prior=COARSE, stop_sd=100, min_trials=10), 40, 3, 0.0, np.full(30, 0.5))) == 10


def test_fewest_trials_above_most_trials_are_refused():
    with pytest.raises(UserError, match="min_trials"):
        parse_options(Options, {"min_trials": 40, "stop_sd": 5}, "adaptive")


def test_psi_measures_better_than_random_levels_and_than_a_staircase_as_usually_read_and_its_intervals_hold():
    """A small version of benchmarks/bench_adaptive.py; the full one is in docs/benchmarks_adaptive.md."""
    n, trials = 300, 20
    prior = Prior(step=2, slopes=5, lapses=(0.02, 0.06), gammas=(0.04,))
    rng = np.random.default_rng(11)
    threshold, slope, lapse = (
        rng.uniform(15, 85, n),
        np.exp(rng.uniform(math.log(2), math.log(32), n)),
        rng.uniform(0, 0.08, n),
    )
    luck = rng.random((n, trials))
    errors, inside = {}, 0
    for method in ("psi", "random", "staircase"):
        options = Options(method=method, prior=prior, max_trials=trials)
        found = []
        for i in range(n):
            history = study(options, threshold[i], slope[i], lapse[i], luck[i], seed=i)
            if method == "staircase":
                found.append([mean_of_turns(history[:12]), mean_of_turns(history)])
            else:
                early, known = (posterior(options, history[:t]).threshold for t in (12, trials))
                found.append([early.mean, known.mean])
                inside += method == "psi" and known.low <= threshold[i] <= known.high
        errors[method] = np.sqrt(np.mean((np.array(found) - threshold[:, None]) ** 2, axis=0))
    assert (errors["psi"] < errors["staircase"]).all()
    assert (errors["staircase"] < errors["random"]).all()
    low, high = binom.ppf([0.0005, 0.9995], n, 0.95)
    assert low <= inside <= high


def mean_of_turns(history):
    turns = [b[0] for a, b in pairwise(history) if a[1] != b[1]]
    return np.mean(turns[2:] if len(turns) > 4 else turns or [history[-1][0]])

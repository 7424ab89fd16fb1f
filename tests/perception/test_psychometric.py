"""The posterior on a grid beside brute force and maximum likelihood; and what it says when there is hardly
anything to say."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import norm

from limen.core.errors import UserError
from limen.core.options import parse_options
from limen.perception.psychometric import Prior, estimate, fit, pooled, probability

SMALL = Prior(step=5, slopes=4, lapses=(0.02, 0.06), gammas=(0.04,))


def answers_of(levels, threshold, slope, lapse, gamma, seed):
    rng = np.random.default_rng(seed)
    return rng.random(len(levels)) < probability(levels, threshold, slope, lapse, gamma)


def test_the_function_runs_from_gamma_to_one_less_the_lapses_and_is_half_way_at_the_threshold():
    assert probability(-1e6, 40, 8, 0.03, 0.04) == pytest.approx(0.04)
    assert probability(1e6, 40, 8, 0.03, 0.04) == pytest.approx(0.97)
    assert probability(40, 40, 8, 0.03, 0.04) == pytest.approx((0.04 + 0.97) / 2)
    assert probability(48, 40, 8) == pytest.approx(norm.cdf(1))
    assert probability(40, 40, 8, gamma=0.5) == pytest.approx(0.75)


def test_the_posterior_is_the_product_of_prior_and_likelihood_written_out_in_loops():
    levels, answers = [30.0, 55.0, 42.5, 60.0, 42.5], [False, True, False, True, True]
    points = []
    for t in np.arange(0, 101, 5):
        for s in np.geomspace(2, 32, 4):
            for lapse in (0.02, 0.06):
                p = [0.04 + (0.96 - lapse) * norm.cdf((x - t) / s) for x in levels]
                points.append(
                    (t, s, lapse, math.prod(q if a else 1 - q for q, a in zip(p, answers, strict=True)))
                )
    t, s, lapse, w = np.array(points).T
    w /= w.sum()
    found = fit(levels, answers, SMALL)
    assert found.threshold.mean == pytest.approx(w @ t)
    assert found.threshold.sd == pytest.approx(math.sqrt(w @ (t - w @ t) ** 2))
    assert found.slope.mean == pytest.approx(w @ s)
    assert found.lapse.mean == pytest.approx(w @ lapse)
    assert found.marginal == pytest.approx([w[t == x].sum() for x in np.arange(0, 101, 5)])
    assert found.best == pytest.approx(
        {"threshold": t[w.argmax()], "slope": s[w.argmax()], "lapse": lapse[w.argmax()], "gamma": 0.04}
    )


def test_with_many_answers_the_posterior_is_that_of_maximum_likelihood():
    levels = np.tile(np.arange(10, 91, 5.0), 60)
    answers = answers_of(levels, 47.3, 9.0, 0.03, 0.04, seed=1)
    prior = Prior(step=0.25, slopes=81, steepest=4, shallowest=20, lapses=(0.03,), gammas=(0.04,))
    found = fit(levels, answers, prior)

    def loss(theta):
        p = probability(levels, theta[0], math.exp(theta[1]), 0.03, 0.04)
        return -np.log(np.where(answers, p, 1 - p)).sum()

    best = minimize(loss, [50, 2.0], method="BFGS")
    assert found.threshold.mean == pytest.approx(best.x[0], abs=0.1)
    assert found.slope.median == pytest.approx(math.exp(best.x[1]), rel=0.02)
    assert found.threshold.sd == pytest.approx(math.sqrt(best.hess_inv[0, 0]), rel=0.1)
    assert found.threshold.high - found.threshold.low == pytest.approx(
        2 * 1.96 * found.threshold.sd, rel=0.02
    )


def test_no_answers_give_the_prior_and_a_flat_one():
    found = fit([], [])
    assert found.trials == 0
    assert found.open_end is None
    assert found.threshold.mean == pytest.approx(50)
    assert found.threshold.low == pytest.approx(2.5, abs=0.6)
    assert found.threshold.high == pytest.approx(97.5, abs=0.6)
    assert set(np.round(found.marginal, 12)) == {round(1 / 101, 12)}


@pytest.mark.parametrize("answer", [False, True])
@pytest.mark.parametrize("trials", [1, 30, 2000])
def test_equal_answers_give_a_bound_and_say_so(answer, trials):
    found = fit([50.0] * trials, [answer] * trials)
    assert found.open_end == ("low" if answer else "high")
    assert (found.threshold.mean < 50) == answer
    assert all(
        np.isfinite(
            [
                getattr(e, n)
                for e in (found.threshold, found.slope, found.lapse)
                for n in ("mean", "sd", "low", "high")
            ]
        )
    )
    assert sum(found.marginal) == pytest.approx(1)


def test_an_answer_that_a_prior_without_lapses_rules_out_breaks_nothing():
    found = fit(
        [0.0, 100.0, 100.0],
        [True, False, True],
        Prior(lapses=(0.0,), gammas=(0.0,), steepest=2, shallowest=2, slopes=1),
    )
    assert np.isfinite(found.threshold.mean)
    assert found.slope.sd == 0


def test_abx_answers_are_fitted_with_gamma_fixed_at_a_half():
    levels = np.tile(np.arange(5, 96, 5.0), 50)
    found = fit(levels, answers_of(levels, 60, 10, 0.02, 0.5, seed=3), Prior(gammas=(0.5,)))
    assert found.threshold.low < 60 < found.threshold.high
    assert (found.gamma.low, found.gamma.high) == (0.5, 0.5)


def test_quantiles_of_a_grid_are_those_of_the_distribution_it_stands_for():
    points = np.arange(0, 101, 1.0)
    w = norm.pdf(points, 50.3, 6)
    found = estimate(points, w / w.sum())
    assert found.low == pytest.approx(50.3 - 1.95996 * 6, abs=0.05)
    assert found.median == pytest.approx(50.3, abs=0.05)
    assert found.high == pytest.approx(50.3 + 1.95996 * 6, abs=0.05)


def test_pooled_thresholds_have_the_mean_and_spread_of_listeners_who_are_known_exactly():
    """With likelihoods that are spikes, the posterior of mu is Student's, of the thresholds themselves (with
    a flat prior on tau)."""
    prior = Prior(lapses=(0.01,), gammas=(0.01,), steepest=1, shallowest=1, slopes=1)
    thresholds = np.array([30, 38, 41, 44, 47, 50, 52, 55, 57, 60, 66, 72])
    levels = [np.repeat([t - 0.5, t + 0.5], 400) for t in thresholds]
    fits = [
        fit(x, np.arange(800) % 400 < 400 * probability(x, t, 1, 0.01, 0.01), prior)
        for x, t in zip(levels, thresholds, strict=True)
    ]
    found = pooled(fits, prior)
    assert found.listeners == 12
    assert found.mean.mean == pytest.approx(thresholds.mean(), abs=0.3)
    # flat in tau: degrees of freedom n - 2 instead of n - 1
    from scipy.stats import t as student

    sum_of_squares = ((thresholds - thresholds.mean()) ** 2).sum()
    half = student.ppf(0.975, 10) * math.sqrt(sum_of_squares / 10 / 12)
    assert (found.mean.high - found.mean.low) / 2 == pytest.approx(half, rel=0.03)
    assert found.spread.low < thresholds.std(ddof=1) < found.spread.high


def test_one_listener_says_little_about_a_population():
    found = pooled([fit([40.0, 60.0] * 50, [False, True] * 50)])
    assert found.mean.high - found.mean.low > 25


def test_pooling_nothing_or_posteriors_of_another_grid_is_refused():
    with pytest.raises(UserError, match="at least one"):
        pooled([])
    with pytest.raises(UserError, match="prior given here"):
        pooled([fit([50.0], [True], SMALL)])


def test_levels_and_answers_must_be_as_many():
    with pytest.raises(UserError, match="2 levels and 1 answers"):
        fit([1.0, 2.0], [True])
    with pytest.raises(UserError, match="finite"):
        fit([math.nan], [True])


def test_impossible_priors_are_refused_in_words():
    for values, words in (
        ({"highest": 0}, "one step"),
        ({"shallowest": 1}, "steepest"),
        ({"gammas": [0.5, 0.95]}, "less than 1"),
    ):
        with pytest.raises(UserError, match=words):
            parse_options(Prior, values, "prior")


@pytest.mark.parametrize(
    "huge",
    [{"slopes": 10**9}, {"step": 1e-6}, {"lowest": -1e308, "highest": 1e308}, {"lapses": [0.01] * 1000}],
)
def test_a_grid_that_fits_no_memory_is_refused_before_it_is_made(huge):
    with pytest.raises(UserError, match=r"the grid would have .* points; at most 20,000,000 are allowed"):
        parse_options(Prior, huge, "prior")


def test_a_posterior_becomes_json():
    assert json.loads(json.dumps(dataclasses.asdict(fit([50.0], [True]))))["trials"] == 1

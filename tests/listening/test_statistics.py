"""Shares, tests against chance, sensitivity, many tests at once, beside published numbers, scipy, statsmodels
and simulated observers."""

import dataclasses
import json
import math

import numpy as np
import pytest
import simulated_answers as simulated
from scipy.optimize import brentq
from scipy.stats import binom, norm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from limen.core.errors import UserError
from limen.listening.statistics.crossed import Crossing
from limen.listening.statistics.detection import abx_share, dprime, sensitivity
from limen.listening.statistics.proportions import benjamini_hochberg, equivalence, holm, proportion
from limen.listening.statistics.samples import judged, share_interval


@pytest.mark.parametrize(("right", "low", "high"), [(70, 0.90, 0.99), (59, 0.71, 0.90), (40, 0.43, 0.67)])
def test_intervals_of_the_published_abx_study_come_out_again(right, low, high):
    found = proportion(right, 72)
    assert math.floor(found.low * 100) / 100 == low
    assert math.floor(found.high * 100) / 100 == high


def test_p_values_of_the_published_abx_study_come_out_again():
    found = proportion(40, 72)
    assert found.p_greater == pytest.approx(0.2, abs=0.01)
    assert found.p_two_sided == pytest.approx(0.41, abs=0.005)


def test_p_values_are_tails_of_the_binomial_distribution():
    assert proportion(9, 20, chance=0.25).p_greater == pytest.approx(
        sum(binom.pmf(k, 20, 0.25) for k in range(9, 21))
    )
    assert proportion(0, 5).low == 0
    assert proportion(5, 5).high == 1


def test_not_different_from_chance_is_not_yet_equivalent_to_it():
    """The published 40 of 72 are not significantly above chance, but nor do they show a share within 10
    points of it."""
    found = equivalence(40, 72, bound=0.1)
    assert not found.equivalent
    assert found.p == pytest.approx(binom.cdf(40, 72, 0.6))
    assert equivalence(250, 500, bound=0.1).equivalent
    assert not equivalence(290, 500, bound=0.1).equivalent


@pytest.mark.parametrize("n", [20, 72, 200])
def test_equivalence_is_the_interval_of_level_90_lying_inside_the_bounds(n):
    for k in range(n + 1):
        found = equivalence(k, n, bound=0.15)
        assert found.equivalent == (found.low > 0.35 and found.high < 0.65)


def test_equivalence_is_wrongly_shown_at_most_as_often_as_it_says():
    for n in (30, 72, 150):
        shown = [equivalence(k, n, bound=0.15).equivalent for k in range(n + 1)]
        assert binom.pmf(np.flatnonzero(shown), n, 0.65).sum() <= 0.05


def test_impossible_counts_and_bounds_are_refused():
    with pytest.raises(UserError, match="5 of 4"):
        proportion(5, 4)
    with pytest.raises(UserError, match="bound"):
        equivalence(1, 4, bound=0.6)


@pytest.mark.parametrize(("ours", "theirs"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])
def test_adjusted_p_values_are_those_of_statsmodels(ours, theirs):
    p = np.random.default_rng(0).random(20) ** 3
    assert ours(p).p == pytest.approx(multipletests(p, method=theirs)[1])
    assert ours([0.04]).p == (0.04,)
    assert ours([]).p == ()


def test_a_p_value_above_one_is_refused():
    with pytest.raises(UserError, match="0 to 1"):
        holm([0.1, 1.2])


@pytest.mark.parametrize(
    ("model", "d"), [("differencing", 0.8), ("differencing", 2.0), ("independent", 0.8), ("independent", 2.0)]
)
def test_abx_shares_are_those_of_simulated_observers(model, d):
    """Differencing: X goes with the nearer of A and B. Independent: A and B are told apart first, then X by
    the middle between them."""
    rng = np.random.default_rng(1)
    n = 400_000
    swapped = rng.random(n) < 0.5  # A is the weak one, or the strong one
    a, b = rng.standard_normal((2, n)) + np.where([swapped, ~swapped], d / 2, -d / 2)
    is_a = rng.random(n) < 0.5
    x = rng.standard_normal(n) + np.where(is_a == swapped, d / 2, -d / 2)
    says_a = np.abs(x - a) < np.abs(x - b) if model == "differencing" else (x > 0) == (a > b)
    assert (says_a == is_a).mean() == pytest.approx(float(abx_share(d, model)), abs=4 * math.sqrt(0.25 / n))


@pytest.mark.parametrize("model", ["differencing", "independent"])
def test_dprime_of_abx_is_the_inverse_of_its_share(model):
    for d in (0.3, 1.0, 2.5, 4.0):
        share = float(abx_share(d, model))
        assert float(dprime(share, 1 - share, "abx", model)) == pytest.approx(d, abs=1e-9)
    assert float(dprime(0.4, 0.6, "abx", model)) == pytest.approx(-float(dprime(0.6, 0.4, "abx", model)))


def test_abx_at_three_quarters_right_solves_the_equations_of_macmillan_and_creelman():
    for model, second in (("differencing", math.sqrt(6)), ("independent", 2)):
        share = lambda d, s=second: (
            norm.cdf(d / math.sqrt(2)) * norm.cdf(d / s) + norm.sf(d / math.sqrt(2)) * norm.sf(d / s)
        )
        assert float(dprime(0.75, 0.25, "abx", model)) == pytest.approx(
            brentq(lambda d, f=share: f(d) - 0.75, 0, 10)
        )
    assert float(dprime(0.75, 0.25, "abx")) == pytest.approx(2.020, abs=0.001)
    assert float(dprime(0.75, 0.25, "abx", "independent")) == pytest.approx(1.790, abs=0.001)


def test_same_different_by_differencing_is_that_of_simulated_observers():
    rng = np.random.default_rng(2)
    d, k, n = 1.7, 1.4, 400_000
    same = np.abs(rng.standard_normal(n) - rng.standard_normal(n)) > k
    different = np.abs(rng.standard_normal(n) + d - rng.standard_normal(n)) > k
    assert float(dprime(different.mean(), same.mean(), "same-different")) == pytest.approx(d, abs=0.02)


def test_same_different_with_independent_observations_is_that_of_simulated_observers():
    """An unbiased observer says "different" when the two fall on different sides of the middle."""
    rng = np.random.default_rng(3)
    d, n = 1.7, 400_000
    centre = rng.choice([-d / 2, d / 2], n)
    equal = (rng.standard_normal(n) + centre > 0) != (rng.standard_normal(n) + centre > 0)
    unequal = (rng.standard_normal(n) + centre > 0) != (rng.standard_normal(n) - centre > 0)
    assert float(dprime(unequal.mean(), equal.mean(), "same-different", "independent")) == pytest.approx(
        d, abs=0.02
    )


def test_yes_no_sensitivity_is_the_difference_of_z_scores_after_the_log_linear_correction():
    found = sensitivity(20, 25, 5, 25, "yes-no")
    h, f = 20.5 / 26, 5.5 / 26
    assert found.dprime == pytest.approx(norm.ppf(h) - norm.ppf(f))
    assert found.bias == pytest.approx(-(norm.ppf(h) + norm.ppf(f)) / 2)
    assert found.model is None


def test_the_interval_of_independent_answers_is_about_that_of_the_delta_method():
    low, high = proportion_confint(310, 400, 0.05, "wilson")
    found = sensitivity(160, 200, 50, 200, "yes-no", interval=(low, high))
    h, f = found.hit_rate, found.false_alarm_rate
    variance = sum(p * (1 - p) / 200 / norm.pdf(norm.ppf(p)) ** 2 for p in (h, f))
    assert found.high - found.low == pytest.approx(2 * 1.96 * math.sqrt(variance), rel=0.06)
    assert sensitivity(160, 200, 50, 200, "yes-no").low is None


@pytest.mark.parametrize("design", ["abx", "same-different", "yes-no"])
@pytest.mark.parametrize(("hits", "alarms"), [(60, 40), (80, 60), (20, 10), (30, 50), (100, 0), (50, 50)])
def test_the_interval_of_dprime_holds_0_where_that_of_the_share_holds_chance(design, hits, alarms):
    share = (hits + 100 - alarms) / 200
    for half in (0.03, 0.2):
        low, high = max(0.0, share - half), min(1.0, share + half)
        found = sensitivity(hits, 100, alarms, 100, design, interval=(low, high))
        assert (found.low <= 0 <= found.high) == (low <= 0.5 <= high)
        assert found.low < found.dprime <= found.high


def test_the_interval_of_dprime_keeps_its_coverage_under_listeners_and_items():
    """Clips that differ by 0.8 log odds: drawing listeners again held the true 0 in 55 % of such studies."""
    who, what = simulated.everyone_hears_all(36, 6)
    crossing, studies, held = Crossing(who, what), 600, 0
    right = simulated.right(who, what, 0.5, 0.0, 0.8, studies, np.random.default_rng(12))
    share, effect, df = judged(crossing, right)
    ends = np.stack(share_interval(share, effect, df, crossing.n), 1)
    signal = what % 2 == 0
    for y, interval in zip(right, ends.tolist(), strict=True):
        hits, alarms = int(y[signal].sum()), int((~y[~signal]).sum())
        found = sensitivity(hits, int(signal.sum()), alarms, int((~signal).sum()), interval=tuple(interval))
        held += found.low <= 0 <= found.high
    assert held / studies == pytest.approx(0.95, abs=0.03)


def test_perfect_and_hopeless_listeners_have_a_finite_dprime():
    best, worst = sensitivity(10, 10, 0, 10), sensitivity(0, 10, 10, 10)
    assert math.isfinite(best.dprime)
    assert best.dprime > 3
    assert worst.dprime == pytest.approx(-best.dprime)
    assert (best.truncated, worst.truncated) == (best.dprime, 0.0)


@pytest.mark.parametrize("design", ["abx", "same-different"])
def test_where_nothing_is_heard_the_mean_dprime_is_0_and_the_truncated_one_is_not(design):
    rng = np.random.default_rng(11)
    found = []
    for hits, alarms in zip(
        rng.binomial(108, 0.5, 300).tolist(), rng.binomial(108, 0.5, 300).tolist(), strict=True
    ):
        found.append(sensitivity(hits, 108, alarms, 108, design))
    signed, truncated = (np.array([getattr(f, name) for f in found]) for name in ("dprime", "truncated"))
    assert abs(signed.mean()) < 3.3 * signed.std() / math.sqrt(300)
    assert truncated.mean() > 0.2


def test_signed_dprime_rises_with_the_share():
    shares = np.linspace(0.01, 0.99, 99)
    for design in ("abx", "same-different", "yes-no"):
        d = dprime(shares, 1 - shares, design)
        assert (np.diff(d) > 0).all()
        assert d == pytest.approx(-d[::-1], abs=1e-9)


def test_more_hits_than_trials_are_refused():
    with pytest.raises(UserError, match="no more hits than"):
        sensitivity(5, 4, 0, 4)


def test_results_become_json():
    for result in (proportion(3, 7), equivalence(3, 7, 0.3), sensitivity(3, 7, 1, 7), holm([0.1, 0.2])):
        assert json.loads(json.dumps(dataclasses.asdict(result)))

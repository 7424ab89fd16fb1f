"""Shares and means over listeners and items: closed forms, statsmodels, and simulated studies whose truth is
known."""

import math
import warnings

import numpy as np
import pytest
import simulated_answers as simulated
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.proportion import proportion_confint

from limen.core.errors import UserError
from limen.listening.statistics.crossed import Crossing
from limen.listening.statistics.samples import (
    judged,
    p_above,
    p_within,
    sampled_mean,
    sampled_share,
    share_interval,
)


def within_error(seen: float, low: float, high: float, studies: int) -> bool:
    """Whether a rate may be one between these, by 3.3 standard errors of a simulation."""
    return (
        low - 3.3 * math.sqrt(low * (1 - low) / studies)
        <= seen
        <= high + 3.3 * math.sqrt(high * (1 - high) / studies)
    )


def test_where_everyone_hears_all_the_variance_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    listeners, items = 9, 7
    who, what = simulated.everyone_hears_all(listeners, items)
    y = rng.standard_normal(len(who)) + rng.standard_normal(listeners)[who] + rng.standard_normal(items)[what]
    fit = OLS.from_formula("y ~ C(who) + C(what)", {"y": y, "who": who, "what": what}).fit()
    squares = anova_lm(fit)["mean_sq"]
    a, b, e = squares["C(who)"], squares["C(what)"], squares["Residual"]
    order = rng.permutation(len(y))
    spread = Crossing(who[order], what[order]).spread(y[order])
    assert spread.value == pytest.approx(y.mean())
    assert spread.variance == pytest.approx((a + b - e) / len(y))
    satterthwaite = (a + b - e) ** 2 / (
        a**2 / (listeners - 1) + b**2 / (items - 1) + e**2 / ((listeners - 1) * (items - 1))
    )
    assert spread.df == pytest.approx(max(satterthwaite, items - 1))


def test_the_variance_is_right_on_average_whoever_heard_what():
    rng = np.random.default_rng(1)
    who = np.repeat(np.arange(14), 6)
    what = np.concatenate([rng.permutation(15)[:6] for _ in range(14)])
    crossing = Crossing(who, what)
    y = (
        0.7 * rng.standard_normal((4000, 14))[:, who]
        + 0.9 * rng.standard_normal((4000, 15))[:, what]
        + rng.standard_normal((4000, 84))
    )
    spread = crossing.spread(y)
    assert spread.variance.mean() == pytest.approx(spread.value.var(), rel=0.06)
    assert spread.variance.mean() == pytest.approx(crossing.expected(0.49, 0.81, 1.0).variance, rel=0.04)


def test_of_many_listeners_and_items_the_error_is_that_of_two_way_clustering_in_statsmodels():
    rng = np.random.default_rng(2)
    who, what = simulated.everyone_hears_all(60, 50)
    y = 0.8 * rng.standard_normal(60)[who] + 0.8 * rng.standard_normal(50)[what] + rng.standard_normal(3000)
    fit = OLS(y, np.ones(3000)).fit(cov_type="cluster", cov_kwds={"groups": np.stack([who, what], 1)})
    assert math.sqrt(Crossing(who, what).spread(y).variance) == pytest.approx(fit.bse[0], rel=0.03)


def test_one_item_leaves_a_t_test_over_listeners_and_single_answers_a_plain_one():
    y = [3.0, 4.0, 2.0, 5.0, 4.0, 4.0]
    low, high = stats.t.interval(0.95, 5, np.mean(y), stats.sem(y))
    for listeners, items in (([1, 2, 3, 4, 5, 6], ["x"] * 6), ([1, 2, 3, 4, 5, 6], list("abcdef"))):
        found = sampled_mean(y, listeners, items)
        assert (found.low, found.high) == pytest.approx((low, high))
    twice = sampled_mean(
        [v + d for v in y for d in (-1, 1)], [k for k in range(6) for _ in range(2)], list("xy") * 6
    )
    assert twice.value == pytest.approx(np.mean(y))


def test_answers_of_one_listener_say_nothing_about_others():
    found = sampled_share([True, False, True], [1, 1, 1], ["a", "b", "c"])
    assert (found.value, found.low, found.high, found.p_greater) == (pytest.approx(2 / 3), None, None, None)


def test_if_all_answers_are_equal_they_are_taken_to_be_as_alike_as_planned():
    found = sampled_share([True] * 40, [k for k in range(10) for _ in range(4)], [k % 4 for k in range(40)])
    low, high = proportion_confint(40, 40, 0.05, "wilson")
    assert found.high == high == 1.0
    assert found.low < low
    assert found.design_effect == pytest.approx(1 + 3 * 0.05)
    # one answer less does not make it narrower
    assert (
        found.low
        > sampled_share(
            [True] * 39 + [False], [k for k in range(10) for _ in range(4)], [k % 4 for k in range(40)]
        ).low
    )


def test_interval_and_tests_are_one_statistic():
    rng = np.random.default_rng(3)
    who, what = simulated.everyone_hears_all(20, 12)
    for y in simulated.right(who, what, 0.58, 0.1, 0.4, 40, rng):
        found = sampled_share(y, who, what, 0.5, 0.1)
        assert (found.p_two_sided < 0.05) == (not found.low < 0.5 < found.high)
        narrow = sampled_share(y, who, what, 0.5, 0.1, level=0.9)
        assert (found.p_equivalent < 0.05) == (narrow.low > 0.4 and narrow.high < 0.6)


@pytest.mark.parametrize(("listeners", "items"), [(3, 2), (3, 3), (5, 7), (10, 3)])
def test_if_every_listener_rates_each_condition_alike_the_difference_is_judged_by_a_sign_test(
    listeners, items
):
    """Rounding made the variance 1e-33 and p 1e-31."""
    who, place = simulated.everyone_hears_all(listeners, 2 * items)
    second = place >= items
    found = sampled_mean((4.0 - second).tolist(), who, place, second)
    assert found.value == pytest.approx(-1)
    assert found.p == pytest.approx(2 * 0.5**listeners)
    assert (found.low, found.high) == (None, None)
    if listeners > 3:  # clips that differ for everyone alike change nothing, if both conditions have the same
        same = sampled_mean(4.0 - second + 0.1 * (place % items), who, place % items, second)
        assert same.p == pytest.approx(2 * 0.5**listeners)
    assert sampled_mean(np.full(len(who), 0.1), who, place, second).p == 1.0


def test_between_listeners_who_all_agree_the_test_is_one_of_permutations():
    found = sampled_mean([3.0] * 3 + [4.0] * 3, range(6), list("abcabc"), [False] * 3 + [True] * 3)
    assert found.p == pytest.approx(2 / math.comb(6, 3))


def test_no_answers_left_over_for_an_error_are_no_division_by_zero():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sampled_mean([3.0, 4.0], [1, 2], ["a", "b"], [False, True])
    assert (found.value, found.p) == (1.0, 1.0)


def test_wrong_lengths_and_single_conditions_are_refused():
    with pytest.raises(UserError, match="got 2 answers, 1 listeners"):
        sampled_share([True, False], [1], ["a", "b"])
    with pytest.raises(UserError, match="one condition only"):
        sampled_mean([1.0, 2.0], [1, 2], ["a", "b"], [True, True])


@pytest.mark.parametrize(("listeners", "items"), [(36, 6), (20, 12), (8, 12)])
@pytest.mark.parametrize(("icc", "item_sd"), [(0, 0), (0, 0.8), (0.15, 0.4), (0.3, 0), (0.3, 0.8)])
def test_tests_keep_their_level_and_intervals_their_coverage_under_listeners_and_items(
    listeners, items, icc, item_sd
):
    """The grid of docs/benchmarks_statistics.md, with fewer studies of each."""
    rng = np.random.default_rng(int(1000 * icc + 100 * item_sd + listeners))
    who, what = simulated.everyone_hears_all(listeners, items)
    crossing, n, studies = Crossing(who, what), listeners * items, 1000
    share, effect, df = judged(crossing, simulated.right(who, what, 0.5, icc, item_sd, studies, rng))
    above = p_above(share, effect, df, n, 0.5)
    assert within_error(float((above < 0.05).mean()), 0.03, 0.06, studies)
    assert within_error(float((2 * np.minimum(above, 1 - above) < 0.05).mean()), 0.03, 0.06, studies)
    for true in (0.5, 0.6, 0.75):
        share, effect, df = judged(crossing, simulated.right(who, what, true, icc, item_sd, studies, rng))
        low, high = share_interval(share, effect, df, n)
        assert within_error(float(((low <= true) & (true <= high)).mean()), 0.93, 0.97, studies), true
        if true == 0.6:
            assert float((p_within(share, effect, df, n, 0.5, 0.1) < 0.05).mean()) < 0.06 + 3.3 * math.sqrt(
                0.06 * 0.94 / studies
            )


@pytest.mark.parametrize(
    "design",
    ["the same clips for all", "nine groups with clips of their own", "the same clips in both conditions"],
)
@pytest.mark.parametrize("spreads", [(0.0, 0.0, 0.0), (0.5, 0.0, 0.8), (0.5, 0.3, 0.8), (0.0, 0.0, 0.8)])
def test_a_difference_of_ratings_keeps_its_level_when_each_condition_has_other_clips(design, spreads):
    rng = np.random.default_rng(4)
    who, place = simulated.everyone_hears_all(36, 12)
    condition = place // 6
    what = {
        "the same clips for all": place,
        "nine groups with clips of their own": 12 * (who % 9) + place,
    }.get(design, place % 6)
    crossing, studies = Crossing(who, what, condition == 1), 1000
    of_listener, of_both, of_item = spreads
    latent = (
        3
        + of_listener * rng.standard_normal((studies, 36))[:, who]
        + of_both * rng.standard_normal((studies, 36, 2))[:, who, condition]
    )
    latent += of_item * rng.standard_normal((studies, what.max() + 1))[:, what] + rng.standard_normal(
        (studies, len(who))
    )
    spread = crossing.spread(np.clip(np.round(latent), 1, 5))
    p = 2 * stats.t.sf(np.abs(spread.value) / np.sqrt(spread.variance), spread.df)
    assert crossing.over == "listeners and items"
    assert within_error(float((p < 0.05).mean()), 0.03, 0.06, studies)


def latin(listeners: int, items: int, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Listener, item and condition: everyone hears every item once, half of the items in each condition, and
    half of the listeners each item in each condition."""
    who, what = simulated.everyone_hears_all(listeners, items)
    kept = np.random.default_rng(8).random(len(who)) >= missing
    return who[kept], what[kept], ((what + who) % 2)[kept]


@pytest.mark.parametrize(("listeners", "items"), [(24, 12), (8, 12)])
def test_what_clips_and_listeners_add_to_both_conditions_alike_is_no_part_of_a_difference_in_a_latin_square(
    listeners, items
):
    who, what, condition = latin(listeners, items)
    rng = np.random.default_rng(9)
    y, crossing = rng.standard_normal(len(who)), Crossing(who, what, condition == 1)
    plain, moved = (
        crossing.spread(y),
        crossing.spread(y + 5 * rng.standard_normal(items)[what] + 5 * rng.standard_normal(listeners)[who]),
    )
    assert moved.value == pytest.approx(plain.value)
    assert moved.variance == pytest.approx(plain.variance)
    assert moved.df == pytest.approx(plain.df)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_in_a_latin_square_the_variance_of_a_difference_is_right_on_average_and_keeps_the_level(missing):
    who, what, condition = latin(20, 12, missing)
    rng = np.random.default_rng(10)
    studies = 3000
    y = rng.standard_normal((studies, len(who))) + 0.8 * rng.standard_normal((studies, 12))[:, what]
    y += (
        0.5 * rng.standard_normal((studies, 20))[:, who]
        + 0.3 * rng.standard_normal((studies, 20, 2))[:, who, condition]
    )
    spread = Crossing(who, what, condition == 1).spread(y)
    assert spread.variance.mean() == pytest.approx(spread.value.var(), rel=0.12)
    p = 2 * stats.t.sf(np.abs(spread.value) / np.sqrt(spread.variance), spread.df)
    assert within_error(float((p < 0.05).mean()), 0.03, 0.06, studies)


def test_clips_that_one_listener_hears_in_each_condition_make_a_difference_no_less_sure():
    """Every clip is heard twice, once in each condition, by two listeners."""
    rng = np.random.default_rng(11)
    who, what = np.repeat(np.arange(20), 12), np.concatenate([rng.permutation(120), rng.permutation(120)])
    condition = np.where(who < 10, what % 2, 1 - what % 2)
    studies = 3000
    y = rng.standard_normal((studies, 240)) + 0.8 * rng.standard_normal((studies, 120))[:, what]
    spread = Crossing(who, what, condition == 1).spread(y)
    assert spread.variance.mean() == pytest.approx(spread.value.var(), rel=0.2)


def test_one_clip_for_a_whole_condition_cannot_be_told_from_the_condition():
    found = sampled_mean(
        [1.0, 2.0, 2.0, 3.0, 1.0, 3.0], [1, 1, 2, 2, 3, 3], list("ababab"), [False, True] * 3
    )
    assert found.over == "listeners"
    assert found.p == pytest.approx(stats.ttest_1samp([1, 1, 2], 0).pvalue)

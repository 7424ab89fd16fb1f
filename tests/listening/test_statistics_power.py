"""Power that a study is planned with: beside simulated studies that are judged as real ones are, and beside
statsmodels."""

import numpy as np
import pytest
import simulated_answers as simulated
from scipy import stats
from statsmodels.stats.power import TTestPower

from limen.core.errors import UserError
from limen.listening.statistics.crossed import Crossing
from limen.listening.statistics.hearers import FEW, hearers
from limen.listening.statistics.power import (
    expected_of_share,
    item_variance,
    listeners_for_equivalence,
    listeners_for_shift,
    listeners_to_detect,
    power_detect,
    power_equivalence,
)
from limen.listening.statistics.samples import judged, p_above, p_within

STUDIES = 2000


@pytest.mark.parametrize(("listeners", "items"), [(36, 6), (20, 12), (8, 12), (40, 24)])
@pytest.mark.parametrize(("icc", "item_sd"), [(0.0, 0.0), (0.05, 0.2), (0.15, 0.4)])
def test_power_is_that_of_simulated_studies(listeners, items, icc, item_sd):
    rng = np.random.default_rng(5)
    who, what = simulated.everyone_hears_all(listeners, items)
    crossing, n = Crossing(who, what), listeners * items
    share, effect, df = judged(crossing, simulated.right(who, what, 0.65, icc, item_sd, STUDIES, rng))
    planned = expected_of_share(0.65, listeners, items, items, icc, item_sd)
    above = p_above(share, effect, df, n, 0.5)
    one = power_detect(n, 0.65, 0.5, 0.05, planned.design_effect, planned.df)
    two = power_detect(n, 0.65, 0.5, 0.05, planned.design_effect, planned.df, sides=2)
    assert one == pytest.approx((above < 0.05).mean(), abs=0.06)
    assert two == pytest.approx((2 * np.minimum(above, 1 - above) < 0.05).mean(), abs=0.06)
    share, effect, df = judged(crossing, simulated.right(who, what, 0.5, icc, item_sd, STUDIES, rng))
    planned = expected_of_share(0.5, listeners, items, items, icc, item_sd)
    asked = [items] * listeners
    shown = power_equivalence(asked, 0.15, 0.5, 0.5, 0.05, planned.design_effect, planned.df, icc)
    assert shown == pytest.approx(inaudible(who, what, items, 0.15, icc, item_sd), abs=0.08)


def inaudible(who, what, trials, bound, icc, item_sd, sides=1):
    """Share of simulated studies, in which no listener hears anything, whose verdict is yes."""
    right = simulated.right(who, what, 0.5, icc, item_sd, STUDIES, np.random.default_rng(6))
    crossing = Crossing(who, what)
    within = p_within(*judged(crossing, right), crossing.n, 0.5, bound) < 0.05
    few = {}
    counts = np.sort(right.reshape(STUDIES, -1, trials).sum(2), axis=1)
    for study in {tuple(line) for line in counts[within].tolist()}:
        few[study] = hearers(study, [trials] * len(study), sides=sides).high <= FEW
    return np.mean([ok and few[tuple(line)] for ok, line in zip(within, counts.tolist(), strict=True)])


@pytest.mark.parametrize(("listeners", "bound"), [(8, 0.2), (16, 0.15), (34, 0.1)])
def test_power_of_equivalence_counts_that_few_listeners_may_hear_it(listeners, bound):
    """Two one-sided tests alone are significant in 81 to 96 % of these studies."""
    who = np.repeat(np.arange(listeners), 12)
    what = np.arange(len(who)) % 16
    planned = expected_of_share(0.5, listeners, 12, 16)
    shown = power_equivalence([12] * listeners, bound, 0.5, 0.5, 0.05, planned.design_effect, planned.df)
    found = inaudible(who, what, 12, bound, 0.05, 0.2)
    assert found < 0.7
    assert shown == pytest.approx(found, abs=0.06)


def test_a_preference_for_either_side_takes_more_listeners_to_rule_out():
    one, two = (listeners_for_equivalence(0.15, 12, 16, sides=sides).listeners for sides in (1, 2))
    assert 14 < one < two


def test_no_bound_is_reached_with_fewer_listeners_than_could_show_that_few_hear_it():
    # 1 - 0.05^(1/13) is 20.6 %
    assert listeners_for_equivalence(0.3, 40, 40, icc=0.0, item_sd=0.0).listeners >= 14


def test_more_listeners_than_planned_have_no_less_power():
    for trials in (6, 12):
        plan = listeners_for_equivalence(0.1, trials, 24, icc=0.0, item_sd=0.0)
        for n in range(plan.listeners, plan.listeners + 12):
            s = expected_of_share(0.5, n, trials, 24, 0.0, 0.0)
            assert power_equivalence([trials] * n, 0.1, 0.5, 0.5, 0.05, s.design_effect, s.df, 0.0) >= 0.8


def test_the_planned_number_keeps_its_power_and_one_listener_less_does_not():
    for plan, share, reach in (
        (
            listeners_to_detect(0.65, 6, 24),
            0.65,
            lambda n, s: power_detect(n, 0.65, 0.5, 0.05, s.design_effect, s.df),
        ),
        (
            listeners_for_equivalence(0.1, 6, 24),
            0.5,
            lambda n, s: power_equivalence([6] * (n // 6), 0.1, 0.5, 0.5, 0.05, s.design_effect, s.df),
        ),
    ):
        power = lambda n, share=share, reach=reach: reach(6 * n, expected_of_share(share, n, 6, 24))
        assert power(plan.listeners) == pytest.approx(plan.power)
        assert plan.power >= 0.8 > power(plan.listeners - 1)


def test_answers_and_items_that_resemble_each_other_need_more_listeners():
    few = listeners_to_detect(0.65, 6, 54, icc=0.0, item_sd=0.0).listeners
    assert few < listeners_to_detect(0.65, 6, 54, icc=0.2, item_sd=0.0).listeners
    # the same trials on fewer clips: no number of listeners makes up for clips that differ
    assert few < listeners_to_detect(0.65, 6, 6, icc=0.0, item_sd=0.4).listeners
    with pytest.raises(UserError, match="more items"):
        listeners_for_equivalence(0.1, 6, 6, icc=0.0, item_sd=0.8)
    with pytest.raises(UserError, match="is not reached"):
        listeners_to_detect(0.501, 1, 10)
    with pytest.raises(UserError, match="more than chance"):
        listeners_to_detect(0.4, 6, 10)


def test_the_design_effect_of_listeners_alone_is_that_of_kish():
    found = expected_of_share(0.6, 20, 12, 240, icc=0.15, item_sd=0.0)
    assert found.design_effect == pytest.approx(1 + 11 * 0.15)
    assert found.df == pytest.approx(19, abs=0.5)


def test_the_variance_of_items_is_that_of_shares_whose_log_odds_spread():
    shares = 1 / (1 + np.exp(-0.8 * np.random.default_rng(0).standard_normal(400_000)))
    assert item_variance(0.5, 0.8) == pytest.approx(shares.var(), rel=0.01)


def test_listeners_for_a_shift_of_ratings_are_those_of_statsmodels_if_only_listeners_vary():
    # as many items as ratings: nothing is heard by two listeners, so a listener's mean difference is all
    # there is
    plan = listeners_for_shift(0.5, 6, 100_000, icc=0.0, item_sd=0.0)
    sd = np.sqrt(2 / 6)
    theirs = TTestPower().solve_power(effect_size=0.5 / sd, power=0.8, alpha=0.05)
    assert plan.listeners == np.ceil(theirs)


@pytest.mark.parametrize("nested", [True, False])
def test_power_for_a_shift_is_that_of_simulated_studies(nested):
    plan = listeners_for_shift(0.5, 6, 12, nested, icc=0.05, item_sd=0.3)
    rng = np.random.default_rng(6)
    who = np.repeat(np.arange(plan.listeners), 6)
    what = np.arange(len(who)) % 12
    second = np.repeat([0, 1], len(who))
    who, what = np.tile(who, 2), np.concatenate([what, what + 12 * nested])
    y = 0.5 * second + rng.standard_normal((STUDIES, len(who)))
    # of listeners, and of items that are heard in both conditions, half of the variance is common to both
    y += np.sqrt(0.05 / 0.95 / 2) * rng.standard_normal((STUDIES, plan.listeners, 2))[:, who, second]
    y += np.sqrt(0.05 / 0.95 / 2) * rng.standard_normal((STUDIES, plan.listeners))[:, who]
    y += 0.3 / np.sqrt(2) * rng.standard_normal((STUDIES, 24))[:, what]
    y += 0.3 / np.sqrt(2) * rng.standard_normal((STUDIES, 24, 2))[:, what, second]
    spread = Crossing(who, what, second == 1).spread(y)
    p = 2 * stats.t.sf(np.abs(spread.value) / np.sqrt(spread.variance), spread.df)
    assert (p < 0.05).mean() == pytest.approx(plan.power, abs=0.05)

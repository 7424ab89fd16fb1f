"""How large a share of listeners may hear it: the bound holds it in simulated studies."""

import numpy as np
import pytest

from limen.core.errors import UserError
from limen.listening.statistics.hearers import FEW, hearers, power_few

STUDIES = 300


@pytest.mark.parametrize(("listeners", "trials"), [(30, 12), (36, 6), (20, 12), (8, 12), (100, 5)])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.8])
@pytest.mark.parametrize("ability", [0.9, 1.0])
def test_the_bound_holds_the_share_of_listeners_who_hear_it(listeners, trials, share, ability):
    rng = np.random.default_rng(7)
    held = []
    for _ in range(STUDIES):
        hears = rng.random(listeners) < share
        right = rng.binomial(trials, np.where(hears, ability, 0.5))
        held.append(hearers(right.tolist(), [trials] * listeners).high >= share)
    assert np.mean(held) >= 0.95 - 3.3 * np.sqrt(0.95 * 0.05 / STUDIES)


def test_3_of_30_who_always_hear_it_are_never_called_few():
    rng = np.random.default_rng(8)
    bounds = [hearers([12] * 3 + rng.binomial(12, 0.5, 27).tolist(), [12] * 30).high for _ in range(STUDIES)]
    assert min(bounds) > max(0.1, FEW)


def test_of_many_listeners_none_of_whom_hears_it_few_may():
    rng = np.random.default_rng(9)
    bounds = [hearers(rng.binomial(12, 0.5, 100).tolist(), [12] * 100).high for _ in range(100)]
    assert np.median(bounds) < 0.06


@pytest.mark.parametrize(("listeners", "trials"), [(30, 2), (8, 4), (8, 5), (30, 12)])
def test_chance_never_shows_that_fewer_may_hear_it_than_none_who_pass_would(listeners, trials):
    """Fewer pass than guessing makes: once that said 0 %."""
    found = hearers([trials // 2] * listeners, [trials] * listeners)
    assert found.passed == 0
    assert found.high >= 1 - 0.05 ** (1 / listeners) - 1e-12


def test_the_chance_of_few_is_that_of_simulated_studies():
    rng = np.random.default_rng(10)
    seen = np.mean(
        [hearers(rng.binomial(12, 0.5, 30).tolist(), [12] * 30).high <= FEW for _ in range(STUDIES)]
    )
    assert power_few([12] * 30, 0.5, 0.5, 0.0) == pytest.approx(seen, abs=0.09)
    assert power_few([12] * 13, 0.5, 0.5, 0.0) == 0.0
    assert power_few([12] * 30, 0.5, 0.5, 0.3) < power_few([12] * 30, 0.5, 0.5, 0.1) < seen + 0.09


def test_two_sides_count_those_who_are_always_wrong_and_unequal_trials_are_fine():
    one, two = (hearers([0, 12, 6, 6, 6, 6], [12] * 6, sides=sides) for sides in (1, 2))
    assert (one.passed, two.passed) == (1, 2)
    mixed = hearers([12, 3, 2, 6], [12, 6, 4, 12])
    assert (mixed.listeners, mixed.passed) == (4, 1)
    assert hearers([1, 0], [1, 1]).high == 1.0


def test_more_right_than_asked_are_refused():
    with pytest.raises(UserError, match=r"got \[5\] correct answers of \[4\] trials"):
        hearers([5], [4])

"""Looks at a running study: they hold at all times though answers of a listener resemble each other."""

from typing import Any

import answering
import numpy as np
import pytest
import simulated_answers as simulated

from limen.core.errors import UserError
from limen.listening.server.interim import interim
from limen.listening.statistics.betting import bets
from limen.listening.statistics.hearers import hearers_at_all_times

ASKED = [
    {"name": "heard", "trial": "abx"},
    {"name": "not heard", "trial": "abx", "kind": "equivalent", "bound": 0.2},
]


def rows(right: np.ndarray, trials: int, finished: int | None = None) -> list[dict[str, Any]]:
    """Answers of listeners in the order in which they finished; beyond `finished` they are still at it."""
    one = {"group": "", "role": "trial", "kind": "abx", "step": 0}
    return [
        one
        | {
            "listener": k // trials,
            "item": f"item{k % trials}",
            "correct": bool(y),
            "position": k,
            "finished": finished is None or k // trials < finished,
            "received_at": f"2026-01-01T00:{k // trials:02d}:00+00:00",
        }
        for k, y in enumerate(right)
    ]


def test_looking_after_every_listener_seldom_finds_what_is_not_there():
    who, what = simulated.everyone_hears_all(40, 12)
    plan = answering.study([{"name": "abx"}], 12, hypotheses=ASKED[:1], exclude=[])
    rng = np.random.default_rng(0)
    wrong = 0
    for right in simulated.right(who, what, 0.5, 0.3, 0.0, 60, rng):
        wrong += any(interim(plan, rows(right[: 12 * k], 12))[0].decided for k in range(4, 41, 4))
    assert wrong <= 8, "5 % of 60 studies, and 3 standard errors"


def test_what_is_there_is_found_before_the_end_and_the_interval_holds_it():
    who, what = simulated.everyone_hears_all(40, 12)
    shares = (
        simulated.right(who, what, 0.7, 0.1, 0.0, 60, np.random.default_rng(1)).reshape(60, 40, 12).mean(2)
    )
    found = [[bets(one[:k]) for k in (10, 20, 40)] for one in shares]
    assert np.mean([looks[1].detected for looks in found]) > 0.7
    assert np.mean([all(look.low <= 0.7 <= look.high for look in looks) for looks in found]) > 0.88


def test_that_nothing_is_heard_is_shown_and_only_finished_listeners_count():
    plan = answering.study([{"name": "abx"}], 12, hypotheses=ASKED, exclude=[])
    right = np.tile([True, False], 40 * 6)
    heard, not_heard = interim(plan, rows(right, 12))
    assert (heard.decided, not_heard.decided) == (False, True)
    assert (not_heard.right, not_heard.n, not_heard.listeners) == (240, 480, 40)
    assert not_heard.low < 0.5 < not_heard.high
    assert interim(plan, rows(right, 12, finished=3))[0].listeners == 3


def test_listening_does_not_stop_while_many_may_hear_what_is_inaudible_on_average():
    """6 of 60 always hear it: the mean is shown to be within 15 points of chance in three of four such
    studies."""
    plan = answering.study(
        [{"name": "abx"}], 12, hypotheses=[ASKED[1] | {"bound": 0.15}], exclude=[], listeners=60
    )
    rng = np.random.default_rng(2)
    equal = found = 0
    for _ in range(40):
        ability = np.repeat(np.where(rng.permutation(60) < 6, 1.0, 0.5), 12)
        (look,) = interim(plan, rows(rng.random(720) < ability, 12))
        equal += look.low > 0.35 and look.high < 0.65
        found += look.decided
        assert look.decided == (look.low > 0.35 and look.high < 0.65 and look.may_hear <= 0.2)
        assert look.may_hear > 0.1
    assert equal > 20
    assert found == 0


def test_the_bound_of_hearers_may_be_looked_at_after_every_listener():
    rng = np.random.default_rng(3)
    wrong = 0
    for _ in range(100):
        right = rng.binomial(12, np.where(rng.random(60) < 0.3, 1.0, 0.5)).tolist()
        wrong += any(hearers_at_all_times(right[:k], [12] * k, 60, 0.5, 0.05) < 0.3 for k in range(5, 61, 5))
    assert wrong <= 11, "5 % of 100 studies, and 3 standard errors"


def test_the_bets_of_no_listener_say_nothing_and_shares_are_shares():
    nothing = bets([], bound=0.1)
    assert (nothing.low, nothing.high, nothing.detected, nothing.equivalent) == (0.0, 1.0, False, False)
    with pytest.raises(UserError, match="numbers from 0 to 1"):
        bets([0.5, 6.0])

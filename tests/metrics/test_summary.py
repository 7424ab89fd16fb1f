import math

import numpy as np
import pytest
from scipy import stats

from limen.core.statistics import clopper_pearson, pooled, t_interval, wilson
from limen.metrics.base.metric import Column
from limen.metrics.base.summary import figure, summarise, typical

SHARE, NUMBER = Column("a share", binary=True), Column("a number", unit="dB", better="higher")


@pytest.mark.parametrize("n", [1, 2, 7, 72, 1000])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_intervals_of_shares_are_those_of_scipy(n, level):
    for k in {0, 1, n // 2, n - 1, n}:
        test = stats.binomtest(k, n)
        assert wilson(k, n, level) == pytest.approx(tuple(test.proportion_ci(level, "wilson")), abs=1e-12)
        assert clopper_pearson(k, n, level) == pytest.approx(
            tuple(test.proportion_ci(level, "exact")), abs=1e-12
        )


def test_clopper_pearson_gives_the_intervals_of_the_listening_study():
    """72 ABX trials per loudness level, Vadillo and Santana 2022: 97.2 %, 81.9 % and 55.6 % right."""
    for right, low, high in ((70, 0.90, 0.99), (59, 0.71, 0.90), (40, 0.43, 0.67)):
        assert clopper_pearson(right, 72) == pytest.approx((low, high), abs=0.0101)


def test_wilson_holds_what_is_true_about_as_often_as_it_says():
    n, p = 60, 0.3
    held = sum(stats.binom.pmf(k, n, p) for k in range(n + 1) if wilson(k, n)[0] <= p <= wilson(k, n)[1])
    assert 0.93 < held < 0.97


def test_the_interval_of_a_mean_is_students():
    values = np.random.default_rng(0).normal(3, 2, 12)
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert t_interval(values) == pytest.approx((expected.low, expected.high))


def test_a_single_value_has_a_mean_but_no_interval():
    (s,) = summarise([{"v": 2.0}], {"v": NUMBER}).values()
    assert (s["n"], s["mean"], s["median"], s["low"], s["high"]) == (1, 2.0, 2.0, None, None)


def test_nulls_are_left_out_and_counted():
    rows = [{"v": 1.0}, {"v": None}, {"v": 3.0}, {}]
    (s,) = summarise(rows, {"v": NUMBER}).values()
    assert (s["n"], s["missing"], s["mean"], s["unit"], s["better"]) == (2, 2, 2.0, "dB", "higher")


def test_a_column_of_nulls_has_no_mean():
    (s,) = summarise([{"v": None}] * 3, {"v": SHARE}).values()
    assert (s["n"], s["missing"]) == (0, 3)
    assert s["mean"] is s["low"] is s["high"] is s["median"] is None


def test_binary_columns_get_wilson_and_others_student():
    rows = [{"a": float(i < 3), "b": float(i < 3)} for i in range(10)]
    s = summarise(rows, {"a": SHARE, "b": NUMBER})
    assert (s["a"]["low"], s["a"]["high"]) == pytest.approx(wilson(3, 10))
    assert (s["b"]["low"], s["b"]["high"]) == pytest.approx(t_interval([r["b"] for r in rows]))


def test_true_and_false_count_as_1_and_0():
    assert summarise([{"v": True}, {"v": False}], {"v": SHARE})["v"]["mean"] == 0.5


def test_the_rate_of_a_set_is_total_errors_over_total_words():
    rows = [
        {"wer": 1.0, "e": 1.0, "n": 1.0},
        {"wer": 0.0, "e": 0.0, "n": 9.0},
        {"wer": None, "e": 1.0, "n": 0.0},
    ]
    s = summarise(rows, {"wer": Column("rate", pooled=("e", "n"))})
    assert set(s) == {"wer", "wer_mean"}
    assert "mean" not in s["wer"]
    assert (s["wer"]["rate"], s["wer"]["count"], s["wer"]["total"], s["wer"]["of"]) == (
        pytest.approx(2 / 10),
        2,
        10,
        ["e", "n"],
    )
    assert (s["wer"]["low"], s["wer"]["high"]) == (
        pooled([1, 0, 1], [1, 9, 0])["low"],
        pooled([1, 0, 1], [1, 9, 0])["high"],
    )
    assert (s["wer_mean"]["mean"], s["wer_mean"]["n"], s["wer_mean"]["missing"]) == (0.5, 2, 1)
    assert figure(s["wer"])[0] == s["wer"]["rate"]
    assert typical(s["wer"]) == ("rate", s["wer"]["rate"])


def test_a_share_names_what_it_counts_and_of_how_many():
    rows = [{"already": i < 4, "success": 4 <= i < 7, "db": float(i)} for i in range(10)]
    shown = {"success": Column("credited", binary=True, unless="already"), "already": SHARE, "db": NUMBER}
    s = summarise(rows, shown)
    assert (s["success"]["mean"], s["success"]["count"], s["success"]["n"], s["success"]["left_out"]) == (
        0.5,
        3,
        6,
        4,
    )
    assert (s["success"]["low"], s["success"]["high"]) == pytest.approx(wilson(3, 6))
    assert (s["success"]["missing"], s["success"]["unless"], s["already"]["mean"]) == (0, "already", 0.4)
    assert (typical(s["success"]), typical(s["db"])) == (("share", 0.5), ("median", 4.5))
    none = summarise(rows[:4], shown)["success"]
    assert (none["n"], none["mean"], none["low"], none["left_out"]) == (0, None, None, 4)


def test_the_bootstrap_is_the_same_every_time_and_near_the_normal_interval():
    rng = np.random.default_rng(1)
    words = rng.integers(5, 30, 400)
    errors = rng.binomial(words, 0.2)
    first, again = pooled(errors, words), pooled(errors, words)
    assert first == again
    rate = errors.sum() / words.sum()
    half = 1.96 * math.sqrt(((errors - rate * words) ** 2).sum()) / words.sum()  # the linearised ratio
    assert first["low"] == pytest.approx(rate - half, abs=0.15 * half)
    assert first["high"] == pytest.approx(rate + half, abs=0.15 * half)


def test_no_words_at_all_give_no_rate():
    assert pooled([1, 2], [0, 0]) == {"mean": None, "low": None, "high": None}

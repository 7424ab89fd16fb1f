"""Ratings, agreement and preferences beside brute force, scipy, statsmodels and published examples."""

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import fisher_exact, t, wilcoxon
from statsmodels.stats.inter_rater import fleiss_kappa as their_kappa

from limen.core.errors import UserError
from limen.listening.statistics.agreement import fleiss_kappa, icc, krippendorff_alpha
from limen.listening.statistics.ratings import _drawn, compare_ratings, mushra, mushra_rejected
from limen.listening.statistics.scaling import bradley_terry

KRIPPENDORFF = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]
SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def listed(counts):
    return [rating for rating, n in enumerate(counts, start=1) for _ in range(n)]


def test_two_ratings_are_compared_as_fishers_exact_test_does():
    for a, b in (((3, 7), (8, 2)), ((10, 1), (9, 2)), ((0, 5), (5, 0))):
        found = compare_ratings(listed(a), listed(b))
        assert found.method == "exact"
        assert found.p == pytest.approx(fisher_exact([a, b]).pvalue)


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3, 1), (1, 1, 5)), ((4, 0, 2, 1), (0, 3, 1, 3)), ((1, 2, 0, 2, 1), (0, 1, 3, 0, 3))]
)
def test_the_exact_p_value_is_the_sum_over_all_tables_with_these_margins(a, b):
    rows = [x + y for x, y in zip(a, b, strict=True)]
    weight = lambda x: math.prod(math.comb(r, k) for r, k in zip(rows, x, strict=True))
    tables = [x for x in itertools.product(*(range(r + 1) for r in rows)) if sum(x) == sum(a)]
    expected = sum(weight(x) for x in tables if weight(x) <= weight(a)) / math.comb(sum(rows), sum(a))
    assert compare_ratings(listed(a), listed(b)).p == pytest.approx(expected)


def test_five_ratings_of_a_study_of_432_clips_are_still_exact_and_drawing_tables_agrees():
    """63 % of 216 clean and 40 % of 216 adversarial clips rated 4 or 5, as published: p below 0.01."""
    clean, adversarial = [24, 31, 25, 60, 76], [45, 50, 35, 46, 40]
    found = compare_ratings(listed(clean), listed(adversarial))
    assert found.method == "exact"
    assert found.error == 0
    assert found.p < 0.01
    assert (found.first, found.second) == (tuple(clean), tuple(adversarial))
    milder = [29, 34, 30, 57, 66]
    exact = compare_ratings(listed(clean), listed(milder)).p
    labels = np.asarray(listed(clean) + listed(milder)) - 1
    drawn, error = _drawn(labels, np.arange(432) >= 216, 5, seed=0)
    # chi-square orders tables almost as their probability does
    assert drawn == pytest.approx(exact, abs=0.03)
    assert error == pytest.approx(math.sqrt(drawn * (1 - drawn) / 20_000))


def test_many_kinds_of_ratings_are_drawn_and_say_with_which_error():
    rng = np.random.default_rng(0)
    found = compare_ratings(rng.integers(0, 20, 300).tolist(), rng.integers(0, 20, 300).tolist())
    assert found.method == "permutation"
    assert 0 < found.error < 0.01
    assert found.p > 0.001


def test_words_can_be_ratings_and_empty_conditions_are_refused():
    assert compare_ratings(["bad", "bad"], ["good", "good"]).mean_difference is None
    assert compare_ratings([1, 1], [1]).p == 1
    with pytest.raises(UserError, match="at least one"):
        compare_ratings([], [1])


def test_kappa_is_that_of_the_published_example_and_of_statsmodels():
    found = fleiss_kappa(FLEISS)
    assert found.value == pytest.approx(0.210, abs=0.0005)
    assert found.value == pytest.approx(their_kappa(np.array(FLEISS)))
    assert found.low < found.value < found.high
    assert fleiss_kappa([[3, 0], [0, 3]]).value == 1
    assert fleiss_kappa([[3, 0], [3, 0]]).value is None
    with pytest.raises(UserError, match="same number"):
        fleiss_kappa([[1, 2], [2, 2]])


@pytest.mark.parametrize(("scale", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_is_that_of_krippendorffs_own_example_with_gaps(scale, alpha):
    found = krippendorff_alpha(KRIPPENDORFF, scale)
    assert found.value == pytest.approx(alpha, abs=0.0006)
    assert (found.units, found.raters) == (11, 4)
    assert found.low < found.value < found.high


def test_alpha_of_perfect_agreement_is_one_and_of_equal_ratings_nothing():
    assert krippendorff_alpha([[1, 2, 3], [1, 2, 3]], "interval").value == 1
    assert krippendorff_alpha([[1, 1], [1, 1]]).value is None
    with pytest.raises(UserError, match="at least two ratings"):
        krippendorff_alpha([[1, None], [None, 2]])


def test_intraclass_correlations_are_those_shrout_and_fleiss_published():
    single, mean = icc(SHROUT_FLEISS), icc(SHROUT_FLEISS, average=True)
    assert single.value == pytest.approx(0.29, abs=0.005)
    assert mean.value == pytest.approx(0.62, abs=0.005)
    assert (single.low, single.high) == pytest.approx((0.02, 0.76), abs=0.005)
    assert icc([[1, 1], [2, 2], [3, 3]]).value == 1
    with pytest.raises(UserError, match="without gaps"):
        icc([[1, math.nan], [2, 2]])


def test_strengths_are_those_of_a_logistic_regression():
    rng = np.random.default_rng(4)
    truth = {"a": 0.8, "b": 0.2, "c": -0.3, "d": -0.7}
    pairs = [tuple(rng.permutation(list(truth))[:2]) for _ in range(600)]
    won = [rng.random() < 1 / (1 + math.exp(truth[j] - truth[i])) for i, j in pairs]
    found = bradley_terry(
        [i if w else j for (i, j), w in zip(pairs, won, strict=True)],
        [j if w else i for (i, j), w in zip(pairs, won, strict=True)],
    )
    x = np.array([[(name == i) - (name == j) for name in "bcd"] for i, j in pairs], float)
    theirs = sm.Logit(np.array(won, float), x).fit(disp=False)
    strengths = {row.item: row for row in found}
    beside = np.vstack([np.zeros(3), np.eye(3)]) - 0.25  # strengths that sum to 0, from those with a = 0
    errors = np.sqrt(np.diag(beside @ theirs.cov_params() @ beside.T))
    for name, value, error in zip("abcd", beside @ theirs.params, errors, strict=True):
        assert strengths[name].strength == pytest.approx(value, abs=0.005)
        assert strengths[name].high - strengths[name].low == pytest.approx(2 * 1.96 * error, rel=0.01)
    assert sum(row.strength for row in found) == pytest.approx(0, abs=1e-9)
    assert [row.item for row in found] == sorted(strengths, key=lambda name: -strengths[name].strength)


def test_an_item_that_never_lost_is_strongest_and_finite():
    found = bradley_terry(["a"] * 5 + ["b"] * 3 + ["c"] * 2, ["b"] * 3 + ["c"] * 2 + ["c"] * 3 + ["b"] * 2)
    assert found[0].item == "a"
    assert math.isfinite(found[0].strength)


def test_listeners_who_disagree_widen_the_interval_of_a_strength():
    winners, losers = ["a"] * 80 + ["b"] * 40, ["b"] * 80 + ["a"] * 40
    by_answer = bradley_terry(winners, losers)[0]
    by_listener = bradley_terry(winners, losers, [str(i // 20) for i in range(120)])[0]
    assert by_listener.strength == by_answer.strength
    assert by_listener.high - by_listener.low > 2 * (by_answer.high - by_answer.low)


def test_mushra_rows_are_means_over_listeners_tested_against_the_reference():
    rng = np.random.default_rng(5)
    entries = []
    for who in range(12):
        for condition, centre in (("reference", 96), ("codec", 70), ("anchor", 25)):
            entries += [
                (f"p{who}", condition, float(np.clip(rng.normal(centre, 6), 0, 100))) for _ in range(4)
            ]
    listeners, conditions, scores = zip(*entries, strict=True)
    rows = mushra(listeners, conditions, scores, "reference")
    assert [row.condition for row in rows] == ["reference", "codec", "anchor"]
    means = {
        c: [np.mean([s for w, k, s in entries if w == f"p{i}" and k == c]) for i in range(12)]
        for c in ("reference", "codec")
    }
    half = t.ppf(0.975, 11) * np.std(means["codec"], ddof=1) / math.sqrt(12)
    assert (rows[1].low, rows[1].high) == pytest.approx(
        (np.mean(means["codec"]) - half, np.mean(means["codec"]) + half)
    )
    assert rows[1].p_reference == pytest.approx(
        wilcoxon(np.subtract(means["codec"], means["reference"])).pvalue
    )
    assert rows[1].p_holm == pytest.approx(2 * rows[1].p_reference)
    assert rows[0].p_reference is None
    assert json.loads(json.dumps(dataclasses.asdict(rows[0])))["n"] == 12
    with pytest.raises(UserError, match='no condition "original"'):
        mushra(listeners, conditions, scores, "original")


def test_mushra_listeners_who_often_miss_the_hidden_reference_are_named():
    listeners = ["good"] * 10 + ["bad"] * 10
    scores = [95.0] * 9 + [80.0] + [95.0] * 8 + [80.0] * 2
    assert mushra_rejected(listeners, ["reference"] * 20, scores, "reference") == ("bad",)

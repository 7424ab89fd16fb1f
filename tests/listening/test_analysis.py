"""Every number of the analysis against a hand computation, scipy or statsmodels, on answers that are
known."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import answering
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from statsmodels.stats.multitest import multipletests

from limen.listening.analysis.analyse import analyse
from limen.listening.analysis.exclusions import exclusions
from limen.perception import psychometric
from limen.trials.base.screen import Screen

ABX = [{"name": "abx", "trials": 4}]


def abx_answers(
    plan: Any,
    tmp_path: Path,
    right: Any,
    listeners: int = 10,
    confidence: Any = lambda k, s: "low",
    **more: Any,
) -> Any:
    """ABX in which `right(listener, screen)` says whether the answer is."""

    def respond(k: int, screen: Screen) -> dict[str, Any]:
        x = screen.truth.get("answer", "A")
        return {"answer": x if right(k, screen) else "AB".replace(x, ""), "confidence": confidence(k, screen)}

    return answering.table(plan, tmp_path / "a.db", listeners, respond, **more)


def by_item(k: int, screen: Screen) -> bool:
    """Listeners 0 to 6 hear the first two items, the others guess the first; no one hears the rest but
    listener 0."""
    item = int(screen.facts["item"][-1])
    return item < 2 if k < 7 else item == 0 or k == 9


def test_a_share_carries_scipys_interval_and_p_values_as_they_would_be_if_answers_were_independent(
    tmp_path: Path,
) -> None:
    plan = answering.study(ABX)
    table = abx_answers(plan, tmp_path, by_item)
    whole = analyse(plan, table).of("choices")[0].shares[0]
    right = sum(bool(row["correct"]) for row in table)
    assert (whole.n, whole.right, whole.listeners, whole.items) == (40, right, 10, 4)
    exact = stats.binomtest(right, 40).proportion_ci(method="exact")
    plain = whole.independent
    assert (plain.interval.low, plain.interval.high) == pytest.approx((exact.low, exact.high), abs=1e-12)
    assert plain.p_greater == pytest.approx(
        stats.binomtest(right, 40, alternative="greater").pvalue, rel=1e-12
    )
    assert plain.p_two_sided == pytest.approx(stats.binomtest(right, 40).pvalue, rel=1e-12)
    one_sided = max(stats.binom.cdf(right, 40, 0.6), stats.binom.sf(right - 1, 40, 0.4))
    assert plain.p_equivalent == pytest.approx(one_sided, rel=1e-12)
    # items differ, so the interval that is held to is wider and the p against chance larger
    assert whole.over == "listeners and items"
    assert whole.share.high - whole.share.low > 1.3 * (exact.high - exact.low)
    assert whole.p_equivalent > plain.p_equivalent


def test_answers_are_sorted_by_condition_factor_and_group(tmp_path: Path) -> None:
    plan = answering.study(ABX)
    table = abx_answers(plan, tmp_path, by_item)
    shares = {s.where: s for s in analyse(plan, table).of("choices")[0].shares}
    assert {w.keys for w in shares} == {(), ("loudness",)}  # one condition, one group
    for where, s in shares.items():
        mine = [row for row in table if not where.keys or row["loudness"] == where.values[0]]
        assert (s.n, s.right) == (len(mine), sum(bool(row["correct"]) for row in mine))


def test_d_prime_solves_the_differencing_model_of_abx(tmp_path: Path) -> None:
    plan = answering.study(ABX)
    table = abx_answers(plan, tmp_path, by_item)
    whole = analyse(plan, table).of("choices")[0].shares[0]
    a, b = ([row for row in table if row["truth"] == x] for x in "AB")
    hit, alarm = ((sum(row["choice"] == "A" for row in rows) + 0.5) / (len(rows) + 1) for rows in (a, b))
    z, phi = stats.norm.ppf, stats.norm.cdf
    p = phi((z(hit) - z(alarm)) / 2)
    d = brentq(lambda d: phi(d / 2**0.5) * phi(d / 6**0.5) + phi(-d / 2**0.5) * phi(-d / 6**0.5) - p, 0, 12)
    assert whole.d_prime.value == pytest.approx(d, abs=1e-6)
    assert whole.bias == pytest.approx(-(z(hit) + z(alarm)) / 2)
    assert whole.d_prime.low <= whole.d_prime.value <= whole.d_prime.high


def test_confidence_and_accuracy_by_hand(tmp_path: Path) -> None:
    plan = answering.study(ABX)
    table = abx_answers(plan, tmp_path, by_item, confidence=lambda k, s: "high" if by_item(k, s) else "low")
    low, medium, high = analyse(plan, table).of("choices")[0].shares[0].confidence
    assert (low.confidence, medium.confidence, high.confidence) == ("low", "medium", "high")
    assert (low.right, medium.n, high.right) == (0, 0, high.n)
    assert low.of_all + high.of_all == 1
    assert medium.share.value is None
    # all equal: as alike as studies are planned with; Wilson's interval with Student's t
    q2, worth = stats.t.ppf(0.975, 9) ** 2, high.n / (1 + (high.n / 10 - 1) * 0.05)
    assert (high.share.low, high.share.high) == pytest.approx((worth / (worth + q2), 1.0))


def test_only_trials_of_listeners_who_stay_count(tmp_path: Path) -> None:
    steps = [{"name": "abx", "trials": 4, "catch": 1, "teaching": 1}]
    plan = answering.study(steps, exclude=[{"name": "catch_confidence"}])
    sure = lambda k, s: "high" if s.role == "catch" and k < 3 else "low"
    results = analyse(plan, abx_answers(plan, tmp_path, lambda k, s: k < 3, confidence=sure))
    assert results.listeners == 10
    assert [e.listener for e in results.exclusions.excluded] == [1, 2, 3]
    assert (results.answers, results.of("choices")[0].shares[0].n) == (28, 28)
    assert results.of("choices")[0].shares[0].right == 0
    assert [p.listener for p in results.people if p.excluded] == [1, 2, 3]


def identification(k: int, screen: Screen) -> dict[str, Any]:
    said = screen.truth["word"]
    if screen.facts["condition"] == "adversarial" and k % 3 == 0:
        return {"word": "other:loft" if said == "left" else "left"}
    return {"word": said}


def test_identification_has_its_own_chance_and_a_confusion_matrix_with_other(tmp_path: Path) -> None:
    plan = answering.study([{"name": "identification", "choices": ["left", "right", "stop", "go"]}])
    table = answering.table(plan, tmp_path / "a.db", 6, identification)
    part = analyse(plan, table).of("choices")[0]
    assert part.shares[0].chance == 0.25
    assert (part.shares[0].n, part.shares[0].right) == (48, 40)
    whole = part.confusions[0]
    assert whole.truths == ("left", "right")
    assert whole.answers == ("left", "right", "other")
    assert whole.counts == ((20, 0, 4), (4, 20, 0))
    assert [str(c.where) for c in part.confusions] == ["all", "clean", "adversarial"]
    assert part.typed == (("loft", 4),)
    assert part.shares[0].d_prime.value is None


def test_a_mixed_model_compares_conditions_and_factors(tmp_path: Path) -> None:
    plan = answering.study(["identification"], 6)
    mixed = analyse(plan, answering.table(plan, tmp_path / "a.db", 12, identification)).of("choices")[0].mixed
    assert mixed is not None
    assert mixed.names == (
        "all at their first value",
        "condition: adversarial against clean",
        "loudness: high against low",
    )
    assert mixed.log_odds[1].high is not None
    assert mixed.log_odds[1].high < 0  # adversarial words are missed by every third listener
    assert mixed.p[1] < 0.05 < mixed.p[2]


def rated(k: int, screen: Screen) -> dict[str, Any]:
    return {"naturalness": "4" if screen.facts["condition"] == "clean" or k % 2 else "2"}


def test_ratings_of_two_levels_are_compared_as_fisher_does(tmp_path: Path) -> None:
    plan = answering.study(["naturalness"])
    part = analyse(plan, answering.table(plan, tmp_path / "a.db", 5, rated)).of("ratings")[0]
    cells = {str(r.where): r for r in part.ratings}
    assert part.levels == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert (part.good_from, part.bad_to) == (4.0, 2.0)
    assert cells["clean"].counts == (0, 0, 0, 20, 0)
    assert cells["adversarial"].counts == (0, 12, 0, 8, 0)
    assert cells["adversarial"].mean.value == pytest.approx((12 * 2 + 8 * 4) / 20)
    assert cells["adversarial"].good.value == 0.4
    assert cells["adversarial"].good.low < 0.4 < cells["adversarial"].good.high
    whole = next(c for c in part.comparisons if not c.where.keys)
    assert whole.conditions == ("clean", "adversarial")
    assert whole.p_independent == pytest.approx(stats.fisher_exact([[0, 20], [12, 8]]).pvalue, rel=1e-9)
    assert whole.difference.value == pytest.approx(-1.2)
    # three of five listeners hear a difference of 2 in every clip: a paired t test over listeners
    gaps = [-2, -2, -2, 0, 0]
    assert whole.p == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue, rel=1e-6)
    low, high = stats.t.interval(0.95, 4, np.mean(gaps), stats.sem(gaps))
    assert (whole.difference.low, whole.difference.high) == pytest.approx((low, high))
    assert [str(c.where) for c in part.comparisons] == ["all", "low", "high"]


def test_listeners_who_all_say_the_same_of_each_clip_agree_perfectly(tmp_path: Path) -> None:
    plan = answering.study(["naturalness"])
    table = answering.table(
        plan, tmp_path / "a.db", 4, lambda k, s: {"naturalness": str(1 + int(s.facts["item"][-1]))}
    )
    assert analyse(plan, table).of("ratings")[0].agreement.value == pytest.approx(1.0)


def test_mushra_is_summed_up_over_listeners_and_items(tmp_path: Path) -> None:
    plan = answering.study(["mushra"], 3, ("clean", "a", "b"))
    base = {"clean": 95, "a": 60, "b": 58, "low-pass 3.5 kHz": 20, "low-pass 7 kHz": 40}

    def respond(k: int, screen: Screen) -> dict[str, Any]:
        place = int(screen.facts["item"][-1])
        return {
            "rating": {
                s.label: base[s.condition] + (k * 7 + place * 3 + len(s.condition)) % 5
                for s in screen.sounds
                if s.rated
            }
        }

    table = answering.table(plan, tmp_path / "a.db", 8, respond)
    part = analyse(plan, table).of("sliders")[0]
    means = {
        c: [
            np.mean([r["rating"] for r in table if (r["condition"], r["listener"]) == (c, k)])
            for k in range(1, 9)
        ]
        for c in base
    }
    cells = {r.where.values: r for r in part.ratings}
    for name, values in means.items():
        cell = cells[(name,)]
        assert cell.mean.value == pytest.approx(np.mean(values))
        assert cell.mean.low < cell.mean.value < cell.mean.high
        assert cell.n == 24
    p = {c: stats.wilcoxon(np.subtract(means[c], means["clean"])).pvalue for c in base if c != "clean"}
    adjusted = dict(zip(p, multipletests(list(p.values()), method="holm")[1], strict=True))
    whole = [c for c in part.comparisons if not c.where.keys]
    assert {c.conditions[1]: c.p_independent for c in whole} == pytest.approx(adjusted)
    assert {c.method for c in whole} == {"Wilcoxon over listeners, Holm-corrected"}
    assert all(c.p < 0.01 and c.over == "listeners and items" for c in whole)
    assert part.levels == ()


def test_preferences_give_the_odds_of_bradley_and_terry_and_an_exact_test(tmp_path: Path) -> None:
    plan = answering.study([{"name": "preference", "indifferent": "neither"}], 6)

    def respond(k: int, screen: Screen) -> dict[str, Any]:
        clean = next(s.label for s in screen.sounds if s.condition == "clean")
        item = int(screen.facts["item"][-1])
        return {"answer": "none" if item == 5 else clean if item < 4 else "AB".replace(clean, "")}

    part = analyse(plan, answering.table(plan, tmp_path / "a.db", 10, respond)).of("preference")[0]
    (pair,) = part.pairs
    assert (pair.first, pair.second, pair.n, pair.ties, pair.wins) == ("clean", "adversarial", 60, 10, 45.0)
    assert pair.share.value == 0.8
    assert pair.p_independent == pytest.approx(stats.binomtest(40, 50).pvalue)
    # ten listeners agree, but of five items one is the other way round: of other items nothing is known
    assert pair.p_two_sided > 0.05
    worth = dict(part.worth)
    gap = (worth["clean"].value or 0) - (worth["adversarial"].value or 0)
    assert gap == pytest.approx(math.log(45 / 15), abs=0.01)  # a wide prior pulls a little


def test_transcripts_are_counted_word_by_word(tmp_path: Path) -> None:
    plan = answering.study(["transcription"], 2)
    said = {"left": "Left!", "right": "write it"}  # no error; a substitution and an insertion
    table = answering.table(plan, tmp_path / "a.db", 3, lambda k, s: {"text": said[s.facts["spoken"]]})
    part = analyse(plan, table).of("transcriptions")[0]
    assert part.cells[0].n == 12
    assert part.cells[0].exact.value == 0.5
    assert part.cells[0].wer.value == pytest.approx(2 * 6 / 12)
    assert part.mistakes == (("right", "write it", 6),)


JND = [
    {"name": "same_different", "axes": ["noise"], "adaptive": {"max_trials": 12}, "same": 2, "sentinels": 1}
]


def test_thresholds_are_those_of_the_psychometric_fit_and_of_its_pool(tmp_path: Path) -> None:
    plan = answering.study(JND)
    truth = [35.0 + 3 * k for k in range(6)]

    def respond(k: int, screen: Screen) -> dict[str, Any]:
        return {"answer": "different" if screen.facts["strength"] > truth[k] else "same"}

    table = answering.table(plan, tmp_path / "a.db", 6, respond)
    (part,) = analyse(plan, table).of("thresholds")
    (axis,) = part.axes
    prior, fits = psychometric.Prior(), []
    for one, true in zip(part.listeners, truth, strict=True):
        mine = [row for row in table if row["listener"] == one.listener and row["role"] == "trial"]
        fit = psychometric.fit(
            [r["strength"] for r in mine], [r["choice"] == "different" for r in mine], prior
        )
        fits.append(fit)
        assert (one.threshold.value, one.threshold.low, one.threshold.high) == (
            fit.threshold.mean,
            fit.threshold.low,
            fit.threshold.high,
        )
        assert one.threshold.low <= true <= one.threshold.high
        assert one.trials == 14
    pooled = psychometric.pooled(fits, prior)
    assert (axis.threshold.value, axis.threshold.low, axis.threshold.high) == (
        pooled.mean.mean,
        pooled.mean.low,
        pooled.mean.high,
    )
    assert pooled.mean.low < np.mean(truth) < pooled.mean.high
    assert (axis.trials, axis.listeners, axis.false_alarms.value) == (84, 6, 0.0)
    assert sum(level.n for level in axis.levels) == 84
    assert all(low <= mid <= high for _, mid, low, high in axis.curve)


def test_questions_are_corrected_by_holm_and_those_without_answers_stay_open(tmp_path: Path) -> None:
    asked = [
        {"name": "heard", "trial": "abx", "by": "loudness"},
        {"name": "not heard", "trial": "abx", "kind": "equivalent", "by": "loudness", "bound": 0.2},
        {"name": "typo", "trial": "abx", "by": "loudnes"},
        {"name": "nothing", "trial": "mushra", "kind": "different"},
    ]
    plan = answering.study(ABX, hypotheses=asked)
    results = analyse(plan, abx_answers(plan, tmp_path, by_item, listeners=20))
    tested = [h for h in results.hypotheses if h.p is not None]
    assert [(h.name, *h.where.values) for h in tested] == [
        ("heard", "low"),
        ("heard", "high"),
        ("not heard", "low"),
        ("not heard", "high"),
    ]
    assert [h.p_corrected for h in tested] == pytest.approx(
        multipletests([h.p for h in tested], method="holm")[1]
    )
    assert [h.holds for h in tested] == [h.p_corrected < 0.05 for h in tested if h.p_corrected is not None]
    plain = [h.p_independent for h in tested]
    shares = {s.where.values: s for s in results.of("choices")[0].shares}
    assert plain[0] == shares[("low",)].independent.p_greater
    assert [h.p for h in tested[:2]] == [shares[(v,)].p_greater for v in ("low", "high")]
    assert all(0 < h.power < 1 for h in tested[:2])
    open_ = [h for h in results.hypotheses if h.p is None]
    assert [(h.name, h.holds, h.estimate) for h in open_] == [
        ("typo", None, "no item has the factor loudnes"),
        ("nothing", None, "no answers"),
    ]


def test_a_difference_of_right_answers_between_conditions_is_tested_over_listeners_and_items(
    tmp_path: Path,
) -> None:
    asked = [
        {"name": "clearer", "trial": "identification", "kind": "different"},
        {"name": "by", "trial": "identification", "kind": "different", "by": "condition"},
    ]
    plan = answering.study(["identification"], 6, hypotheses=asked)
    first, second = analyse(plan, answering.table(plan, tmp_path / "a.db", 12, identification)).hypotheses
    # every third listener misses every adversarial word: a t test over listeners, for items do not differ
    gaps = [-1, 0, 0] * 4
    low, high = stats.t.interval(0.95, 11, np.mean(gaps), stats.sem(gaps))
    assert (first.interval.low, first.interval.high) == pytest.approx((low, high))
    assert first.p == pytest.approx(stats.ttest_1samp(gaps, 0).pvalue)
    assert first.p > 1000 * first.p_independent
    assert (
        first.estimate
        == "clean 72 of 72 right, adversarial 48 of 72 right; adversarial minus clean: −33.3 (−64.6 to −2.0) "
        "points"
    )
    assert first.method == "difference of shares over listeners and items"
    assert (second.p, second.where) == (first.p, first.where)


def test_times_and_proof_of_playback_are_summed_up(tmp_path: Path) -> None:
    plan = answering.study(ABX)
    table = abx_answers(
        plan, tmp_path, by_item, listeners=4, seconds=lambda k: 1.0 + k, proved=lambda k: k != 2
    )
    results = analyse(plan, table)
    assert (results.playback.trials, results.playback.heard, results.playback.plays) == (16, 12, 6.0)
    assert results.playback.rates_hz == (("48000", 4),)
    assert (results.times[0].n, results.times[0].median_s, results.times[0].quartiles_s) == (
        16,
        2.5,
        (1.75, 3.25),
    )
    assert [(p.median_s, p.heard, p.with_sounds) for p in results.people] == [
        (1.0, 4, 4),
        (2.0, 4, 4),
        (3.0, 0, 4),
        (4.0, 4, 4),
    ]


def test_results_are_json_and_the_same_every_time(tmp_path: Path) -> None:
    plan = answering.study([*ABX, "naturalness", *JND])
    respond = lambda k, s: (
        rated(k, s) if s.kind == "naturalness" else {w.name: w.choices[k % 2].value for w in s.widgets}
    )
    table = answering.table(plan, tmp_path / "a.db", 4, respond)
    first, second = (json.dumps(analyse(plan, table, seed=3).as_dict(), allow_nan=False) for _ in range(2))
    assert first == second
    assert [(t["analysis"], t["trial"]) for t in json.loads(first)["trials"]] == [
        ("choices", "abx"),
        ("ratings", "naturalness"),
        ("thresholds", "same_different"),
    ]


def test_a_study_without_answers_has_results_too() -> None:
    plan = answering.study(ABX, hypotheses=[{"name": "heard", "trial": "abx"}])
    results = analyse(plan, [])
    assert (results.listeners, results.answers, results.trials) == (0, 0, ())
    assert results.hypotheses[0].holds is None
    assert results.exclusions == replace(exclusions(plan, []), listeners=0)

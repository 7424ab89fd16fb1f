"""The published study comes out of the analysis and stands on the page: its counts give its percentages,
intervals and p-values."""

import html
import math
from pathlib import Path
from typing import Any

import published
import pytest

from limen.listening.analysis.analyse import analyse
from limen.listening.study import Study
from limen.report.study.page import build_study

Taken = tuple[Study, list[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> Taken:
    plan, table, recorded = published.taken(tmp_path_factory.mktemp("seed000"))
    return plan, table, analyse(plan, table, recorded=recorded)


def shares(results: Any, kind: str) -> dict[tuple[str, ...], Any]:
    return {s.where.values: s for part in results.of("choices") if part.trial == kind for s in part.shares}


def ratings(results: Any) -> dict[tuple[str, ...], Any]:
    return {r.where.values: r for r in results.of("ratings")[0].ratings}


def test_36_listeners_of_nine_experiments_count(taken: Taken) -> None:
    plan, table, results = taken
    assert (results.listeners, results.finished, results.exclusions.kept) == (36, 36, 36)
    assert len({(row["listener"], row["group"]) for row in table}) == 36
    assert {
        sum(row["group"] == f"experiment {k}" for row in table if row["role"] == "catch")
        for k in range(1, 10)
    } == {4}
    assert results.answers == 36 * (12 + 6)
    assert results.exclusions.same is True
    assert len(plan.cells) == 9
    asked = [dict((kind, n) for kind, _, n in person.right) for person in results.people]
    assert asked == [{"identification": 12, "abx": 6}] * 36


def test_405_of_432_commands_are_right(taken: Taken) -> None:
    found = shares(taken[2], "identification")
    assert (found[()].right, found[()].n) == (405, 432)
    assert {c: found[(c,)].n - found[(c,)].right for c in ("clean", "adversarial")} == {
        "clean": 15,
        "adversarial": 12,
    }
    assert {k: found[(k,)].n - found[(k,)].right for k in published.LEVELS} == {
        "low": 1,
        "medium": 9,
        "high": 17,
    }
    percent = {v: round(100 * s.share.value, 1) for v, s in found.items() if len(v) == 2}
    assert percent == {
        ("low", "clean"): 98.6,
        ("low", "adversarial"): 100.0,
        ("medium", "clean"): 94.4,
        ("medium", "adversarial"): 93.1,
        ("high", "clean"): 86.1,
        ("high", "adversarial"): 90.3,
    }
    assert found[()].chance == pytest.approx(1 / 12)


def test_the_commands_taken_for_others_are_in_the_confusion_matrix(taken: Taken) -> None:
    whole = next(
        c
        for part in taken[2].of("choices")
        if part.trial == "identification"
        for c in part.confusions
        if not c.where.keys
    )
    assert whole.truths == whole.answers == published.WORDS
    assert sum(map(sum, whole.counts)) == 432
    assert sum(whole.counts[k][k] for k in range(12)) == 405


def test_naturalness_of_4_or_5_is_given_to_63_0_and_39_8_percent(taken: Taken) -> None:
    found = ratings(taken[2])
    assert (found[("clean",)].good_n, found[("adversarial",)].good_n) == (136, 86)
    assert found[("clean",)].n == found[("adversarial",)].n == 216
    assert round(100 * found[("clean",)].good.value, 1) == 63.0
    assert round(100 * found[("adversarial",)].good.value, 1) == 39.8
    assert round(100 * found[("low", "adversarial")].bad_n / 72, 1) == 75.0
    assert round(100 * found[("low", "clean")].bad_n / 72, 1) == 4.2
    assert round(100 * found[("high", "adversarial")].good.value, 1) == 62.5
    assert round(100 * found[("high", "clean")].good.value, 1) == 47.2


def test_ratings_of_clean_and_adversarial_clips_differ(taken: Taken) -> None:
    whole = next(c for c in taken[2].of("ratings")[0].comparisons if not c.where.keys)
    assert whole.conditions == ("clean", "adversarial")
    assert whole.method == "exact multinomial test"
    assert whole.error == 0
    assert whole.p_independent < 0.01
    assert whole.p < 0.01
    assert whole.difference.high < 0


@pytest.mark.parametrize(
    ("level", "right", "percent", "interval"),
    [("low", 70, 97.2, (0.90, 0.99)), ("medium", 59, 81.9, (0.71, 0.90)), ("high", 40, 55.6, (0.43, 0.67))],
)
def test_abx_success_and_its_interval(
    taken: Taken, level: str, right: int, percent: float, interval: tuple[float, float]
) -> None:
    found = shares(taken[2], "abx")[(level,)]
    assert (found.right, found.n) == (right, 72)
    assert round(100 * found.share.value, 1) == percent
    # the paper cuts after two digits: 0.9966 is 0.99
    plain = found.independent.interval
    assert tuple(math.floor(100 * end) / 100 for end in (plain.low, plain.high)) == interval
    assert plain.value == found.share.value


def test_only_the_highest_level_is_not_told_from_guessing(taken: Taken) -> None:
    found = shares(taken[2], "abx")
    assert found[("high",)].independent.p_greater == pytest.approx(0.2048, abs=5e-5)
    assert found[("high",)].independent.p_two_sided == pytest.approx(0.4096, abs=5e-5)
    assert found[("high",)].p_greater > 0.05
    assert max(found[("low",)].p_greater, found[("medium",)].p_greater) < 1e-4
    assert max(found[("low",)].independent.p_greater, found[("medium",)].independent.p_greater) < 1e-6
    assert found[("high",)].d_prime.value < found[("medium",)].d_prime.value < found[("low",)].d_prime.value


def test_confidence_is_high_in_90_62_and_10_percent_of_the_answers(taken: Taken) -> None:
    found = shares(taken[2], "abx")
    given = {
        level: {s.confidence: round(100 * s.of_all, 1) for s in found[(level,)].confidence}
        for level in published.LEVELS
    }
    assert [given[level]["high"] for level in published.LEVELS] == [90.3, 62.5, 9.7]
    assert given["high"]["low"] == 72.2
    assert [s.confidence for s in found[()].confidence] == ["low", "medium", "high"]


def test_its_questions_are_answered_and_corrected_together(taken: Taken) -> None:
    answers = {(h.name, *h.where.values): h for h in taken[2].hypotheses}
    assert len(answers) == 7
    assert [answers["Can the attack be heard?", level].holds for level in published.LEVELS] == [
        True,
        True,
        False,
    ]
    # not better than chance is not inaudible: within 15 points of chance is not shown
    assert answers["Is it inaudible?", "high"].holds is False
    assert answers["Is it inaudible?", "high"].p_independent == pytest.approx(0.0615, abs=1e-4)
    assert answers["Is it inaudible?", "high"].p > 0.05
    assert answers["Do adversarial clips sound less natural?",].holds is True


def test_the_page_says_all_of_it(taken: Taken, tmp_path: Path) -> None:
    _, table, results = taken
    page = build_study(results, table, tmp_path / "results.html").read_text(encoding="utf-8")
    text = html.unescape(page).replace("\u202f", " ").replace("\u2060", "").replace("−", "-")
    for words in (
        "36 people took part and 36 reached the end; none were excluded",
        "405 of 432 answers were right, 93.8 %",
        "By loudness: low 97.2 % (",
        ">90.3–99.7<",
        ">71.1–90.0<",
        ">43.4–67.3<",
        "not significantly better than guessing (one-sided p = 0.",
        "up to 42 % of listeners may hear the difference",
        "63.0 % (",
        "39.8 % (",
        "exact multinomial test",
        ">90.3 %<",
        ">62.5 %<",
        ">9.7 %<",
        ">0.205<",
        ">0.410<",
        results.fingerprint,
        "the rules recorded before the first answer",
    ):
        assert words in text, words

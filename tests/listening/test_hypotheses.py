"""Verdicts of pre-registered questions in simulated studies whose truth is known: what is not so is rarely
said to be."""

import math
from typing import Any

import answering
import numpy as np
import pytest
import simulated_answers as simulated

from limen.listening.analysis.analyse import analyse
from limen.listening.analysis.hypotheses import answered
from limen.report.study.page import build_study, sentences

STUDIES = 300
MOST = 0.06 + 3.3 * math.sqrt(0.06 * 0.94 / STUDIES)
"""Rate of false verdicts of so many studies that a test whose level is kept to 6 % may show."""


def row(kind: str, listener: int, item: int, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "listener": int(listener),
        "item": f"item{item}",
        "condition": "clean / adversarial",
        "group": "",
        "role": "trial",
        "step": 0,
        "correct": None,
        "rating": None,
        "chosen": None,
        "confidence": None,
        "truth": "A",
        "choice": "A",
    } | more


def ask(kind: str, trial: str, studies: list[list[dict[str, Any]]], **more: Any) -> list[Any]:
    asked = {"name": "q", "kind": kind, "trial": trial, **more}
    plan = answering.study([trial if trial != "abx" else {"name": "abx"}], 12, hypotheses=[asked])
    return [answered(plan, {trial: rows}, [], 0)[0] for rows in studies]


@pytest.mark.parametrize("icc", [0.0, 0.15, 0.3])
def test_a_preference_that_is_none_is_seldom_found_and_the_interval_holds_it(icc):
    who, what = simulated.everyone_hears_all(20, 12)
    rng = np.random.default_rng(1)
    studies = [
        [
            row("preference", w, i, chosen="clean" if y else "adversarial")
            for w, i, y in zip(who, what, answers, strict=True)
        ]
        for answers in simulated.right(who, what, 0.5, icc, 0.4, STUDIES, rng)
    ]
    found = ask("different", "preference", studies)
    assert np.mean([h.p < 0.05 for h in found]) < MOST
    assert np.mean([h.interval.low <= 0.5 <= h.interval.high for h in found]) > 1 - MOST
    if icc:  # what would be said if answers were independent
        assert np.mean([h.p_independent < 0.05 for h in found]) > 0.15


def test_equivalence_at_its_bound_is_seldom_shown_though_answers_of_listeners_resemble_each_other():
    who, what = simulated.everyone_hears_all(36, 6)
    rng = np.random.default_rng(2)
    studies = [
        [row("abx", w, i, correct=bool(y)) for w, i, y in zip(who, what, answers, strict=True)]
        for answers in simulated.right(who, what, 0.65, 0.3, 0.4, STUDIES, rng)
    ]
    found = ask("equivalent", "abx", studies, bound=0.15)
    assert np.mean([h.p < 0.05 for h in found]) < MOST
    assert np.mean([h.p_independent < 0.05 for h in found]) > 0.10


@pytest.mark.parametrize("groups", [9, 1])
def test_naturalness_of_clips_that_differ_is_seldom_taken_for_a_difference_of_conditions(groups):
    """The design of seed000, and one group for all: each condition has clips of its own, which differ by 0.8
    steps; listeners by 0.5."""
    who, place = simulated.everyone_hears_all(36, 12)
    condition, what = place // 6, 12 * (who % groups) + place
    rng = np.random.default_rng(3)
    studies = []
    for _ in range(STUDIES // 5):
        y = (
            3
            + 0.5 * rng.standard_normal(36)[who]
            + 0.8 * rng.standard_normal(108)[what]
            + rng.standard_normal(432)
        )
        given = zip(who, what, condition, np.clip(np.round(y), 1, 5), strict=True)
        studies.append(
            [
                row("naturalness", w, i, condition=("clean", "adversarial")[c], rating=float(r))
                for w, i, c, r in given
            ]
        )
    found = ask("different", "naturalness", studies)
    error = 3.3 * math.sqrt(0.06 * 0.94 / len(studies))
    assert np.mean([h.p < 0.05 for h in found]) < 0.06 + error
    assert np.mean([h.interval.low <= 0 <= h.interval.high for h in found]) > 0.94 - error


def abx(tmp_path: Any, hearing: int, listeners: int = 30, trials: int = 12, seed: int = 4) -> Any:
    """A study of `listeners` of whom the first `hearing` are always right and the others guess, half of them
    right on the whole."""
    rng = np.random.default_rng(seed)
    steps = [{"name": "abx", "trials": trials}]
    asked = [{"name": "Is it inaudible?", "kind": "equivalent", "trial": "abx", "bound": 0.15}]
    plan = answering.study(steps, trials, hypotheses=asked, exclude=[])

    def respond(k: int, screen: Any) -> dict[str, Any]:
        x = screen.truth["answer"]
        right = k < hearing or rng.random() < 0.5
        return {"answer": x if right else "AB".replace(x, ""), "confidence": "low"}

    table = answering.table(plan, tmp_path / "a.db", listeners, respond)
    return table, analyse(plan, table)


def test_with_3_of_30_who_always_hear_it_the_page_does_not_call_it_inaudible(tmp_path):
    table, results = abx(tmp_path, 3)
    (h,) = results.hypotheses
    assert h.holds is True, "on average it is within 15 points of chance"
    assert h.hearers.high > 0.1
    assert h.verdict == "on average only"
    assert "of listeners may hear the difference" in h.estimate
    text = build_study(results, table, tmp_path / "r.html").read_text(encoding="utf-8")
    assert ">on average only<" in text
    assert "too many to call it inaudible" in " ".join(sentences(results, []))
    assert results.as_dict()["hypotheses"][0]["verdict"] == "on average only"


def test_with_nobody_who_hears_it_among_60_the_answer_is_yes_and_says_how_many_may(tmp_path):
    _, results = abx(tmp_path, 0, listeners=60)
    (h,) = results.hypotheses
    assert h.verdict == "yes"
    assert h.hearers.high < 0.15
    said = " ".join(sentences(results, []))
    assert "on average within 15 points" in said
    assert "of listeners may hear the difference" in said
    assert "too many" not in said


def test_power_is_that_of_the_verdict_when_the_correction_of_all_questions_is_at_its_worst():
    who, what = simulated.everyone_hears_all(40, 12)
    right = simulated.right(who, what, 0.5, 0.05, 0.2, 1, np.random.default_rng(12))[0]
    rows = [row("abx", w, i, correct=bool(y)) for w, i, y in zip(who, what, right, strict=True)]
    asked = [{"name": "q", "kind": kind, "trial": "abx"} for kind in ("above_chance", "equivalent")]
    plan = lambda questions: answering.study([{"name": "abx"}], 12, hypotheses=questions)
    detect, equal = answered(plan(asked), {"abx": rows}, [], 0)
    (alone,) = answered(plan(asked[:1]), {"abx": rows}, [], 0)
    (halved,) = answered(plan([asked[0] | {"alpha": 0.025}]), {"abx": rows}, [], 0)
    assert detect.power == pytest.approx(halved.power)
    assert detect.power < alone.power
    # with 12 of these listeners the bound of those who hear it is never a fifth or less
    few = [r for r in rows if r["listener"] < 12]
    assert answered(plan([asked[1] | {"bound": 0.3}]), {"abx": few}, [], 0)[0].power == 0.0
    assert equal.power > 0.1


def test_d_prime_below_chance_is_negative_and_the_truncated_one_is_shown_too(tmp_path):
    table, results = abx(tmp_path, 0, listeners=8, trials=4, seed=13)
    share = results.of("choices")[0].shares[0]
    assert share.share.value < 0.5
    assert share.d_prime.value < 0
    assert share.d_prime.low < share.d_prime.value < share.d_prime.high
    assert share.d_prime_truncated.value == 0
    text = build_study(results, table, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "d′ truncated" in text


def test_one_listener_alone_answers_no_question(tmp_path):
    _, results = abx(tmp_path, 1, listeners=1)
    (h,) = results.hypotheses
    assert (h.verdict, h.p) == ("no answers", None)
    assert h.estimate == "answers of one listener do not generalise to others"

"""Rules of the study file leave listeners out in order and exactly as written, and the report says who, why
and on what evidence."""

from pathlib import Path
from typing import Any

import answering
import pytest

from limen.listening.analysis.exclusions import exclusions, words
from limen.listening.analysis.export import rows as rows_of
from limen.listening.study import Rule
from limen.trials.base.screen import Screen

STEPS = [
    {"name": "attention", "file": "a.wav", "word": "tea", "others": ["coffee", "milk"]},
    {"name": "abx", "trials": 4, "catch": 1, "sentinels": {"part": "sentinel"}, "where": {"part": "1"}},
    {"name": "naturalness", "trials": 3, "where": {"part": "1"}},
]


def study(*rules: dict[str, Any]) -> Any:
    plan = answering.study(STEPS, 6, exclude=list(rules))
    parts = ["1", "1", "1", "1", "sentinel", "sentinel"]
    items = [
        i.model_copy(update={"factors": {"part": part}}) for i, part in zip(plan.items, parts, strict=True)
    ]
    return plan.model_copy(update={"items": items})


def good(listener: int, screen: Screen) -> dict[str, Any]:
    """Right wherever something is right, unsure in catch trials, and never the same rating twice."""
    if screen.kind == "naturalness":
        return {
            "naturalness": str(1 + len(str(screen.facts["item"])) % 2 + int(screen.facts["item"][-1]) % 3)
        }
    if screen.kind == "attention":
        return dict(screen.truth)
    return {
        "answer": screen.truth.get("answer", "A"),
        "confidence": "low" if screen.role == "catch" else "high",
    }


def excluded(tmp_path: Path, rules: list[dict[str, Any]], respond: Any, **more: Any) -> Any:
    plan = study(*rules)
    table = answering.table(plan, tmp_path / "a.db", 3, respond, **more)
    report = exclusions(plan, table)
    # the rows say the same as the report
    assert {row["listener"]: row["reason"] for row in table if row["excluded"]} == report.reasons()
    return report


def test_without_rules_nobody_is_left_out(tmp_path: Path) -> None:
    report = excluded(tmp_path, [], good)
    assert (report.listeners, report.kept, report.excluded, report.reasons()) == (3, 3, (), {})


def test_incomplete_leaves_out_who_did_not_reach_the_end(tmp_path: Path) -> None:
    report = excluded(
        tmp_path,
        [{"name": "incomplete"}],
        lambda k, s: None if k == 1 and s.kind == "naturalness" else good(k, s),
    )
    assert [(e.listener, e.rule, e.reason) for e in report.excluded] == [
        (2, "incomplete", "did not reach the end")
    ]
    assert (
        report.excluded[0].evidence == "last answer on screen 8"
    )  # a check, 4 trials, 2 sentinels, a catch trial


def test_catch_confidence_leaves_out_who_is_sure_of_equal_clips(tmp_path: Path) -> None:
    def sure(k: int, s: Screen) -> dict[str, Any]:
        return (
            {"answer": "A", "confidence": ("low", "medium", "high")[k]} if s.role == "catch" else good(k, s)
        )

    report = excluded(tmp_path, [{"name": "catch_confidence"}], sure)
    assert [(e.listener, e.evidence) for e in report.excluded] == [(3, "screen 8: confidence high")]
    wider = exclusions(
        study({"name": "catch_confidence", "values": ["medium", "high"]}),
        answering.table(study(), tmp_path / "b.db", 3, sure),
    )
    assert list(wider.reasons()) == [2, 3]
    assert wider.excluded[0].reason == "answered a catch trial with confidence medium or high"


@pytest.mark.parametrize(("most", "left_out"), [(0, [2, 3]), (1, [3]), (2, [])])
def test_sentinels_may_be_missed_as_often_as_the_rule_says(
    tmp_path: Path, most: int, left_out: list[int]
) -> None:
    missed: dict[int, int] = {}

    def misses(k: int, s: Screen) -> dict[str, Any]:
        if s.role == "sentinel" and missed.get(k, 0) < k:
            missed[k] = missed.get(k, 0) + 1
            return {"answer": "AB".replace(s.truth["answer"], ""), "confidence": "low"}
        return good(k, s)

    report = excluded(tmp_path, [{"name": "sentinels", "most": most}], misses)
    assert list(report.reasons()) == left_out
    assert all(
        f"{k - 1} of 2 sentinels wrong" in e.evidence for k, e in zip(left_out, report.excluded, strict=True)
    )


def test_checks_leave_out_who_fails_one(tmp_path: Path) -> None:
    report = excluded(
        tmp_path,
        [{"name": "checks"}],
        lambda k, s: {"answer": "milk"} if k == 0 and s.kind == "attention" else good(k, s),
    )
    assert [(e.listener, e.evidence) for e in report.excluded] == [(1, "1 of 1 checks failed (screen 1)")]


def test_headphones_counts_the_screens_of_the_headphone_test_alone(tmp_path: Path) -> None:
    steps = [
        "headphones",
        {"name": "attention", "file": "a.wav", "word": "tea", "others": ["milk"]},
        {"name": "abx", "trials": 1},
    ]
    plan = answering.study(steps, exclude=[{"name": "headphones", "most": 1}])

    missed = [0] * 4

    def respond(k: int, s: Screen) -> dict[str, Any]:
        if s.kind == "attention":
            return {"answer": "milk"}
        if s.kind == "abx":
            return good(k, s)
        if missed[k] == k:
            return dict(s.truth)
        missed[k] += 1
        return {"answer": "2" if s.truth["answer"] == "1" else "1"}

    report = exclusions(plan, answering.table(plan, tmp_path / "a.db", 4, respond))
    # listener k misses k of the six; five right answers of six are proof
    assert [(e.listener, e.evidence[:17]) for e in report.excluded] == [
        (3, "2 of 6 wrong (scr"),
        (4, "3 of 6 wrong (scr"),
    ]
    assert report.excluded[0].reason == "more than 1 wrong screen of the headphone test"


RATINGS = {"clean": 100, "adversarial": 60, "low-pass 3.5 kHz": 20, "low-pass 7 kHz": 50}


def rated(items: int, **how: Any) -> Any:
    """A study of so many MUSHRA trials, one per item."""
    return answering.study([{"name": "mushra", "reference": "clean"}], items, **how)


def rates(change: Any) -> Any:
    """Everybody rates like everybody, but for what `change(listener, item)` says by condition."""

    def respond(k: int, s: Screen) -> dict[str, Any]:
        mine = RATINGS | change(k, int(str(s.facts["item"]).split()[1]))
        return {"rating": {sound.label: mine[sound.condition] for sound in s.sounds if sound.rated}}

    return respond


def test_the_hidden_reference_may_be_rated_below_90_in_15_percent_of_the_trials_and_not_more(
    tmp_path: Path,
) -> None:
    plan = rated(20, exclude=[{"name": "hidden_reference"}])
    low = rates(lambda k, item: {"clean": 89} if item < (0, 3, 4)[k] else {"clean": 90})
    report = exclusions(plan, answering.table(plan, tmp_path / "a.db", 3, low))
    assert [e.listener for e in report.excluded] == [3]  # 3 of 20 are 15 %, 4 are more
    assert report.excluded[0].reason == "rated the hidden reference below 90 in more than 15 % of the trials"
    assert report.excluded[0].evidence.startswith("hidden reference below 90 in 4 of 20 trials (screen ")
    assert report.excluded[0].evidence.count(": 89") == 4


@pytest.mark.parametrize(
    ("rule", "left_out"),
    [
        ({"score": 89}, []),
        ({"score": 89.5}, [2]),
        ({"share": 0.2}, []),
        ({"share": 0.19}, [2]),
        ({"share": 0.0}, [1, 2]),
    ],
)
def test_score_and_share_of_the_hidden_reference_are_options(
    rule: dict[str, Any], left_out: list[int], tmp_path: Path
) -> None:
    plan = rated(20, exclude=[{"name": "hidden_reference", **rule}])
    low = rates(lambda k, item: {"clean": 89} if item < (1, 4)[k] else {})
    assert [
        e.listener for e in exclusions(plan, answering.table(plan, tmp_path / "a.db", 2, low)).excluded
    ] == left_out


def test_the_mid_anchor_may_be_rated_above_90_in_15_percent_of_the_trials_and_not_more(
    tmp_path: Path,
) -> None:
    plan = rated(20, exclude=[{"name": "mid_anchor"}])
    # each for items of their own: no item's anchor is too good for more than a quarter of the listeners
    high = rates(lambda k, item: {"low-pass 7 kHz": 91 if 4 * k <= item < 4 * k + (3, 4, 0, 0, 0)[k] else 90})
    report = exclusions(plan, answering.table(plan, tmp_path / "a.db", 5, high))
    assert [e.listener for e in report.excluded] == [2]
    assert (
        report.excluded[0].reason
        == "rated the anchor low-pass 7 kHz above 90 in more than 15 % of the trials"
    )
    assert report.excluded[0].evidence.startswith("anchor above 90 in 4 of 20 trials (screen ")


@pytest.mark.parametrize(("listeners", "left_out"), [(8, [1, 2]), (7, [])])
def test_nobody_is_left_out_for_an_anchor_that_more_than_a_quarter_take_for_excellent(
    listeners: int, left_out: list[int], tmp_path: Path
) -> None:
    plan = rated(6, exclude=[{"name": "mid_anchor"}])
    high = rates(
        lambda k, item: {"low-pass 7 kHz": 95} if k < 2 and item == 0 else {}
    )  # 2 of 8 are a quarter, 2 of 7 are more
    report = exclusions(plan, answering.table(plan, tmp_path / "a.db", listeners, high))
    assert [e.listener for e in report.excluded] == left_out


def test_too_fast_looks_at_the_median_of_trials(tmp_path: Path) -> None:
    report = excluded(
        tmp_path, [{"name": "too_fast", "seconds": 1.5}], good, seconds=lambda k: (1.49, 1.5, 3.0)[k]
    )
    assert [(e.listener, e.evidence) for e in report.excluded] == [(1, "median 1.49 s over 7 trials")]


def test_unheard_counts_trials_without_proof(tmp_path: Path) -> None:
    report = excluded(tmp_path, [{"name": "unheard", "most": 6}], good, proved=lambda k: k > 0)
    assert list(report.reasons()) == [1]
    assert report.excluded[0].reason == "more than 6 trials without proof that every sound was played"
    assert report.excluded[0].evidence.startswith("7 of 7 trials without proof")
    assert (
        excluded(tmp_path / "b", [{"name": "unheard", "most": 7}], good, proved=lambda k: k > 0).excluded
        == ()
    )


def test_constant_answers_are_found_whatever_the_confidence(tmp_path: Path) -> None:
    def stubborn(k: int, s: Screen) -> dict[str, Any]:
        return {"naturalness": "3"} if k == 2 and s.kind == "naturalness" else good(k, s)

    report = excluded(tmp_path, [{"name": "constant_answers"}], stubborn)
    assert [(e.listener, e.evidence) for e in report.excluded] == [(3, "naturalness: “3” 3 times")]


def test_the_first_rule_that_hits_is_the_reason_and_each_rule_counts_its_own(tmp_path: Path) -> None:
    def bad(k: int, s: Screen) -> dict[str, Any]:
        if s.role == "catch":
            return {"answer": "A", "confidence": "high"}
        return {"answer": "milk"} if k == 1 and s.kind == "attention" else good(k, s)

    report = excluded(
        tmp_path, [{"name": "checks"}, {"name": "incomplete"}, {"name": "catch_confidence"}], bad
    )
    assert [(e.listener, e.rule) for e in report.excluded] == [
        (1, "catch_confidence"),
        (2, "checks"),
        (3, "catch_confidence"),
    ]
    assert report.hits == (1, 0, 2)
    assert report.kept == 0
    turned = excluded(tmp_path / "b", [{"name": "catch_confidence"}, {"name": "checks"}], bad)
    assert [e.rule for e in turned.excluded] == ["catch_confidence"] * 3


def test_the_report_says_whether_the_rules_are_those_recorded_first(tmp_path: Path) -> None:
    plan = study({"name": "incomplete"})
    store = answering.fill(plan, tmp_path / "a.db", 1, good)
    table, recorded = rows_of(store.answers(), store.listeners(), plan), store.fingerprint()
    store.close()
    assert exclusions(plan, table, recorded).same is True
    assert exclusions(study({"name": "checks"}), table, recorded).same is False
    assert exclusions(plan, table).same is None


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (Rule(name="sentinels"), "any wrong sentinel"),
        (Rule(name="sentinels", most=1), "more than 1 wrong sentinel"),
        (Rule(name="checks", most=2), "more than 2 failed checks"),
        (Rule(name="too_fast", seconds=0.5), "median time of a trial below 0.5 s"),
        (Rule(name="constant_answers"), "the same answer to all trials of a type"),
    ],
)
def test_a_rule_reads_as_a_sentence(rule: Rule, sentence: str) -> None:
    assert words(rule) == sentence

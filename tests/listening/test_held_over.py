"""What intervals hold for beyond those heard: it stands with every number, and the page says it where the
number is read."""

from pathlib import Path
from typing import Any

import answering
import numpy as np
import pytest
import simulated_answers as simulated
from test_check import study as study_file

from limen.listening.analysis.analyse import analyse
from limen.listening.checks.check import check_study
from limen.listening.statistics.crossed import Crossing
from limen.listening.statistics.samples import sampled_mean, sampled_share
from limen.listening.study import Study
from limen.report.blocks import Table
from limen.report.study.page import build_study, sentences
from limen.report.study.section import section_of
from limen.trials.base.screen import Screen

RNG = np.random.default_rng(0)


def tables(result: Any, found: Any) -> list[Table]:
    return [block for block in section_of(result, found, []).blocks if isinstance(block, Table)]


def results(
    steps: list[Any], respond: Any, where: Path, listeners: int, n: int, **more: Any
) -> tuple[Study, list[dict[str, Any]], Any]:
    plan = answering.study(steps, n, **more)
    table = answering.table(plan, where / "a.db", listeners, respond)
    return plan, table, analyse(plan, table)


def guess(k: int, screen: Screen) -> dict[str, Any]:
    return {"answer": "AB"[int(RNG.integers(2))], "confidence": "low"}


@pytest.mark.parametrize(
    ("listeners", "items", "over"),
    [
        ([1, 2, 3, 4], "aaaa", "listeners"),
        ([1, 2, 3, 4], "abcd", "listeners and items"),
        ([1, 1, 2, 2, 3, 3], "abcdef", "listeners and items"),
        ([1, 2, 3, 4, 5, 6], "aabbcc", "listeners and items"),
        ([1, 1, 2, 2, 3, 3], "aaaaaa", "listeners"),
    ],
)
def test_listeners_and_items_that_are_others_in_every_answer_vary_with_the_answers(listeners, items, over):
    assert Crossing(listeners, list(items)).over == over


def test_estimates_say_what_they_hold_for_and_from_how_many_items(tmp_path):
    _, _, found = results(
        [{"name": "naturalness"}], lambda k, s: {"naturalness": str(int(RNG.integers(1, 6)))}, tmp_path, 6, 3
    )
    part = found.of("ratings")[0]
    assert part.ratings[0].mean.over == part.ratings[0].good.over == "listeners and items"
    assert {r.mean.over for r in part.ratings if r.mean.items == 1} == {"listeners"}
    assert part.ratings[0].mean.items == part.ratings[0].good.items == 3
    assert part.comparisons[0].difference.over == part.comparisons[0].over
    assert found.as_dict()["trials"][0]["ratings"][0]["mean"]["over"] == "listeners and items"


def test_a_table_of_one_item_does_not_speak_of_others(tmp_path):
    _, _, found = results(
        [{"name": "naturalness"}], lambda k, s: {"naturalness": str(int(RNG.integers(1, 6)))}, tmp_path, 6, 1
    )
    for table in tables(found.of("ratings")[0], found):
        assert "only over listeners: the design allows no more" in table.caption


def test_a_cell_with_fewer_than_five_items_says_that_its_test_may_find_too_much(tmp_path):
    for n, said in ((4, True), (24, False)):
        (tmp_path / str(n)).mkdir()
        _, _, found = results([{"name": "abx", "trials": n}], guess, tmp_path / str(n), 8, n)
        (shares, *_) = tables(found.of("choices")[0], found)
        assert ("fewer than five items" in shares.caption) == said
    few = {"hypotheses": [{"name": "h", "trial": "abx", "effect": 0.9}]}
    notes = [f.text for f in check_study(study_file(tmp_path, few, items=4))]
    assert any(
        "are about only 4 items, so the variance between items is poorly known" in text for text in notes
    )
    notes = [f.text for f in check_study(study_file(tmp_path, few, items=6))]
    assert not any("are about only" in text for text in notes)


def test_the_word_error_rate_is_judged_over_listeners_and_items_and_has_no_interval_if_all_is_right(tmp_path):
    wrong = {(k, i): float(RNG.random() < 0.4) for k in range(8) for i in range(6)}

    def typed(k: int, screen: Screen) -> dict[str, Any]:
        return {
            "text": "nonsense" if wrong[k, int(screen.facts["item"].split()[1])] else screen.facts["spoken"]
        }

    _, table, found = results([{"name": "transcription"}], typed, tmp_path, 8, 6)
    part = found.of("transcriptions")[0]
    mine = [row for row in table if row["role"] == "trial"]
    errors = [wrong[row["listener"] - 1, int(row["item"].split()[1])] for row in mine]
    plain = sampled_mean(errors, [r["listener"] for r in mine], [r["item"] for r in mine], within=(0, 1))
    # every text is one word: the rate is the share of wrong answers
    assert (part.cells[0].wer.value, part.cells[0].wer.low, part.cells[0].wer.high) == pytest.approx(
        (plain.value, plain.low, plain.high)
    )
    assert part.cells[0].wer.over == "listeners and items"
    (tmp_path / "right").mkdir()
    _, table, found = results(
        [{"name": "transcription"}], lambda k, s: {"text": s.facts["spoken"]}, tmp_path / "right", 8, 6
    )
    rate = found.of("transcriptions")[0].cells[0].wer
    assert (rate.value, rate.low, rate.high) == (0.0, None, None)
    assert "word error rate 0.0\u202f%" in " ".join(sentences(found, []))
    assert "generalise over listeners and items" in tables(found.of("transcriptions")[0], found)[0].caption
    assert "Transcription" in build_study(found, table, tmp_path / "r.html").read_text(encoding="utf-8")


def test_intervals_of_these_items_or_these_listeners_say_so_where_they_are_read(tmp_path):
    def respond(k: int, screen: Screen) -> dict[str, Any]:
        if screen.kind == "same_different":
            return {"answer": "different" if screen.facts["strength"] > 35 + 3 * k else "same"}
        return guess(k, screen) if screen.kind == "abx" else {"answer": "AB"[int(RNG.integers(2))]}

    jnd = {"name": "same_different", "axes": ["noise"], "adaptive": {"max_trials": 8}, "same": 2}
    _, table, found = results([jnd, {"name": "preference"}, {"name": "abx"}], respond, tmp_path, 5, 6)
    text = build_study(found, table, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "95 % intervals from resampling listeners, for these items." in text
    assert "it generalises over items, but only for these listeners" in text
    assert "95 % credible intervals over listeners, for these items" in " ".join(sentences(found, []))
    assert (
        found.of("thresholds")[0].axes[0].threshold.over
        == found.of("preference")[0].worth[0][1].over
        == "listeners"
    )
    assert found.of("choices")[0].agreement.over == "items"
    assert "only for these items" in tables(found.of("thresholds")[0], found)[0].caption
    assert "only for these items" in tables(found.of("preference")[0], found)[1].caption


def test_a_preference_of_one_listener_has_no_test_and_says_why(tmp_path):
    _, _, found = results([{"name": "preference"}], lambda k, s: {"answer": "A"}, tmp_path, 1, 6)
    said = " ".join(sentences(found, []))
    assert "one listener does not generalise to others" in said
    assert "\u2013." not in said


def test_the_95_percent_interval_is_that_of_the_two_sided_test_and_the_90_percent_one_of_the_others():
    who, what = simulated.everyone_hears_all(20, 12)
    for y in simulated.right(who, what, 0.58, 0.1, 0.4, 30, np.random.default_rng(3)):
        wide, narrow = (sampled_share(y, who, what, 0.5, 0.1, level=level) for level in (0.95, 0.9))
        assert (wide.p_two_sided < 0.05) == (not wide.low < 0.5 < wide.high)
        assert (wide.p_greater < 0.05) == (narrow.low > 0.5)
        assert (wide.p_equivalent < 0.05) == (narrow.low > 0.4 and narrow.high < 0.6)

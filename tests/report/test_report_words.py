"""What the report says of recognisers: words compared, and the checks of their attacks."""

from pathlib import Path

import pytest
from fabricated_run import Fabricated
from speech_run import SPEECH, TARGET, curve, curve_rows, garbled, text_rows
from test_report_build import checks_of, text_of

from limen.report import build
from limen.report.run import read_run
from limen.report.threats import threats
from limen.report.transcripts import compare, error_rate


def test_word_differences_mark_wrong_added_and_left_out_words() -> None:
    found = compare("turn the light off", "turn a light off now")
    assert str(found.marked) == (
        'turn <span class="swap" title="“the” was transcribed as “a”"><del>the</del> <ins>a</ins></span> light off '
        '<ins title="“now” was added">now</ins>'
    )
    assert found.errors == "1 wrong, 1 added"
    assert str(compare("one two", "one").marked) == 'one <del title="“two” is missing">two</del>'
    assert str(compare("", "").marked) == '<span class="muted">(nothing)</span>'
    assert str(compare("one", " ").marked).startswith('<span class="muted">(nothing)</span> <del')
    assert "<b>" not in str(compare("a", "<b>").marked)


def test_words_are_compared_as_the_error_rate_compares_them_and_shown_as_they_stand() -> None:
    assert str(compare("hello world", "Hello, World.").marked) == "Hello, World."
    assert compare("hello world", "Hello, World.", "none").errors == "2 wrong"
    assert str(compare("twenty five", "25", "english").marked) == "twenty five"
    assert compare("well known", "well-known").errors == "no error"
    assert str(compare("stop now", "Stop - now!").marked) == "Stop - now!"
    assert error_rate(["Hello world", "go"], ["hello word", "go on"]) == pytest.approx(2 / 3)
    assert error_rate([""], ["anything"]) is None


def speech(run: Fabricated, attack: str, wer: float, **options: object) -> None:
    run.cell(
        **SPEECH,
        attack=attack,
        budget={"name": "snr", "snr_db": 30},
        rows=text_rows(*garbled(wer)),
        examples=0,
        **options,
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(("noise", "status"), [(0.2, "pass"), (0.7, "flag"), (0.0, "pass")])
def test_noise_that_costs_a_recogniser_as_many_words_as_the_attack_is_shouted(
    tmp_path: Path, noise: float, status: str
) -> None:
    run = Fabricated(tmp_path / "run")
    speech(run, "random_noise", noise)
    speech(run, "pgd", 0.0 if noise == 0 else 0.5)  # where nothing happens at all, noise proves nothing
    check = checks_of(run)["Noise control"]
    assert (check.status, check.compared) == (status, 1)
    if status == "flag":
        assert "word error rate" in check.flags[0]
        assert "1 flag raised" in text_of(build(run.folder))


def test_a_targeted_attack_is_compared_with_what_noise_reaches_of_the_target(tmp_path: Path) -> None:
    said = ["one two", "three four", "five six", "seven eight"]
    for number, (by_noise, by_attack, status) in enumerate(((0, 1, "pass"), (2, 1, "flag"))):
        run = Fabricated(tmp_path / str(number))
        heard = lambda hits: ["Open the door."] * hits + ["wrong words"] * (4 - hits)
        for attack, hits, target in (("random_noise", by_noise, None), ("pgd", by_attack, TARGET)):
            goal = None if target is None else {"name": "transcript", "text": target}
            rows = [row | {"success": i < hits} for i, row in enumerate(text_rows(said, heard(hits), target))]
            run.cell(
                **SPEECH,
                attack=attack,
                goal=goal,
                budget={"name": "snr", "snr_db": 30},
                rows=rows,
                examples=0,
            )
        # noise makes every word wrong, but that is not what this attack wants
        assert checks_of(run)["Noise control"].status == status


def test_the_noise_that_comes_with_a_curve_is_checked_too(tmp_path: Path) -> None:
    for number, (noise, status) in enumerate(((0.3, "pass"), (1.5, "flag"))):
        run = Fabricated(tmp_path / str(number))
        run.cell(
            **SPEECH,
            attack="pgd",
            budget={"name": "snr", "snr_db": 30},
            task={"name": "constrained_accuracy"},
            rows=curve_rows(),
            result=curve(15.0, noise),
            examples=0,
        )
        check = checks_of(run)["Noise control"]
        assert check.status == status
        assert all("at snr_db 20 noise gives" in flag for flag in check.flags[:1])


def test_an_attack_with_a_limit_of_its_own_or_a_surrogate_need_not_always_win(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(
        **SPEECH, attack="wasserstein", eps=0.01, own_limit=True, rows=text_rows(*garbled(0.1)), examples=0
    )
    run.cell(
        **SPEECH,
        attack="cw on other",
        attack_name="cw",
        surrogate={"models": [{"name": "other"}]},
        rows=text_rows(*garbled(0.1)),
        examples=0,
    )
    assert checks_of(run)["Unbounded attacks always succeed"].status == "not run"
    said = {t.attacks[0]: t.sentence for t in threats(read_run(run.folder).cells)}
    assert "within the attack’s own limits (eps 0.01)" in said["wasserstein"]
    assert "computes the change on other" in said["cw on other"]

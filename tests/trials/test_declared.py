"""What every trial type declares about itself is true of its screens, and enough to simulate, analyse and show it."""

import json
import random

import pytest

from limen.core.components import load, names, parse
from limen.listening.analysis.analyse import analyse, load_analysis
from limen.listening.analysis.export import rows
from limen.listening.design import StoredAnswer, next_screen, screens
from limen.listening.simulation.simulate import respond
from limen.listening.study import Item, Study
from limen.report.blocks import Table
from limen.report.study.page import build_study, sentences
from limen.report.study.section import load_section, section_of
from limen.trials.base.hearing import Hearing, SimulatedListener
from limen.trials.base.screen import Listener
from limen.trials.base.trial import TrialOptions, title_of, trial_type, trial_types

ITEMS = [
    Item(
        id=f"item {k}",
        files={"clean": f"{k}.wav", "pgd": f"{k}_pgd.wav"},
        answer=("yes", "no", "up")[k % 3],
        factors={"level": ("low", "high")[k % 2]},
    )
    for k in range(6)
]
ANALYSED = [name for name in names("trials") if trial_type(name).role == "trial"]


def step(name):
    return {"name": name, **trial_type(name).example}


def made(name):
    component, options = parse("trials", step(name))
    return component.function(Listener(0, ITEMS, random.Random(0)), options)


def study(name, **more):
    return Study.model_validate({"name": "one", "items": ITEMS, "steps": [step(name)], "exclude": []} | more)


def simulated(plan, listeners=4, **hearing):
    """Rows of the export of simulated listeners, without a server."""
    people, answers = [], []
    for k in range(listeners):
        person = SimulatedListener(k, Hearing(**hearing))
        people.append({"id": k + 1, "group": "", "number": k, "finished_at": 1.8e9, "simulated": True})
        planned, past, chance = screens(plan, "", k), [], random.Random(k)
        while (coming := next_screen(plan, planned, past, k)) is not None:
            position, screen = coming
            answer = respond(person, screen, chance)
            past.append(StoredAnswer(position, answer, screen.facts))
            facts = {name: getattr(screen, name) for name in ("step", "kind", "role", "facts", "truth")}
            answers.append(
                facts
                | {
                    "listener": k + 1,
                    "position": position,
                    "answer": answer,
                    "correct": screen.correct(answer),
                    "playback": [],
                    "response_ms": 3000.0,
                    "received_at": 1.8e9 + 10 * position,
                }
            )
    return rows(answers, people, plan)


@pytest.mark.parametrize("name", names("trials"))
def test_the_declared_facts_are_those_of_the_screens(name):
    declared, shown = trial_type(name), made(name)
    assert issubclass(load("trials", name).options, TrialOptions)
    assert {s.role for s in shown} <= {declared.role, "teaching", "sentinel", "catch"}
    assert declared.role in {s.role for s in shown}
    assert {s.personal for s in shown} == {declared.personal}
    assert any(s.widgets for s in shown) != declared.text_only
    assert any(s.decline for s in shown) == declared.asks_consent
    assert any(s.track for s in shown) == declared.tracks_thresholds
    for column in declared.columns:
        assert all(column in s.facts for s in shown if s.role == "trial")


@pytest.mark.parametrize("name", names("trials"))
def test_only_trials_are_analysed_and_every_analysis_has_its_two_files(name):
    declared = trial_type(name)
    has_analysis = bool(declared.analyses) or "analyse" in vars(declared)
    assert has_analysis == (declared.role == "trial")
    for analysis in declared.analyses:
        assert callable(load_analysis(analysis))
        assert callable(load_section(analysis))


@pytest.mark.parametrize("name", trial_types("signal"))
def test_the_signal_is_one_of_the_two_answers_and_the_right_one_at_times(name):
    signal = trial_type(name).signal
    judged = [s for s in made(name) if s.truth]
    assert signal.answer in {s.truth["answer"] for s in judged}
    assert all(len(s.widgets[0].choices) == 2 for s in judged)
    assert signal.answer in {c.value for c in judged[0].widgets[0].choices}


@pytest.mark.parametrize("name", trial_types("words_count_for"))
def test_words_count_for_a_trial_type_that_analyses_choices(name):
    assert "choices" in trial_type(trial_type(name).words_count_for).analyses


@pytest.mark.parametrize("name", trial_types("hidden_reference"))
def test_a_hidden_reference_is_rated_and_is_the_open_one(name):
    component, options = parse("trials", step(name))
    for screen in component.function(Listener(0, ITEMS, random.Random(0)), options):
        reference = options.reference_of(ITEMS[0])
        assert [s.rated for s in screen.sounds if s.condition == reference] == [False, True]


@pytest.mark.parametrize("name", ANALYSED)
def test_simulated_answers_are_taken_by_every_widget_and_are_the_same_again(name):
    for screen in made(name):
        screen = screen.at(50.0) if screen.track else screen
        first, again = (respond(SimulatedListener(1, Hearing()), screen, random.Random(3)) for _ in "12")
        assert first == again
        for widget in screen.widgets:
            values = first[widget.name]
            values = values.values() if widget.each_sound else [values]
            for value in values:
                if widget.choices:
                    assert value in {c.value for c in widget.choices}
                elif widget.kind == "slide":
                    assert widget.low <= value <= widget.high
                else:
                    assert 0 < len(value) <= widget.longest


@pytest.mark.parametrize("name", ANALYSED)
def test_simulated_answers_are_exported_analysed_and_shown(name, tmp_path):
    hypotheses = [{"name": f"{kind}?", "trial": name, "kind": kind} for kind in trial_type(name).hypotheses]
    plan = study(name, hypotheses=hypotheses)
    table = simulated(plan)
    results = analyse(plan, table)
    assert {r.trial for r in results.trials} == {name}
    assert json.loads(json.dumps(results.as_dict(), allow_nan=False))["trials"][0]["trial"] == name
    for result in results.trials:
        section = section_of(result, results, table)
        assert section.sentences
        assert all(
            sentence.startswith((title_of(name), "The", "By", "They", "Compared", "Answers"))
            for sentence in section.sentences
        )
        tables = [block for block in section.blocks if isinstance(block, Table)]
        assert tables
        assert all(len(row.cells) == len(t.headings) for t in tables for g in t.groups for row in g.rows)
    text = build_study(results, table, tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"<h2>{title_of(name)}</h2>" in text
    # every declared hypothesis has a test, but for a difference between conditions that one step does not have
    untested = [h.estimate for h in results.hypotheses if h.verdict == "no answers"]
    assert all(reason.startswith("expected two conditions") for reason in untested)
    assert any(sentence.startswith(title_of(name)) for sentence in sentences(results, table))


def test_a_simulated_listener_of_abx_is_right_as_often_as_declared():
    plan = study("abx", steps=[{"name": "abx", "trials": 600}])
    share = analyse(plan, simulated(plan, 2, right={"": 0.8})).of("choices")[0].shares[0].share
    assert share.value == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("options", "chance"),
    [
        ({"name": "abx"}, 0.5),
        ({"name": "identification"}, 1 / 3),
        ({"name": "identification", "choices": ["a", "b", "c", "d"]}, 0.25),
        ({"name": "identification", "choices": ["a"]}, 0.5),
        ({"name": "naturalness", "identify": True}, 1 / 3),
        ({"name": "naturalness", "identify": ["a", "b", "c", "d", "e"]}, 0.2),
    ],
)
def test_chance_is_one_of_the_answers_that_can_be_chosen(options, chance):
    assert parse("trials", options)[1].chance(ITEMS) == pytest.approx(chance)


def test_words_beside_a_rating_are_results_of_identification():
    plan = study("naturalness", steps=[{"name": "naturalness", "identify": True}])
    results = analyse(plan, simulated(plan))
    assert [(r.analysis, r.trial) for r in results.trials] == [
        ("ratings", "naturalness"),
        ("choices", "identification"),
    ]
    assert {trial for person in results.people for trial, *_ in person.right} == {"identification"}


def test_a_hypothesis_about_an_unknown_trial_type_is_refused():
    with pytest.raises(ValueError, match=r"there is no trial type 'abxy'\. There are: abx, "):
        study("abx", hypotheses=[{"name": "heard", "trial": "abxy"}])

"""Simulated listeners: what they answer follows what they are, in this process and over HTTP."""

import random
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import studies
import uvicorn
from scipy import stats

from limen.core.errors import UserError
from limen.listening.server.app import app
from limen.listening.server.limits import Limits
from limen.listening.server.store import Store
from limen.listening.simulation.simulate import Participant, random_answers, respond, simulate
from limen.perception.psychometric import probability
from limen.trials.base.hearing import Hearing
from limen.trials.base.screen import Choice, Screen, Sound, Stimulus, Widget, choices

ASKED = (
    Widget("answer", "choose", "?", choices("A", "B")),
    Widget("confidence", "choose", "?", choices("low", "medium", "high")),
)
ABX = Screen("abx", "trial", widgets=ASKED, truth={"answer": "B"}, facts={"condition": "adv"})
N = 4000


def person(**hearing) -> Participant:
    return Participant(3, Hearing(**hearing))


def said(screen: Screen, who: Participant, n: int = N) -> list[dict]:
    return [respond(who, screen, random.Random(k)) for k in range(n)]


def near(count: int, n: int, p: float) -> bool:
    """Not told apart from a binomial with probability p, at a level that a fixed seed keeps."""
    return stats.binomtest(count, n, p).pvalue > 1e-3


def test_abx_is_right_as_often_as_asked_and_confidence_is_calibrated():
    answers = said(ABX, person(right={"": 0.6, "adv": 0.8}))
    right = [a["answer"] == "B" for a in answers]
    assert near(sum(right), N, 0.8)
    by = {
        level: [r for r, a in zip(right, answers, strict=True) if a["confidence"] == level]
        for level in ("low", "medium", "high")
    }
    assert all(by["high"])
    assert near(sum(by["low"]), len(by["low"]), 0.5)
    assert 0.5 < sum(by["medium"]) / len(by["medium"]) < 1


def test_a_catch_trial_is_a_guess_without_confidence():
    catch = Screen("abx", "catch", widgets=ABX.widgets, facts={"condition": "adv"})
    answers = said(catch, person(right={"": 1.0}))
    assert near(sum(a["answer"] == "A" for a in answers), N, 0.5)
    assert "high" not in {a["confidence"] for a in answers}


@pytest.mark.parametrize("strength", [0.0, 20.0, 50.0, 100.0])
def test_same_different_follows_the_psychometric_function(strength):
    widget = Widget("answer", "choose", "?", choices("same", "different"))
    screen = Screen(
        "same_different", "trial", widgets=(widget,), facts={"axis": "noise", "strength": strength}
    )
    who = person(threshold={"noise": 25.0}, threshold_sd=5.0, slope=7.0, lapse=0.05, false_alarm=0.1)
    p = float(probability(strength, who.threshold("noise"), 7.0, 0.05, 0.1)) if strength else 0.1
    assert near(sum(a["answer"] == "different" for a in said(screen, who)), N, p)


def test_thresholds_of_a_population_spread_around_its_mean():
    own = [
        Participant(seed, Hearing(threshold={"": 40.0}, threshold_sd=8.0)).threshold("noise")
        for seed in range(500)
    ]
    assert abs(sum(own) / 500 - 40) < 3 * 8 / 500**0.5
    assert stats.kstest(own, stats.norm(40, 8).cdf).pvalue > 1e-3


def test_ratings_follow_the_quality_of_the_condition_and_the_better_of_two_is_preferred():
    sounds = (Sound("A", Stimulus("a.wav"), "good"), Sound("B", Stimulus("b.wav"), "bad"))
    who = person(quality={"": 0.5, "good": 0.8, "bad": 0.4}, quality_sd=0.1)
    mushra = Screen(
        "mushra", "trial", sounds=sounds, widgets=(Widget("rating", "slide", "?", each_sound=True),)
    )
    answers = said(mushra, who, 500)
    assert abs(sum(a["rating"]["A"] for a in answers) / 500 - 80) < 2
    assert abs(sum(a["rating"]["B"] for a in answers) / 500 - 40) < 2
    two = Screen(
        "preference", "trial", sounds=sounds, widgets=(Widget("answer", "choose", "?", choices("A", "B")),)
    )
    assert near(
        sum(a["answer"] == "A" for a in said(two, who)), N, 1 / (1 + 2.718281828459045 ** (-0.4 / 0.1))
    )
    scale = tuple(Choice(str(k), str(k)) for k in range(1, 6))
    natural = Screen(
        "naturalness", "trial", widgets=(Widget("n", "choose", "?", scale),), facts={"condition": "bad"}
    )
    given = [int(a["n"]) for a in said(natural, who)]
    assert abs(sum(given) / N - (1 + 4 * 0.4)) < 0.05


def test_the_hidden_reference_of_mushra_is_recognised_whatever_its_condition_is_called():
    sounds = (
        Sound("Reference", Stimulus("a.wav"), "clean", rated=False),
        Sound("A", Stimulus("a.wav"), "clean"),
        Sound("B", Stimulus("b.wav"), "bad"),
    )
    widget = Widget("rating", "slide", "?", each_sound=True)
    answers = said(
        Screen("mushra", "trial", sounds=sounds, widgets=(widget,), facts={"reference": "clean"}),
        person(),
        500,
    )
    assert sum(a["rating"]["A"] >= 90 for a in answers) > 0.97 * 500
    assert abs(sum(a["rating"]["B"] for a in answers) / 500 - 60) < 2


def everything(folder: Path) -> Path:
    word = {"name": "attention", "file": "audio/zebra_7f_0.wav", "word": "left", "others": ["right", "up"]}
    more = [
        {"name": name, "trials": 2} for name in ("identification", "transcription", "mushra", "preference")
    ]
    told = {"name": "instructions", "text": "Listen."}
    steps = [
        "consent",
        told,
        "level",
        {"name": "headphones", "screens": 2},
        word,
        *studies.STEPS[1:3],
        *more,
        "pause",
        *studies.JND,
        "demographics",
        "comments",
    ]
    return studies.write(folder, steps=steps, groups=("g1", "g2"))


def test_they_take_every_trial_type_to_the_end_and_twice_alike(tmp_path):
    study = everything(tmp_path / "s")
    runs = []
    for k in range(2):
        url = f"sqlite:///{tmp_path}/run{k}.db"
        people = simulate(study, 4, seed=7, database_url=url)
        store = Store(url)
        assert store.progress()["finished"] == 4
        assert [len(store.history(p.id)) for p in people] == [p.answers for p in people]
        rows = sorted(store.answers(), key=lambda a: (a["listener"], a["position"]))
        assert all(p["proved"] for r in rows for p in r["playback"])
        assert all(bool(r["playback"]) == (r["kind"] in KINDS_WITH_SOUND) for r in rows)
        runs.append(
            [
                (r["listener"], r["position"], r["answer"], r["facts"].get("strength"), r["correct"])
                for r in rows
            ]
        )
        store.close()
    assert runs[0] == runs[1]
    assert {p.group for p in people} == {"g1", "g2"}


KINDS_WITH_SOUND = {
    "level",
    "headphones",
    "attention",
    "abx",
    "naturalness",
    "identification",
    "transcription",
    "mushra",
    "preference",
    "same_different",
}


def test_more_listeners_than_the_study_wants_are_refused(tmp_path):
    with pytest.raises(UserError, match="all the listeners"):
        simulate(studies.write(tmp_path / "s", listeners=2), 3, audio=False)


def test_the_share_of_right_answers_in_a_simulated_study_is_what_its_listeners_were_given(tmp_path):
    steps = [{"name": "abx", "trials": 20}]
    study = studies.write(tmp_path / "s", steps=steps, listeners=30)
    url = f"sqlite:///{tmp_path}/run.db"
    simulate(study, 30, hearing=Hearing(right={"": 0.7}), database_url=url, audio=False)
    store = Store(url)
    right = [r["correct"] for r in store.answers()]
    store.close()
    assert len(right) == 600
    assert near(sum(right), 600, 0.7)


@contextmanager
def running(site) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(site, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join()
    site.state.sessions.store.close()


@pytest.mark.parametrize("informed", [True, False])
def test_over_http_all_come_at_once_and_every_acknowledged_answer_is_in_the_database(tmp_path, informed):
    study = everything(tmp_path / "s")
    with running(app(study, limits=Limits(begin_burst=6))) as url:
        people = simulate(study, 6, url=url, informed=informed, think_s=(0.0, 0.05))
    store = Store(tmp_path / "s" / "small.db")
    rows = {(r["attempt"], r["position"]) for r in store.answers()}
    told = {(a["attempt"], a["position"]) for p in people for a in p.participation.acknowledged}
    assert told == rows
    assert len(told) == sum(p.answers for p in people)
    assert store.progress()["finished"] == 6
    assert len({p.participation.code for p in people}) == 1
    assert all(p.participation.code for p in people)
    assert all(len(p.participation.latency_s) == p.answers for p in people)
    if informed:
        assert all(p.thresholds for p in people)
        checks = [r["correct"] for r in store.answers() if r["role"] == "check"]
        assert sum(checks) >= len(checks) - 2
    store.close()


def test_a_random_answer_needs_nothing_but_what_the_page_shows():
    shown = ABX.public()
    assert {random_answers(shown, random.Random(k))["answer"] for k in range(20)} == {"A", "B"}


def test_an_address_that_is_none_is_named(tmp_path):
    with pytest.raises(UserError, match="http://HOST:PORT"):
        simulate(studies.write(tmp_path / "s"), 1, url="ftp://nowhere", informed=False)

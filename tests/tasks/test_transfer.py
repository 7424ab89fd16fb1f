"""The matrix proxy x victim, on recognisers whose answers can be worked out by hand."""

import pytest
from spelling import WORDS, Speller, cell, dataset, run

from limen.core.errors import UserError
from limen.models.base.load import load_model
from limen.models.base.model import Model

TEXTS = ["one two", "three four", "two", "four one"]
ATTACK = {
    "name": "pgd",
    "steps": 40,
    "goal": {"name": "transcript", "text": "three three"},
    "budget": {"name": "linf", "eps": 0.4},
}
DEAF = ["", "one", "two", "two", "four"]
"""What a victim says that takes every three for a two."""


@pytest.fixture
def nets():
    """Victims by the names of real models: what a cell is given to open them with."""
    made = {
        "ctc_small": Speller(),
        "keyword_cnn": Speller(DEAF),
        "mlp": Speller(["", *["uno", "due", "tre", "quattro"]]),
    }
    return {"open": lambda spec: made[spec["name"]]}


def victims(*names):
    return [
        {"model": {"name": n}, "label": {"ctc_small": "same", "keyword_cnn": "deaf", "mlp": "foreign"}[n]}
        for n in names
    ]


@pytest.fixture
def outcome(nets, tmp_path):
    return run(
        "transfer",
        cell(tmp_path, dataset(TEXTS), ATTACK, **nets),
        victims=victims("ctc_small", "keyword_cnn", "mlp"),
    )


def test_every_victim_judges_every_stored_sample(outcome):
    assert [row["victim"] for row in outcome.rows[:6]] == [
        "same",
        "same",
        "deaf",
        "deaf",
        "foreign",
        "foreign",
    ]
    assert {row["id"] for row in outcome.rows if row["victim"] == "deaf"} == {"s0", "s1", "s2", "s3"}
    said = {(row["victim"], row["id"]): row["adversarial_prediction"] for row in outcome.rows}
    assert said["same", "s0"] == "three three"
    assert said["same", "s2"] == "three"  # a clip of one frame has room for one word
    assert said["deaf", "s0"] == "two two"
    assert said["foreign", "s0"] == "tre tre"
    assert all(row["target"] == "three three" for row in outcome.rows)
    assert all(row["snr_db"] is not None for row in outcome.rows)


def test_the_numbers_of_each_victim_are_those_worked_out_by_hand(outcome):
    assert outcome.result["proxy"] == "speller"
    same, deaf, foreign = (outcome.result["victims"][name] for name in ("same", "deaf", "foreign"))
    # three of four clips say the target, the short one half of it
    assert (same["n"], same["success"], same["tasr_word"], same["clean_wer"]) == (
        4,
        0.75,
        pytest.approx(3.5 / 4),
        0,
    )
    # words wrong: one two -> 2, three four -> 1, two -> 1, four one -> 2, of 7
    assert same["wer"] == pytest.approx(6 / 7)
    assert same["uasr_word"] == pytest.approx((1 + 0.5 + 1 + 1) / 4)
    # hears "two" for three: clean "two four" for "three four"; adversarial "two two" (and "two", which was
    # said)
    assert (deaf["success"], deaf["tasr_word"]) == (0, 0)
    assert deaf["clean_wer"] == pytest.approx(1 / 7)
    assert deaf["wer"] == pytest.approx((1 + 2 + 0 + 2) / 7)
    assert (foreign["clean_wer"], foreign["uasr_word"], foreign["success"]) == (1, 1, 0)
    assert same["tasr_char"] == pytest.approx((3 + 5 / 11) / 4)


def test_without_victims_the_net_judges_itself(tmp_path):
    found = run("transfer", cell(tmp_path, dataset(TEXTS), ATTACK))
    assert list(found.result["victims"]) == ["speller"]
    assert found.result["victims"]["speller"]["success"] == 0.75


def test_classifiers_are_compared_by_success_and_accuracy(tmp_path):
    from limen.experiments.engine import run as run_experiment
    from limen.experiments.file import Experiment

    net = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 6}}
    random = {"name": "mlp", "weights": "random"}
    task = {"name": "transfer", "victims": [{"model": net["model"]}, {"model": random, "label": "other"}]}
    attack = {"name": "pgd", "steps": 3, "budget": {"name": "linf", "eps": 0.1}}
    entry = {"task": task, "nets": [net], "attacks": [attack], "metrics": [{"name": "linf"}]}
    (done,) = run_experiment(Experiment.model_validate({"name": "t", "tasks": [entry]}), tmp_path / "run")[
        "cells"
    ]
    found = done["summary"]["result"]
    assert found["proxy"] == "mlp"
    assert set(found["victims"]) == {"mlp", "other"}
    for victim in found["victims"].values():  # what a victim had wrong before is no success of the attack
        right = round(6 * victim["clean_accuracy"])
        assert (victim["n"], victim["success_n"]) == (6, right)
        assert right == 0 or victim["success"] == pytest.approx(1 - 6 * victim["accuracy"] / right)
    assert found["victims"]["mlp"]["success_n"] > found["victims"]["other"]["success_n"]


class Slow(Speller):
    rate_hz = 16000


class Multilingual(Speller):
    def __init__(self, languages: list[str]):
        super().__init__(WORDS, languages)


@pytest.mark.parametrize(
    ("victim", "words"),
    [
        (Slow(), "The victim x takes clips at 16000 Hz, but the samples were made at 8000 Hz"),
        (
            load_model({"name": "mlp", "weights": "random"}),
            "The victim x cannot evaluate these samples. This model takes pictures",
        ),
    ],
)
def test_a_victim_that_does_not_fit_is_an_error_that_says_why(tmp_path, victim: Model, words: str):
    ready = cell(tmp_path, dataset(TEXTS), ATTACK, open=lambda spec: victim)
    with pytest.raises(UserError, match=words):
        run("transfer", ready, victims=[{"model": {"name": "mlp"}, "label": "x"}])


def test_a_goal_about_languages_needs_the_same_languages(tmp_path):
    proxy, other = Multilingual(["en", "it", "sr"]), Multilingual(["en", "sr"])
    attack = {
        "name": "random_noise",
        "goal": {"name": "language", "target": "sr"},
        "budget": ATTACK["budget"],
    }
    ready = cell(tmp_path, dataset(TEXTS), attack, model=proxy, open=lambda spec: other)
    with pytest.raises(UserError, match=r"the victim x has en, sr \(2\) and the proxy en, it, sr \(3\)"):
        run("transfer", ready, victims=[{"model": {"name": "mlp"}, "label": "x"}])


def test_two_victims_of_one_name_are_refused(tmp_path):
    with pytest.raises(UserError, match="two victims have the name ctc_small"):
        run(
            "transfer", cell(tmp_path, dataset(TEXTS), ATTACK), victims=[{"model": {"name": "ctc_small"}}] * 2
        )


def test_answers_of_a_model_that_detects_languages_say_which_one_it_heard(tmp_path):
    model = Multilingual(["en", "it", "sr"])
    data = dataset(["one", "two", "three"], ids=["it/a", "xx/b", "plain"])
    ready = cell(tmp_path, data, None, model=model, batch_size=8)
    samples, _ = ready.samples(next(ready.batches()))
    answers = ready.answers(samples)
    assert [a["language"] for a in answers] == ["it", None, None]
    assert [a["clean_language"] for a in answers] == ["it", "sr", "en"]
    assert "target" not in answers[0]


def test_the_cell_of_a_targeted_attack_says_the_target(tmp_path):
    ready = cell(tmp_path, dataset(TEXTS), ATTACK)
    samples, _ = ready.samples(next(ready.batches()))
    assert [a["target"] for a in ready.answers(samples)] == ["three three"] * 2


class Counting(Speller):
    """Counts how often its answers are decoded."""

    decoded = 0

    def forward(self, x, lengths=None, generators=None):
        answers = super().forward(x, lengths, generators)
        plain = answers.texts

        def texts():
            self.decoded += 1
            return plain()

        answers.texts = texts
        return answers


def test_what_was_heard_is_decoded_once_however_many_metrics_ask(tmp_path):
    model = Counting()
    everything = ["wer", "cer", "ser", "correct", "fooled", "targeted_success", "untargeted_success"]
    run("accuracy", cell(tmp_path, dataset(TEXTS), None, model=model, metrics=everything, batch_size=4))
    assert model.decoded == 1

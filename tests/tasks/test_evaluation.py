"""The loop of the tasks accuracy and samples: rows, examples, and draws of transforms."""

import pytest
import torch
from spelling import cell, dataset, run

from limen.tasks.base.cell import Example
from limen.tasks.base.evaluation import successes_first

TEXTS = ["one two", "three four", "two", "four one", "three"]
ATTACK = {"name": "pgd", "steps": 10, "random_start": False, "budget": {"name": "snr", "snr_db": 5}}


def example(name, **row):
    return Example(name, torch.zeros(1), torch.zeros(1), row)


def test_examples_of_successes_come_first_in_the_order_of_the_data():
    candidates = [
        example("a", success=False),
        example("b", success=True),
        example("c"),
        example("d", success=True),
    ]
    assert [e.id for e in successes_first(3)(candidates)] == ["b", "d", "a"]
    assert successes_first(0)(candidates) == []


def test_samples_keeps_every_sample_in_the_order_of_the_data_up_to_its_limit(tmp_path):
    outcome = run("samples", cell(tmp_path, dataset(TEXTS), ATTACK), limit_samples=3)
    assert [e.id for e in outcome.examples] == [row["id"] for row in outcome.rows]
    assert len(outcome.rows) == 3
    for kept, row in zip(outcome.examples, outcome.rows, strict=True):
        assert kept.row == row
        assert kept.clean.shape == kept.adversarial.shape


def test_accuracy_keeps_as_many_examples_as_the_cell_asks_for_over_all_batches(tmp_path):
    ready = cell(tmp_path, dataset(TEXTS), ATTACK, examples=2, batch_size=2)
    outcome = run("accuracy", ready)
    assert len(outcome.rows) == 5
    successes = [row["id"] for row in outcome.rows if row["success"]]
    assert len(successes) >= 2
    assert [e.id for e in outcome.examples] == successes[:2]


def test_accuracy_counts_the_samples_that_are_evaluated_for_the_progress_bar(tmp_path):
    finished = []
    ready = cell(tmp_path, dataset(TEXTS), None, batch_size=2, advance=finished.append)
    run("accuracy", ready, limit_samples=3)
    assert finished == [2, 1]


@pytest.mark.parametrize("task", ["accuracy", "samples"])
def test_without_an_attack_nothing_is_credited(tmp_path, task):
    outcome = run(task, cell(tmp_path, dataset(TEXTS), None))
    assert all("success" not in row for row in outcome.rows)
    assert all(row["clean_prediction"] == row["adversarial_prediction"] for row in outcome.rows)

"""A curve under any budget that declares its bound, searched anew at each value or scaled to it."""

import pytest

from limen.core.components import load, names
from limen.core.errors import UserError
from limen.experiments.engine import run
from limen.experiments.file import Experiment
from limen.tasks.constrained_accuracy import ConstrainedAccuracy

NET = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 6}}


def curve(folder, attack, **options):
    task = {"name": "constrained_accuracy", **options}
    entry = {"task": task, "nets": [NET], "attacks": [attack]}
    summary = run(Experiment.model_validate({"name": "t", "audit": False, "tasks": [entry]}), folder / "run")
    (cell,) = summary["cells"]
    assert cell["status"] == "done", cell["error"]
    return cell["summary"]["result"]


@pytest.mark.parametrize(
    "name", [n for n in names("budgets") if "picture" in load("budgets", n).options.kinds]
)
def test_every_budget_of_pictures_can_be_the_constraint(name, tmp_path):
    declared = load("budgets", name).options
    value = declared.example[declared.bound]
    nothing = [] if declared.nothing_at is None else [declared.nothing_at]
    attack = {"name": "pgd", "steps": 3, "budget": {"name": "linf", "eps": 0.1}}
    found = curve(tmp_path, attack, constraint=name, values=[*nothing, value], how="budget")
    assert found["budget_info"]["name"] == name
    assert found["budget_info"]["larger_is_stronger"] == declared.larger_is_stronger
    assert len(found["accuracy"]) == len(nothing) + 1
    if nothing:
        assert found["fooling_rate"][0] == 0
    assert found["control"]["accuracy"]


@pytest.mark.parametrize(
    ("constraint", "value"), [("ssim", 0.3), ("local_linf", 2.0), ("dissimilarity", 0.8)]
)
def test_a_perturbation_is_scaled_to_the_bound_of_any_family(constraint, value, tmp_path):
    found = curve(tmp_path, {"name": "deepfool"}, constraint=constraint, values=[0, value])
    assert found["fooling_rate"][0] == 0
    assert found["accuracy"][0] > found["accuracy"][1]


def test_a_budget_may_have_further_options(tmp_path):
    found = curve(
        tmp_path,
        {"name": "fgsm", "budget": {"name": "linf", "eps": 0.1}},
        constraint={"name": "local_linf", "window": 3},
        values=[0.5],
    )
    assert found["budget_info"]["option"] == "share"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"constraint": "snr_db"}, 'no budget "snr_db".*Did you mean'),
        ({"constraint": "linf", "values": [-0.1]}, "eps: input should be greater than 0, got -0.1"),
        ({"constraint": {"name": "linf", "eps": 0.1}}, "leave eps out"),
        ({"constraint": "l0", "values": [3], "how": "rescale"}, "cannot be scaled to a bound of l0"),
    ],
)
def test_a_constraint_that_cannot_be_is_refused_when_the_file_is_read(options, words):
    with pytest.raises(ValueError, match=words):
        ConstrainedAccuracy(**options)


def test_a_perturbation_that_cannot_be_scaled_is_refused(tmp_path):
    with pytest.raises((UserError, AssertionError), match="which the budget l0 does not allow"):
        curve(tmp_path, {"name": "deepfool"}, constraint="l0", values=[3])


def test_a_cell_writes_what_the_report_must_know_about_its_budget(tmp_path):
    attacks = [{"name": "fgsm", "budget": {"name": "linf", "eps": 0.03}}, {"name": "deepfool"}]
    entry = {"task": {"name": "accuracy"}, "nets": [NET], "attacks": attacks}
    summary = run(
        Experiment.model_validate({"name": "t", "audit": False, "tasks": [entry]}), tmp_path / "run"
    )
    first, second = (cell["budget_info"] for cell in summary["cells"])
    assert first == {
        "name": "linf",
        "option": "eps",
        "value": 0.03,
        "column": "linf",
        "larger_is_stronger": True,
        "heading": "L∞ norm of the change",
        "nothing_at": 0.0,
        "text": "L∞ ≤ 0.03",
        "sentence": "may change each value by at most 0.03",
        "text_template": "L∞ ≤ {}",
        "sentence_template": "may change each value by at most {}",
    }
    assert second is None

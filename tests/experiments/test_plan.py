"""File -> cells."""

import json

import pytest
import yaml

from limen.core.errors import UserError
from limen.experiments.file import Experiment, load_file, read_experiment, schema
from limen.experiments.plan import plan

NET = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 20}}
PGD = {"name": "pgd", "steps": 3, "budget": {"name": "linf", "eps": 0.1}}


def experiment(**entry) -> Experiment:
    return Experiment.model_validate({"name": "t", "audit": False, "tasks": [{"nets": [NET], **entry}]})


def test_a_grid_is_nets_times_defenses_times_attacks():
    cells = plan(
        experiment(
            nets=[NET, {**NET, "label": "again", "data": {"name": "digits", "limit": 10}}],
            defenses=[None, {"name": "bit_depth"}],
            attacks=[None, PGD],
        )
    )
    assert len(cells) == 8
    assert len({c.id for c in cells}) == 8
    assert [c.order for c in cells] == list(range(8))


def test_a_sweep_varies_the_cells_that_have_the_option_and_runs_the_others_once():
    cells = plan(experiment(attacks=[None, PGD], sweep={"attack.budget.eps": [0.1, 0.2, 0.3]}))
    assert [c.variable for c in cells] == [
        None,
        {"attack.budget.eps": 0.1},
        {"attack.budget.eps": 0.2},
        {"attack.budget.eps": 0.3},
    ]
    assert [c.spec["attack"]["budget"]["eps"] for c in cells[1:]] == [0.1, 0.2, 0.3]


def test_two_swept_options_make_a_grid():
    cells = plan(
        experiment(attacks=[PGD], sweep={"attack.budget.eps": [0.1, 0.2], "attack.steps": [1, 2, 3]})
    )
    assert len(cells) == 6


def test_a_swept_option_that_no_cell_has_is_an_error_that_names_it():
    with pytest.raises(UserError, match=r"attack\.budget\.epsilon"):
        plan(experiment(attacks=[PGD], sweep={"attack.budget.epsilon": [0.1]}))


def test_a_plan_is_counted_before_it_is_made():
    values = list(range(1, 301))
    entry = experiment(
        attacks=[PGD], sweep={"attack.steps": values, "attack.restarts": values, "attack.budget.eps": values}
    )
    with pytest.raises(UserError, match=r"27,000,000 cells.*tasks\[0\].*at most 10,000"):
        plan(entry)
    with pytest.raises(UserError, match=r"64,000,000 cells"):
        plan(experiment(nets=[NET] * 400, defenses=[None] * 400, attacks=[PGD] * 400))


def test_a_swept_part_is_checked_like_one_that_stands_in_the_file():
    for path, value, words in (
        ("attack", 5, "An attack is written"),
        (
            "attack",
            {"name": "pgd", "surrogate": {"models": []}},
            "surrogate.models: list should have at least 1 item",
        ),
        ("attack.budget", "linf", '"eps" is required'),
        ("model", None, "A model is written"),
        ("data.name", ["digits"], "A data set is written"),
        ("task.name", "constrained_accuracy", "values"),
        ("defense", 3, "A defense is written"),
    ):
        with pytest.raises(UserError, match=words):
            plan(experiment(attacks=[PGD], sweep={path: [value]}))
    with pytest.raises(UserError, match="needs an attack"):
        plan(
            experiment(
                task={"name": "constrained_accuracy", "values": [0.1], "constraint": "linf"},
                attacks=[PGD],
                sweep={"attack": [None]},
            )
        )


def test_a_swept_value_is_validated_like_any_other():
    with pytest.raises(UserError, match="greater than 0"):
        plan(experiment(attacks=[PGD], sweep={"attack.budget.eps": [-1]}))


def test_the_id_depends_on_what_decides_the_result_and_on_nothing_else():
    one, two = plan(experiment(attacks=[PGD])), plan(experiment(attacks=[{**PGD, "label": "another name"}]))
    assert one[0].id == two[0].id
    other = Experiment.model_validate({"name": "t", "seed": 1, "tasks": [{"nets": [NET], "attacks": [PGD]}]})
    assert plan(other)[0].id != one[0].id
    sized = Experiment.model_validate(
        {"name": "t", "batch_size": 7, "tasks": [{"nets": [NET], "attacks": [PGD]}]}
    )
    assert plan(sized)[0].id == one[0].id


def test_the_same_cell_twice_is_run_once():
    assert len(plan(experiment(attacks=[PGD, {**PGD, "steps": 3}]))) == 1


def test_yaml_and_json_read_the_same(tmp_path):
    content = {"name": "t", "tasks": [{"nets": [NET], "attacks": [PGD]}]}
    (tmp_path / "a.json").write_text(json.dumps(content))
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(content))
    one, two = (read_experiment(load_file(tmp_path / name), tmp_path / name) for name in ("a.json", "a.yaml"))
    assert one == two


def test_yaml_words_that_are_commands_stay_words_and_exponents_are_numbers(tmp_path):
    (tmp_path / "a.yaml").write_text("words: [yes, no, on, off, true]\nnumbers: [1e-3, 1.5e+2, .5, 3, -2.0]")
    assert load_file(tmp_path / "a.yaml") == {
        "words": ["yes", "no", "on", "off", True],
        "numbers": [0.001, 150.0, 0.5, 3, -2.0],
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"tasks": []}, "tasks"),
        (
            {"tasks": [{"nets": [{"model": {"name": "mpl"}, "data": {"name": "digits"}}]}]},
            'Did you mean "mlp"',
        ),
        ({"tasks": [{"nets": [NET], "attacks": [{"name": "pgd", "stepz": 3}]}]}, 'Did you mean "steps"'),
        (
            {"tasks": [{"nets": [NET], "attacks": [{"name": "pgd", "budget": {"name": "linf"}}]}]},
            '"eps" is required',
        ),
        ({"tasks": [{"nets": [NET], "defences": []}]}, "defenses"),
        ({"task": []}, "tasks"),
        ({"tasks": [{"nets": [NET], "metrics": [{"name": "psnr"}]}]}, 'no metric "psnr"'),
        (
            {"tasks": [{"nets": [NET], "attacks": [{"name": ["pgd"]}]}]},
            "tasks.0.attacks.0: An attack is written {name: ",
        ),
        (
            {"tasks": [{"nets": [NET], "attacks": [{**PGD, "budget": 0.1}]}]},
            'A budget is written {name: dissimilarity, ...} or "dissimilarity:value"; got 0.1',
        ),
        (
            {"tasks": [{"nets": [NET], "attacks": [{**PGD, "budget": [0.1]}]}]},
            'A budget is written {name: dissimilarity, ...} or "dissimilarity:value"; got [0.1]',
        ),
        ({"tasks": [{"nets": [NET], "attacks": [{**PGD, "goal": 0}]}]}, "A goal is written {name: "),
        (
            {"tasks": [{"nets": [NET], "attacks": [{**PGD, "label": {"a": 1}}]}]},
            "attack pgd: label: input should be a valid string, got {'a': 1}",
        ),
        (
            {"tasks": [{"nets": [NET], "attacks": [{**PGD, "through": 5}]}]},
            "attack pgd: through: input should be a valid list, got 5",
        ),
        (
            {"tasks": [{"nets": [NET], "attacks": [{**PGD, "surrogate": ["mlp"]}]}]},
            "surrogate: expected a mapping",
        ),
        (
            {"tasks": [{"nets": [NET], "task": "accuracy"}]},
            "tasks.0.task: expected a mapping, {key: value, ...}, got 'accuracy'",
        ),
        (
            {"tasks": [{"nets": [NET], "sweep": {"attack.steps": []}}]},
            "sweep.attack.steps: list should have at least 1 item",
        ),
        ({"tasks": 5}, "tasks: input should be a valid list, got 5"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_with_the_way_out(content, words, tmp_path):
    with pytest.raises(UserError) as error:
        read_experiment(content, tmp_path / "a.yaml")
    assert words in str(error.value)


def test_a_file_that_is_not_there_or_not_yaml_is_named(tmp_path):
    with pytest.raises(UserError, match="no experiment file"):
        load_file(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1, 2")
    with pytest.raises(UserError, match=r"bad\.yaml cannot be read as YAML"):
        load_file(tmp_path / "bad.yaml")
    (tmp_path / "list.yaml").write_text("- 1")
    with pytest.raises(UserError, match="must hold a mapping"):
        load_file(tmp_path / "list.yaml")


def test_the_schema_names_every_component_with_its_options():
    root = schema()
    attacks = {choice["properties"]["name"]["const"]: choice for choice in root["$defs"]["attacks"]["oneOf"]}
    assert attacks["pgd"]["properties"]["steps"]["default"] == 40
    assert "budget" in attacks["pgd"]["properties"]
    assert root["$defs"]["Net"]["properties"]["model"]["$ref"] == "#/$defs/models"
    shared = attacks["pgd"]["properties"]
    assert {"$ref": "#/$defs/goals"} in shared["goal"]["anyOf"]
    assert shared["surrogate"]["anyOf"][0] == {"$ref": "#/$defs/Surrogate"}
    assert root["$defs"]["Surrogate"]["properties"]["models"]["items"] == {"$ref": "#/$defs/models"}
    assert "search" not in shared


def test_an_attack_that_has_no_budget_and_needs_one_is_refused_before_the_first_cell():
    bare = {"name": "pgd", "steps": 3}
    for attacks in ([bare], [None, {"name": "fgsm"}], [{"name": "cascade"}], [{"name": "uap"}]):
        with pytest.raises(
            UserError,
            match=r"The attack \w+ needs a budget and has none\. Add one, for example budget: \{name: linf",
        ):
            plan(experiment(attacks=attacks))
    for attacks in (
        [None],
        [{"name": "deepfool"}],
        [{"name": "spatial"}],
        [{"name": "cascade", "attacks": ["deepfool"]}],
    ):
        assert plan(experiment(attacks=attacks))
    swept = experiment(
        attacks=[bare], sweep={"attack.budget": [{"name": "linf", "eps": 0.1}, {"name": "l2", "eps": 1}]}
    )
    assert [c.spec["attack"]["budget"]["name"] for c in plan(swept)] == ["linf", "l2"]
    curve = {"name": "constrained_accuracy", "constraint": "linf"}
    assert plan(
        experiment(task={**curve, "how": "budget"}, attacks=[bare])
    )  # the task sets a budget at each point
    with pytest.raises(UserError, match="needs a budget"):
        plan(experiment(task=curve, attacks=[bare]))

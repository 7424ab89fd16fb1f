"""Sweeps over lists of defences, labels, ids and audits."""

import json

import pytest

from limen.core.errors import UserError
from limen.experiments.file import Experiment
from limen.experiments.plan import PlannedCell, plan
from limen.experiments.sweep_names import has_option, set_option

NET = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 20}}
LINF = {"name": "linf", "eps": 0.1}
PGD = {"name": "pgd", "steps": 3, "budget": LINF}
CROP, BITS = {"name": "crop_rescale", "num_samples": 2}, {"name": "bit_depth", "bits": 3}


def cells(audit=False, **entry) -> list[PlannedCell]:
    return plan(Experiment.model_validate({"name": "t", "audit": audit, "tasks": [{"nets": [NET], **entry}]}))


@pytest.mark.parametrize("path", ["defense.bits", "defense.bit_depth.bits", "defense.1.bits"])
def test_an_option_of_a_list_of_defences_is_swept_by_itself_by_name_or_by_position(path):
    swept = cells(defenses=[[CROP, BITS]], sweep={path: [2, 5]})
    assert [[d["name"] for d in c.spec["defense"]] for c in swept] == [["crop_rescale", "bit_depth"]] * 2
    assert [c.spec["defense"][1]["bits"] for c in swept] == [2, 5]
    assert [c.spec["defense"][0]["num_samples"] for c in swept] == [2, 2]


def test_a_swept_option_that_two_defences_have_must_be_named():
    with pytest.raises(
        UserError, match=r"defense\.bits is ambiguous.*Write defense\.0\.bits or defense\.1\.b"
    ):
        cells(defenses=[[BITS, BITS]], sweep={"defense.bits": [2]})
    swept = cells(defenses=[[BITS, BITS]], sweep={"defense.1.bits": [2]})
    assert [d["bits"] for d in swept[0].spec["defense"]] == [3, 2]


def test_a_sweep_of_defences_leaves_the_cell_without_defence_alone():
    swept = cells(defenses=[None, BITS, [CROP]], sweep={"defense.bits": [1, 2]})
    assert [c.variable for c in swept] == [None, {"defense.bits": 1}, {"defense.bits": 2}, None]
    assert [c.spec["defense"] and len(c.spec["defense"]) for c in swept] == [None, 1, 1, 1]


def test_a_sweep_does_not_change_the_cells_before_it():
    swept = cells(attacks=[PGD], sweep={"attack.budget.eps": [0.2, 0.3]})
    assert [c.spec["attack"]["budget"]["eps"] for c in swept] == [0.2, 0.3]
    assert PGD["budget"]["eps"] == 0.1


def test_options_are_found_in_mappings_and_lists_and_nowhere_else():
    parts = {"attack": {"name": "pgd", "budget": {"eps": 1}}, "defense": [{"name": "jpeg", "quality": 75}]}
    for path in ("attack.budget.eps", "attack.budget", "defense.quality", "defense.jpeg.quality", "attack"):
        assert has_option(parts, path), path
    for path in ("attack.eps", "attack.name.eps", "defense.1.quality", "defense.room.quality", "net", "a.b"):
        assert not has_option(parts, path), path
    set_option(parts, "defense.0.quality", 20)
    assert parts["defense"] == [{"name": "jpeg", "quality": 20}]


def test_labels_name_the_net_data_defences_and_attack():
    named = {**NET, "label": "small"}
    first, second = cells(nets=[named], defenses=[[CROP, BITS]], attacks=[None, {**PGD, "label": "strong"}])
    assert first.labels | {"defense": ""} == {
        "net": "small",
        "data": "digits",
        "defense": "",
        "attack": "none",
    }
    assert second.labels["attack"] == "strong"
    assert "crop_rescale" in first.labels["defense"]
    assert "bit_depth" in first.labels["defense"]
    (unnamed,) = cells()
    assert (unnamed.labels["net"], unnamed.labels["defense"]) == ("mlp", "none")


def test_a_cell_is_described_by_its_labels_and_the_values_of_the_sweep():
    (cell,) = cells(attacks=[PGD], sweep={"attack.budget.eps": [0.2]})
    assert cell.description == "mlp | none | pgd | eps 0.2"


def reversed_keys(content):
    if isinstance(content, dict):
        return {key: reversed_keys(content[key]) for key in reversed(content)}
    return [reversed_keys(one) for one in content] if isinstance(content, list) else content


def test_ids_do_not_depend_on_the_order_of_keys_or_on_written_out_defaults():
    content = {
        "name": "t",
        "seed": 3,
        "tasks": [{"nets": [NET], "defenses": [None, [CROP, BITS]], "attacks": [None, PGD]}],
    }
    ids = [cell.id for cell in plan(Experiment.model_validate(content))]
    assert [cell.id for cell in plan(Experiment.model_validate(reversed_keys(content)))] == ids
    written = json.loads(Experiment.model_validate(content).model_dump_json())
    assert [cell.id for cell in plan(Experiment.model_validate(written))] == ids
    full = [cell.spec["attack"] for cell in plan(Experiment.model_validate(content))]
    content["tasks"][0]["attacks"] = [None, full[1]]
    assert [cell.id for cell in plan(Experiment.model_validate(content))] == ids


def test_a_defence_and_a_list_of_only_it_are_the_same_cell_but_the_order_of_two_counts():
    assert len(cells(defenses=[BITS, [BITS]])) == 1
    assert len(cells(defenses=[[BITS, CROP], [CROP, BITS]])) == 2


def test_an_audit_follows_the_cells_of_each_net_and_defence_with_the_middle_of_the_sweep():
    planned = cells(
        audit=True,
        defenses=[None, BITS],
        attacks=[{"name": "random_noise", "budget": LINF}, PGD],
        sweep={"attack.budget.eps": [0.1, 0.2, 0.3]},
    )
    audits = [cell for cell in planned if cell.spec["task"]["name"] == "audit"]
    assert [cell.order for cell in planned] == list(range(14))
    assert (
        [cell.labels["attack"] for cell in planned[12:]]
        == ["audit", "audit"]
        == [cell.labels["attack"] for cell in audits]
    )
    assert [cell.spec["attack"]["budget"]["eps"] for cell in audits] == [0.2, 0.2]
    assert [cell.spec["defense"] for cell in audits] == [None, planned[6].spec["defense"]]
    assert [cell.variable for cell in audits] == [None, None]


def test_an_audit_compares_with_the_other_model_on_the_same_data_and_needs_a_search():
    other = {"model": {"name": "cnn", "weights": "random"}, "data": NET["data"]}
    elsewhere = {"model": {"name": "cnn", "init_seed": 4}, "data": {"name": "digits", "limit": 3}}
    audits = cells(audit=True, nets=[NET, other, elsewhere], attacks=[PGD])[3:]
    others = [[model["name"] for model in cell.spec["task"]["others"]] for cell in audits]
    assert others == [["cnn"], ["mlp"], []]
    assert len(cells(audit=True, attacks=[None, {"name": "random_noise", "budget": LINF}])) == 2

"""Defences as a list: their order, their labels, what a sweep addresses, and weights of their own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import limen
from limen.core.errors import UserError
from limen.core.types import Kind
from limen.defenses.base.compose import defended, label, training_of
from limen.defenses.base.defended import Transform
from limen.defenses.base.options import DefenseOptions, WeightedDefenseOptions
from limen.experiments.cell_factory import CellFactory
from limen.experiments.file import Experiment
from limen.experiments.plan import plan
from limen.models.base.model import Classifier, Model

NET = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 4}}


def double(x: Tensor) -> Tensor:
    return (2 * x).clamp(0, 1)


def cut(x: Tensor) -> Tensor:
    return x.clamp(0, 0.25)


class Keeps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :2]


def planned(*defenses: Any, **entry: Any) -> list[Any]:
    tasks = [{"nets": [NET], "defenses": list(defenses), **entry}]
    return plan(Experiment.model_validate({"name": "test", "tasks": tasks, "audit": False}))


def test_a_sample_meets_the_first_defence_of_the_list_first():
    model, x = Classifier(Keeps(), "picture", ["a", "b"]), torch.full((1, 1, 2, 2), 0.2)
    here = "test_compose"
    assert defended(model, [f"bpda:{here}:double", f"bpda:{here}:cut"])(x)[0, 0] == 0.25
    assert defended(model, [f"bpda:{here}:cut", f"bpda:{here}:double"])(x)[0, 0] == pytest.approx(0.4)
    several = limen.defend(model, f"bpda:{here}:cut", f"bpda:{here}:double")
    assert torch.equal(several(x), defended(model, [f"bpda:{here}:cut", f"bpda:{here}:double"])(x))
    assert defended(model, []) is model


def test_an_entry_of_an_experiment_is_null_one_defence_or_a_list_of_them():
    cells = planned(None, {"name": "jpeg"}, [{"name": "jpeg"}, {"name": "crop_rescale"}])
    assert [c.labels["defense"] for c in cells] == ["none", "jpeg", "jpeg + crop_rescale"]
    assert cells[0].spec["defense"] is None
    assert [one["name"] for one in cells[1].spec["defense"]] == ["jpeg"]
    assert [one["name"] for one in cells[2].spec["defense"]] == ["jpeg", "crop_rescale"]
    assert cells[2].spec["defense"][0]["quality"] == 75, "defaults are written out"
    assert label(None) == "none"


def test_one_defence_and_a_list_of_it_are_the_same_cell():
    assert len(planned({"name": "jpeg"}, [{"name": "jpeg"}])) == 1


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ([], "at least 1 item"),
        ([{"name": "jpg"}], 'Did you mean "jpeg"'),
        ([None], "expected a mapping"),
        (3, "valid list"),
    ],
)
def test_an_entry_that_is_none_of_these_is_refused(entry, message):
    from limen.experiments.file import read_experiment

    content = {"tasks": [{"nets": [NET], "defenses": [entry]}]}
    with pytest.raises(UserError, match=message):
        read_experiment(content, Path("test.yaml"))


def swept(path: str, *defenses: Any) -> list[Any]:
    return [c.spec["defense"] for c in planned(*defenses, sweep={path: [10, 20]})]


def test_a_sweep_addresses_the_only_member_that_has_the_option():
    both = [{"name": "bit_depth"}, {"name": "jpeg"}]
    assert [c[1]["quality"] for c in swept("defense.quality", both)] == [10, 20]
    assert len(swept("defense.quality", both, {"name": "bit_depth"})) == 3, "without it the cell runs once"


def test_a_sweep_addresses_a_member_by_name_or_position():
    twice = [{"name": "jpeg"}, {"name": "bit_depth"}, {"name": "jpeg"}]
    assert [[d.get("quality") for d in c] for c in swept("defense.2.quality", twice)] == [
        [75, None, 10],
        [75, None, 20],
    ]
    both = [{"name": "bit_depth"}, {"name": "jpeg"}]
    assert [c[1]["quality"] for c in swept("defense.jpeg.quality", both)] == [10, 20]
    with pytest.raises(UserError, match=r"defense.quality is ambiguous.*defense.0.quality or defense.2"):
        swept("defense.quality", twice)
    with pytest.raises(UserError, match=r"defense.jpeg.quality is ambiguous"):
        swept("defense.jpeg.quality", twice)
    with pytest.raises(UserError, match=r"no cell has the option defense.5.quality"):
        swept("defense.5.quality", twice)
    draws = [{"name": "jitter"}, {"name": "crop_rescale"}]
    with pytest.raises(UserError, match=r"defense.jitter.draws or defense.crop_rescale.draws"):
        swept("defense.draws", draws)
    assert [c[0]["draws"] for c in swept("defense.jitter.draws", draws)] == [10, 20]


def test_a_net_behind_the_same_defences_is_built_once_per_run(tmp_path, throw_away):
    built = []

    class Plain(DefenseOptions):
        """Nothing to set."""

    def plain(model: Model, options: Plain) -> Model:
        built.append(model)
        return model

    throw_away("plain", plain, Plain)
    cells = planned(
        [{"name": "plain"}], attacks=[None, {"name": "random_noise", "budget": {"name": "linf", "eps": 0.1}}]
    )
    assert len(cells) == 2
    factory = CellFactory(torch.device("cpu"), 4, tmp_path)
    first, second = (factory.cell(one, tmp_path).victim for one in cells)
    assert first is second
    assert len(built) == 1


class Scaled(Transform):
    def __init__(self, model: Model, options: Any):
        super().__init__(model, options)
        self.own = nn.Linear(1, 1, bias=False)

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        return x * self.own.weight[0, 0]


class Scale(WeightedDefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("picture",)


def scale(model: Model, options: Scale) -> Model:
    return Scaled(model, options)


def test_a_defence_loads_weights_of_its_own_as_models_do(tmp_path, throw_away):
    throw_away("scale", scale, Scale)
    model, x = Classifier(Keeps(), "picture", ["a", "b"]), torch.full((1, 1, 2, 2), 0.5)
    path = tmp_path / "mine.safetensors"
    save_file({"weight": torch.tensor([[0.5]])}, path)
    behind = lambda **spec: defended(model, [{"name": "scale", **spec}])
    assert behind(weights=str(path))(x)[0, 0] == 0.25
    same, other = (behind(weights="random", init_seed=seed)(x)[0, 0] for seed in (0, 1))
    assert same == behind(weights="random")(x)[0, 0]
    assert same != other
    with pytest.raises(UserError, match="defense scale: no weights are shipped for it"):
        behind()
    save_file({"wait": torch.tensor([[0.5]])}, path)
    with pytest.raises(UserError, match=r"defense scale: the weights .*1 missing: weight"):
        behind(weights=str(path))


def test_weights_in_the_zoo_of_defences_are_found_by_name(tmp_path, monkeypatch, throw_away):
    throw_away("scale", scale, Scale)
    monkeypatch.setattr("limen.defenses.base.compose.ZOO", tmp_path)
    save_file({"weight": torch.tensor([[0.5]])}, tmp_path / "scale.safetensors")
    save_file({"weight": torch.tensor([[0.25]])}, tmp_path / "scale_weak.safetensors")
    model, x = Classifier(Keeps(), "picture", ["a", "b"]), torch.ones(1, 1, 2, 2)
    assert defended(model, ["scale"])(x)[0, 0] == 0.5
    assert defended(model, [{"name": "scale", "weights": "zoo:weak"}])(x)[0, 0] == 0.25


def test_a_defence_may_change_the_training_and_two_may_not(throw_away):
    class Trained(DefenseOptions):
        """Nothing to set."""

        def training(self) -> dict[str, Any]:
            return {"name": "mine"}

    throw_away("trained", lambda model, options: model, Trained)
    assert training_of(["jitter", "trained"]) == {"name": "mine"}
    assert training_of(["jitter"]) is None
    with pytest.raises(UserError, match="trained and trained both change the training"):
        training_of(["trained", "trained"])

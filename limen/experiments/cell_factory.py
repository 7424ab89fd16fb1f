"""Cell of a plan -> everything its task needs: models, defences, data, attack and metrics, opened once per
process."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from limen.attacks.engine.run import Attack, stored_as
from limen.core.components import parse
from limen.core.errors import UserError
from limen.data.base.dataset import Dataset
from limen.defenses.base.compose import defended
from limen.experiments.plan import PlannedCell
from limen.metrics.base.apply import applicable
from limen.models.base.load import load_model
from limen.models.base.model import Model, check_fits
from limen.models.base.output_check import check_outputs, check_surrogate
from limen.tasks.base.cell import Cell


@dataclass
class CellFactory:
    """Opens each model, defence and data set once per process and tries them once on two samples."""

    device: torch.device
    batch_size: int
    crafted: Path
    """Folder of universal perturbations, shared by the cells of the run that need the same."""
    _models: dict[str, Model] = field(default_factory=dict)
    _defended: dict[str, Model] = field(default_factory=dict)
    _data: dict[str, Dataset] = field(default_factory=dict)
    _checked: set[str] = field(default_factory=set)
    """Keys of the nets, their defences and surrogates that were tried on their data."""

    def model(self, spec: dict[str, Any]) -> Model:
        key = json.dumps(spec, sort_keys=True)
        if key not in self._models:
            self._models[key] = load_model(spec).to(self.device).eval()
        return self._models[key]

    def defended(self, spec: dict[str, Any], defenses: list[dict[str, Any]] | None) -> Model:
        """The net behind these defences, or the net itself without any."""
        if not defenses:
            return self.model(spec)
        key = json.dumps([spec, defenses], sort_keys=True)
        if key not in self._defended:
            self._defended[key] = defended(self.model(spec), defenses)
        return self._defended[key]

    def data(self, spec: dict[str, Any], model: Model) -> Dataset:
        """The data at the model's sample rate."""
        if model.rate_hz is not None and "rate_hz" in spec:
            spec = {**spec, "rate_hz": model.rate_hz}
        key = json.dumps(spec, sort_keys=True)
        if key not in self._data:
            component, options = parse("data", spec)
            data = component.function(options)
            if model.kind == "clip" and data.kind == "clip" and model.rate_hz not in (None, data.rate_hz):
                raise UserError(
                    f"The model takes clips at {model.rate_hz} Hz, but the data {spec['name']} gives "
                    f"{data.rate_hz} Hz and has no option rate_hz."
                )
            self._data[key] = data
        return self._data[key]

    def _check(self, planned: PlannedCell, model: Model, victim: Model, data: Dataset) -> None:
        """Try the net, the net behind its defences and the attack's surrogates on two samples, once."""
        spec = planned.spec
        other = (spec["attack"] or {}).get("surrogate") or {}
        key = json.dumps([spec["net"], spec["defense"], other], sort_keys=True)
        if key in self._checked:
            return
        batch, net = data.first(2).to(self.device), f"The net {planned.labels['net']}"
        check_outputs(model, batch, net)
        check_fits(model, batch, net)
        check_outputs(victim, batch, f"{net} behind the defense {planned.labels['defense']}")
        for one in [*other.get("models", []), *([other["stop"]] if other.get("stop") else [])]:
            check_surrogate(self.model(one), model, batch, data.rate_hz, f"The surrogate {one['name']}", net)
        self._checked.add(key)

    def cell(self, planned: PlannedCell, folder: Path) -> Cell:
        """Everything that the cell's task needs; `folder` is where the task may write files."""
        spec = planned.spec
        model = self.model(spec["net"]["model"])
        data = self.data(spec["net"]["data"], model)
        victim = self.defended(spec["net"]["model"], spec["defense"])
        self._check(planned, model, victim, data)
        attack = None if spec["attack"] is None else Attack.parse(spec["attack"])
        other = attack and attack.spec.surrogate
        seen = victim if spec["attack_on_defense"] else model
        part = lambda split, limit: self.data({**spec["net"]["data"], "split": split, "limit": limit}, model)
        sees_defense = spec["defense"] if spec["attack_on_defense"] else None
        data_spec = {k: v for k, v in spec["net"]["data"].items() if k not in ("split", "limit")}
        key = json.dumps(
            [spec["net"]["model"], data_spec, sees_defense, spec["attack"], spec["seed"]], sort_keys=True
        )
        return Cell(
            model=model,
            victim=victim,
            attacked_model=other.attacked_model(self.model) if other else seen,
            stop=self.model(other.stop) if other and other.stop else None,
            stop_every=other.stop_every if other else 1,
            proxy=" + ".join(m["name"] for m in other.models) if other else planned.labels["net"],
            net=spec["net"],
            open=self.model,
            data=data,
            attack=attack,
            metrics=applicable(spec["metrics"], model.kind, model.output, True),
            folder=folder,
            defenses=spec["defense"] or [],
            training=partial(part, "train"),
            validation=partial(part, "valid"),
            limit=spec["net"]["data"].get("limit"),
            seed=spec["seed"],
            store=stored_as(spec["store"], data.kind),
            batch_size=self.batch_size,
            crafted=self.crafted / f"{hashlib.sha256(key.encode()).hexdigest()[:12]}.safetensors",
            examples=spec["examples"],
            device=self.device,
        )

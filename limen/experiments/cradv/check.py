"""Checks of a CrAdv file before its first cell: everything that is missing or does not fit is reported at
once."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from limen.core.errors import UserError, check_each
from limen.defenses.base.compose import defended
from limen.experiments.cradv import plan, schema
from limen.experiments.cradv.nets import Opened, Opener
from limen.experiments.cradv.results import figure_class
from limen.models.base.model import Model
from limen.models.base.output_check import logit_columns


def check(cells: Sequence[plan.CradvCell], opener: Opener) -> None:
    """Open every net with its data and evaluate it on two pictures behind every defence. A UserError lists
    everything that fails."""
    saved = {getattr(attack.params, "save_path", None) for cell in cells for attack in cell.attacks if attack}
    check_each(cells, _Checker(opener, saved).cell)


@dataclass
class _Checker:
    opener: Opener
    saved: set[str | None]
    """Files that cells of this file write: other cells may name them before they exist."""
    classes: dict[str, int] = field(default_factory=dict)
    """Net and defence -> number of classes."""

    def cell(self, cell: plan.CradvCell) -> None:
        net = self.opener.net(cell.net)
        known = self._net(cell, net)
        if cell.task.task_name == "train":
            self.opener.data(cell.net, "train")
        if isinstance(cell.params, schema.ConstrainedAccuracy) or (cell.variable and cell.task.plot_keys):
            figure_class()  # plots that cannot be drawn are refused before the first cell
        for defense in cell.defenses:
            if defense is not None:
                self._class_count(
                    defended(net.model, [{"name": defense.name, **schema.declared(defense.params)}]),
                    net,
                    f"the defense {defense.name} before {cell.net.model}",
                    defense.data,
                )
        for attack in cell.attacks:
            if attack is not None:
                self._attack(attack, net, known)
                name, values = cell.variable or ("", [])
                for one in [attack, *(attack.varied(**{name: value}) for value in values)]:
                    _check_targets(one, net, known)

    def _net(self, cell: plan.CradvCell, net: Opened) -> int:
        known, there = (
            self._class_count(net.model, net, f"the model {cell.net.model}", None),
            len(net.data.classes or []),
        )
        if there > known:
            raise UserError(
                f"net {cell.net.id}: the data source {cell.net.datasource} has {there} classes, but the "
                f"model {cell.net.model} has only {known}. Give it model_params.num_classes and "
                "weights for them, or other data."
            )
        if there < known:
            self.opener.say(
                f"net {cell.net.id}: the model has {known} classes, the data has {there}: class k is "
                "the k-th folder, as in CrAdv."
            )
        top_k = getattr(cell.params, "top_k", None)
        if top_k is not None and top_k > known:
            raise UserError(f"top_k is {top_k}, but the net {cell.net.id} has only {known} classes.")
        return known

    def _attack(self, attack: plan.Attack, net: Opened, known: int) -> None:
        if attack.surrogate is not None:
            other = self.opener.net(attack.surrogate)
            theirs = self._class_count(
                other.model, net, f"the surrogate {other.spec.id} ({other.spec.model})", other.spec.data
            )
            if theirs != known:
                raise UserError(
                    f"The attack {attack.name} is computed on the net {other.spec.id}, which has {theirs} "
                    f"classes, but the net {net.spec.id} has {known}. A surrogate must have the classes of "
                    "the attacked net."
                )
        for key in ("base_img_path", "adv_sticker_path"):
            path = getattr(attack.params, key, None)
            if path is not None and path not in self.saved and not Path(path).expanduser().is_file():
                raise UserError(f"The attack {attack.name}: there is no file {path} ({key}).")

    def _class_count(self, model: Model, net: Opened, who: str, what: object) -> int:
        """Number of classes of the model, evaluated on two pictures of the net's data."""
        key = json.dumps([net.spec.data, what])
        if key not in self.classes:
            self.classes[key] = logit_columns(
                model, net.data.first(2).to(net.device), f"net {net.spec.id}: {who}"
            )
        return self.classes[key]


def _check_targets(attack: plan.Attack, net: Opened, known: int) -> None:
    """A UserError if the attack targets a class that the net does not have."""
    params, wanted = attack.params, dict[str, list[int]]()
    if isinstance(params, schema.AdversarialSticker) and params.adv_target is not None:
        wanted["adv_target"] = [params.adv_target]
    if isinstance(params, schema.CarliniWagner) and params.target_class == "random" and params.random_classes:
        wanted["random_classes"] = [int(c) for c in params.random_classes.split()]
    for key, classes in wanted.items():
        if (most := max(classes)) >= known:
            raise UserError(
                f"The attack {attack.name}: {key} has class {most}, but the net {net.spec.id} has only "
                f"{known} classes, 0 to {known - 1}."
            )

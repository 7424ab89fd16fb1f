"""A CrAdv task file -> cells in the order CrAdv runs them: task, net, defence, attack, surrogate, then the
attack's variables."""

import difflib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from limen.core.errors import UserError
from limen.core.options import parse_options
from limen.experiments.cradv import schema
from limen.experiments.cradv.schema import CradvPart
from limen.experiments.plan import check_size

P = TypeVar("P", bound=CradvPart)
Say = Callable[[str], None]


@dataclass(frozen=True)
class Net:
    data: dict[str, Any]
    """As it is written into results."""
    model: str
    datasource: str
    id: str
    model_params: dict[str, Any]
    source: schema.Datasource

    @property
    def batch_size(self) -> int:
        return self.data["datasource_params"]["batch_size"]


@dataclass(frozen=True)
class Attack:
    data: dict[str, Any]
    name: str
    params: CradvPart
    surrogate: Net | None
    """The net it is computed on; None: the net of the task."""

    def varied(self, **values: Any) -> "Attack":
        params = parse_options(
            type(self.params), {**self.params.model_dump(), **values}, f"attack {self.name}"
        )
        return Attack(self.data, self.name, params, self.surrogate)


@dataclass(frozen=True)
class Defense:
    data: dict[str, Any]
    name: str
    params: CradvPart


@dataclass(frozen=True)
class CradvCell:
    """One result file: with exec_multi all defences and attacks, otherwise one of each."""

    task_data: dict[str, Any]
    task: schema.TaskData
    params: CradvPart
    net: Net
    defenses: list[Defense | None]
    attacks: list[Attack | None]
    variable: tuple[str, list[Any]] | None = None

    @property
    def nets(self) -> list[Net]:
        """The evaluated net and the surrogates of its attacks."""
        return [self.net, *(attack.surrogate for attack in self.attacks if attack and attack.surrogate)]

    @property
    def description(self) -> str:
        if self.task.exec_multi:
            return (
                f"{self.net.id} | {self.task.task_name} | {len(self.defenses)} defences x "
                f"{len(self.attacks)} attacks"
            )
        defense, attack = self.defenses[0], self.attacks[0]
        on = f" on {attack.surrogate.id}" if attack and attack.surrogate else ""
        varied = f" | {len(self.variable[1])} values of {self.variable[0]}" if self.variable else ""
        against = (
            f"{defense.name if defense else 'no defence'} | {attack.name if attack else 'no attack'}{on}"
        )
        return f"{self.net.id} | {self.task.task_name} | {against}{varied}"


def read_plan(content: Mapping[str, Any], who: str, say: Say) -> tuple[schema.Config, list[CradvCell]]:
    """The parsed and validated file."""
    file = _part(schema.File, content, who, say)
    config = _part(schema.Config, file.config, f"{who}: config", say)
    cells = [
        cell for i, task in enumerate(file.tasks) for cell in _task(task, f"{who}: tasks[{i}]", config, say)
    ]
    return config, cells


def _task(content: dict[str, Any], who: str, config: schema.Config, say: Say) -> Iterator[CradvCell]:
    task = _part(schema.Task, content, who, say)
    name = task.task_data.get("task_name")
    data = _part(
        schema.TaskData, task.task_data, f"{who}.task_data", say, schema.TASKS.get(str(name)), "task_params"
    )
    _known("task", data.task_name, schema.TASKS, f"{who}.task_data")
    params = _part(schema.TASKS[data.task_name], data.task_params, f"{who}.task_data.task_params", say)
    if data.exec_multi and data.task_name not in ("constrained_accuracy", "samples"):
        raise UserError(
            f"{who}.task_data: the task {data.task_name} has no exec_multi in CrAdv; constrained_accuracy "
            "and samples have. Leave exec_multi out: every defence and attack is then run on its own."
        )
    nets = [_net(n, f"{who}.nets[{i}]", config, say) for i, n in enumerate(task.nets)]
    defenses = [_defense(d, f"{who}.defenses[{i}]", say) for i, d in enumerate(task.defenses)]
    attacks = [
        a for i, one in enumerate(task.attacks) for a in _attacks(one, f"{who}.attacks[{i}]", config, say)
    ]
    variables = [
        _part(schema.AttackVariable, v, f"{who}.attack_variables[{i}]", say)
        for i, v in enumerate(task.attack_variables)
    ]
    values = 1 + sum(len(v.variable_values) for v in variables)
    check_size([len(nets) * (1 + len(defenses)) * (1 + len(attacks)) * values])
    _check_variables(variables, attacks, f"{who}.attack_variables", say)
    some_defenses: list[Defense | None] = [*([] if data.skip_no_defense else [None]), *defenses]
    some_attacks: list[Attack | None] = [*([] if data.skip_no_attack else [None]), *attacks]
    if data.task_name == "constrained_accuracy" and None in some_attacks:
        some_attacks.remove(None)
        if not data.exec_multi:
            say(
                f"{who}: constrained_accuracy needs an attack; the run without one is left out (CrAdv "
                "fails on it)."
            )
    filled_data = _filled(task.task_data, schema.TaskData)
    for net in nets:
        if data.exec_multi:
            yield CradvCell(filled_data, data, params, net, some_defenses, some_attacks)
            continue
        for defense in some_defenses:
            for attack in some_attacks:
                if attack is None or not data.skip_no_attack_variables:
                    yield CradvCell(filled_data, data, params, net, [defense], [attack])
                for v in _variables_of(attack, variables):
                    yield CradvCell(
                        filled_data,
                        data,
                        params,
                        net,
                        [defense],
                        [attack],
                        (v.variable_name, v.variable_values),
                    )


def _net(content: Any, who: str, config: schema.Config, say: Say) -> Net:
    net = _part(schema.Net, content, who, say)
    _known("model", net.model_name, schema.MODELS, who)
    _known("datasource", net.datasource_name, schema.DATASOURCES, who)
    source = _part(schema.Datasource, net.datasource_params, f"{who}.datasource_params", say)
    data = _filled(content, schema.Net)
    data["datasource_params"]["batch_size"] = max(1, int(source.batch_size * config.batch_size_factor))
    return Net(data, net.model_name, net.datasource_name, net.net_id, net.model_params, source)


def _attacks(content: Any, who: str, config: schema.Config, say: Say) -> Iterator[Attack]:
    """The attack on the task's model, then on each surrogate."""
    attack = _part(
        schema.Attack, content, who, say, schema.ATTACKS.get(str(content.get("attack_name"))), "attack_params"
    )
    _known("attack", attack.attack_name, schema.ATTACKS, who)
    params = _part(schema.ATTACKS[attack.attack_name], attack.attack_params, f"{who}.attack_params", say)
    data = _filled(content, schema.Attack, without="specific_models")
    surrogates = [
        _net(n, f"{who}.specific_models[{i}]", config, say) for i, n in enumerate(attack.specific_models)
    ]
    if not attack.on_task_model and not surrogates:
        raise UserError(
            f"{who}: on_task_model is false and specific_models is empty, so no model is attacked. Name one "
            "there."
        )
    if attack.on_task_model:
        yield Attack(data, attack.attack_name, params, None)
    for surrogate in surrogates:
        yield Attack(data, attack.attack_name, params, surrogate)


def _defense(content: Any, who: str, say: Say) -> Defense:
    defense = _part(
        schema.Defense,
        content,
        who,
        say,
        schema.DEFENSES.get(str(content.get("defense_name"))),
        "defense_params",
    )
    _known("defense", defense.defense_name, schema.DEFENSES, who)
    params = _part(
        schema.DEFENSES[defense.defense_name], defense.defense_params, f"{who}.defense_params", say
    )
    return Defense(_filled(content, schema.Defense), defense.defense_name, params)


def _variables_of(
    attack: Attack | None, variables: list[schema.AttackVariable]
) -> list[schema.AttackVariable]:
    return (
        []
        if attack is None
        else [v for v in variables if v.variable_name not in attack.data["except_variables"]]
    )


def _check_variables(
    variables: list[schema.AttackVariable], attacks: list[Attack], who: str, say: Say
) -> None:
    for attack in attacks:
        for v in _variables_of(attack, variables):
            if v.variable_name not in type(attack.params).model_fields:
                say(
                    f'{who}: the attack {attack.name} has no "{v.variable_name}", so all its values give '
                    "the same result, in CrAdv too; "
                    "name it in the attack's except_variables."
                )
            for value in v.variable_values:
                attack.varied(**{v.variable_name: value})


def _known(kind: str, name: str, names: Mapping[str, Any] | tuple[str, ...], who: str) -> None:
    """A UserError with a suggestion if CrAdv has no such component."""
    if name not in names:
        close = difflib.get_close_matches(name, list(names), n=1)
        raise UserError(
            f'{who}: CrAdv has no {kind} "{name}".{f" Did you mean {close[0]}?" if close else ""} It has: '
            f"{', '.join(names)}."
        )


def _part(
    cls: type[P],
    content: Any,
    who: str,
    say: Say,
    params: type[CradvPart] | None = None,
    params_key: str = "",
) -> P:
    """One part of the file. Keys that CrAdv ignores are reported, with a hint if they are parameters
    (`params`) in the wrong place."""
    parsed = parse_options(cls, content, who)
    for key in parsed.model_extra or {}:
        belongs = f"; it belongs in {params_key}" if params and key in params.model_fields else ""
        say(f'{who}: "{key}" is ignored, by CrAdv too{belongs}.')
    return parsed


def _filled(content: Mapping[str, Any], cls: type[CradvPart], without: str = "") -> dict[str, Any]:
    """The part as CrAdv writes it into results: the given keys in their order, then the defaults."""
    defaults = {
        k: f.get_default(call_default_factory=True)
        for k, f in cls.model_fields.items()
        if not f.is_required()
    }
    filled = {
        k: v
        for k, v in {**content, **{k: v for k, v in defaults.items() if k not in content}}.items()
        if k != without
    }
    return json.loads(json.dumps(filled))  # a copy that shares nothing with the file

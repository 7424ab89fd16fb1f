"""What a task declares is what planning, the run folder and the console use."""

import io

import pytest
from packages import installed
from rich.console import Console

from limen.cli.run_table import print_run
from limen.core import components
from limen.core.errors import UserError
from limen.experiments.engine import run
from limen.experiments.file import Experiment
from limen.experiments.needs import gradients_per_sample
from limen.experiments.plan import plan
from limen.tasks.base.task import parse_task

NET = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 4}}
FGSM = {"name": "fgsm", "budget": {"name": "linf", "eps": 0.25}}

SOURCE = '''"""Repeated attacks."""

from typing import ClassVar

from limen.metrics.base.metric import Column
from limen.tasks.base.cell import Outcome
from limen.tasks.base.task import TaskOptions


class Repeated(TaskOptions):
    title: ClassVar[str] = "attack repeated"
    needs_attack: ClassVar[bool] = {needs_attack}
    diagnostic: ClassVar[bool] = {diagnostic}
    audited: ClassVar[bool] = {audited}

    def repeats(self):
        return 7

    def columns(self):
        return {{"rounds": Column("rounds of the attack", heading="Rounds", format="n", headline=True)}}


def repeated(cell, options: Repeated):
    (batch,) = cell.batches()
    facts = {{"rounds": 7, "lucky": True, "note": "text", "margin": 0.5}}
    return Outcome([{{"id": name, **facts}} for name in batch.ids])
'''


def experiment(attacks, **more):
    return Experiment.model_validate(
        {"name": "t", "tasks": [{"task": {"name": "repeated"}, "nets": [NET], "attacks": attacks}], **more}
    )


@pytest.fixture
def package(tmp_path):
    def install(needs_attack=False, diagnostic=False, audited=False):
        facts = {"needs_attack": needs_attack, "diagnostic": diagnostic, "audited": audited}
        return installed(tmp_path / "other", "tasks", "repeated", SOURCE.format(**facts))

    return install


def shown(summary, folder):
    console = Console(width=140, record=True, file=io.StringIO())
    print_run(summary, folder, console)
    return console.export_text()


def test_declared_columns_are_summarised_as_declared_and_no_other_is_dropped(package, tmp_path):
    with package():
        summary = run(experiment([FGSM], audit=False), tmp_path / "run")
    (cell,) = summary["cells"]
    assert cell["task_info"] == {"title": "attack repeated", "diagnostic": False}
    columns = cell["summary"]["columns"]
    assert (columns["rounds"]["heading"], columns["rounds"]["median"], columns["rounds"]["headline"]) == (
        "Rounds",
        7,
        True,
    )
    assert (columns["lucky"]["figure"], columns["lucky"]["mean"], columns["lucky"]["count"]) == (
        "share",
        1,
        4,
    )
    assert (columns["margin"]["figure"], columns["margin"]["median"]) == ("median", 0.5)
    assert "note" not in columns
    assert "Rounds" in shown(summary, tmp_path / "run")


def test_a_diagnostic_task_is_not_among_the_results_of_the_console(package, tmp_path):
    with package(diagnostic=True):
        summary = run(experiment([FGSM], audit=False), tmp_path / "run")
    assert "Rounds" not in shown(summary, tmp_path / "run")


def test_a_task_that_needs_an_attack_refuses_a_cell_without_one_when_it_is_planned(package):
    with package(needs_attack=True), pytest.raises(UserError, match="The task repeated needs an attack"):
        plan(experiment([None]))


@pytest.mark.parametrize("audited", [True, False])
def test_only_a_task_that_declares_it_gets_an_audit(package, audited):
    with package(audited=audited):
        cells = plan(experiment([FGSM]))
    diagnostics = [parse_task(cell.spec["task"])[1].diagnostic for cell in cells[1:]]
    assert diagnostics == [True] * audited


def test_the_work_of_a_cell_counts_every_run_of_the_attack(package):
    with package():
        (cell,) = plan(experiment([FGSM], audit=False))
        once = {**cell.spec, "task": {"name": "accuracy"}}
        assert gradients_per_sample(cell.spec) == 7 * gradients_per_sample(once)


@pytest.mark.parametrize("name", components.names("tasks"))
def test_every_task_declares_a_title_and_describes_its_columns(name):
    _, options = parse_task({"name": name})
    assert options.title
    assert all(column.meaning for column in options.columns().values())
    assert options.cost(10.0) > 0


@pytest.mark.parametrize("name", components.names("tasks"))
def test_options_limited_to_some_samples_take_at_most_as_many(name):
    from limen.models.base.load import load_model

    _, options = parse_task({"name": name})
    for model in (load_model({"name": "mlp"}), load_model({"name": "ctc_small"})):
        if options.sample_limit in type(options).model_fields:
            assert options.limited(3, model).at_most(model) == 3


def test_options_of_a_task_that_do_not_extend_task_options_are_refused(tmp_path):
    source = (
        '"""Bare."""\nfrom limen.core.options import Options\n\n\nclass Bare(Options):\n    pass\n\n\n'
        "def bare(cell, options: Bare):\n    return None\n"
    )
    with (
        installed(tmp_path, "tasks", "bare", source),
        pytest.raises(UserError, match="must extend TaskOptions"),
    ):
        parse_task("bare")

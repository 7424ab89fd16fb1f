"""What holds for every component of every kind, whoever wrote it."""

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch

import limen
from limen.core.components import KINDS, load, names, parse, spec_of
from limen.core.errors import UserError
from limen.core.options import Options, option_rows
from limen.core.types import BOUNDS
from limen.data.base.dataset import Dataset
from limen.experiments.engine import run
from limen.experiments.file import Experiment
from limen.tasks.base.task import parse_task

EVERY = [(kind, name) for kind in KINDS for name in names(kind)]
FETCHED = {"mnist", "foolbox_samples", "fashion_mnist", "cifar10", "asterisk"}
FROM_A_FOLDER = {"image_folder", "clip_folder", "speech_commands", "transcripts"}
EMBEDDED = [name for name in names("data") if name not in FETCHED | FROM_A_FOLDER]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_a_component_is_a_function_named_like_its_file_with_described_options(kind, name):
    component = load(kind, name)
    assert inspect.isfunction(component.function)
    assert issubclass(component.options, Options)
    assert component.summary.endswith((".", ":", ")")) or len(component.summary) > 10, (
        "the module needs a docstring"
    )
    for row in option_rows(component.options):
        assert row["meaning"], f"{kind}/{name}: the option {row['name']} needs a string under it"


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_defaults_survive_a_round_trip_through_json(kind, name):
    component = load(kind, name)
    _, options = parse(kind, {"name": name, **component.options.example})
    again = component.parse(json.loads(options.model_dump_json()))
    assert again == options


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_name_gets_a_suggestion_and_the_list(kind):
    real = names(kind)[0]
    with pytest.raises(UserError, match=f'Did you mean "{real}"') as error:
        load(kind, real + "x")
    assert f"There is no {KINDS[kind].singular}" in str(error.value)


@pytest.mark.parametrize("name", EMBEDDED)
def test_a_data_set_gives_samples_in_natural_range_with_ids_in_a_seeded_order(name):
    component = load("data", name)
    make = lambda **options: component.function(component.parse(options))
    data = make(limit=6)
    assert isinstance(data, Dataset)
    samples = list(data)
    low, high = BOUNDS[data.kind]
    assert len({s.id for s in samples}) == 6
    for sample in samples:
        assert sample.x.dtype == torch.float32
        assert low <= float(sample.x.min())
        assert float(sample.x.max()) <= high
        assert isinstance(sample.y, {"class": int, "transcript": str, "signal": torch.Tensor}[data.truth])
    again = list(make(limit=3))
    assert [s.id for s in again] == [s.id for s in samples[:3]]
    assert all(torch.equal(a.x, b.x) for a, b in zip(again, samples, strict=False))
    assert [s.id for s in make(limit=6, order_seed=1)] != [s.id for s in samples]
    other = {s.id for s in make(split="train", limit=6)}
    assert not other & {s.id for s in samples}


@pytest.mark.parametrize("name", names("tasks"))
def test_a_task_gives_a_row_per_sample_and_a_result_that_json_can_hold(name, tmp_path):
    net = {"model": {"name": "mlp", "weights": "random"}, "data": {"name": "digits", "limit": 4}}
    attack = {"name": "fgsm", "budget": {"name": "linf", "eps": 0.1}}
    few = {"epochs": 1} if parse_task(name)[1].trains else {}
    summary = run(
        Experiment.model_validate(
            {
                "name": "t",
                "audit": False,
                "tasks": [{"task": {"name": name, **few}, "nets": [net], "attacks": [attack]}],
            }
        ),
        tmp_path / "run",
    )
    (cell,) = summary["cells"]
    assert cell["status"] == "done"
    assert cell["summary"]["n"] >= 4
    json.dumps(cell["summary"]["result"])


def test_options_that_name_a_component_are_checked_when_they_are_read():
    class Outer(Options):
        inner: Annotated[dict[str, Any], spec_of("budgets")]

    with pytest.raises(ValueError, match='no budget "linff"'):
        Outer(inner={"name": "linff"})


def test_another_package_adds_a_component_through_an_entry_point(tmp_path):
    info = tmp_path / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[limen.budgets]\nhalf = other_budget\n")
    (tmp_path / "other_budget.py").write_text(
        '"""Half of everything."""\nfrom limen.core.options import Options\n\nclass Half(Options):\n    '
        "pass\n\n"
        "def half(context, options: Half):\n    return None\n"
    )
    code = (
        "from limen.core.components import names, load; assert 'half' in names('budgets'); "
        "print(load('budgets', 'half').summary)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "Half of everything.", done.stderr


def test_every_template_of_limen_new_passes_its_contract_tests(tmp_path):
    """In a copy of the package: write one of each kind, then run the contract tests that name them."""
    from limen.cli.new import kinds

    source = Path(limen.__file__).parent
    shutil.copytree(source, tmp_path / "limen", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    for kind in kinds():
        made = subprocess.run(
            [sys.executable, "-m", "limen.cli.app", "new", kind, f"fresh_{kind}"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
    tests = sorted(str(p) for p in Path(__file__).parent.glob("test_contracts_*.py"))
    shutil.copytree(Path(__file__).parent, tmp_path / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    tests = [
        *sorted(f"tests/{Path(t).name}" for t in tests),
        "tests/objectives",
        "tests/degradations",
        "tests/trials",
    ]
    checked = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "fresh_", *tests],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout[-3000:]
    listed = subprocess.run(
        [sys.executable, "-m", "limen.cli.app", "list"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert [kind for kind in kinds() if f"fresh_{kind}" not in listed.stdout] == []


@pytest.mark.parametrize(
    ("kind", "name"), [("attack", "pgd"), ("attack", "My-Attack"), ("attack", "class"), ("potion", "x")]
)
def test_limen_new_refuses_a_name_that_is_taken_or_cannot_be_a_file(kind, name, tmp_path):
    from limen.cli.new import write

    with pytest.raises(UserError):
        write(kind, name, tmp_path)
    assert not list(tmp_path.iterdir())

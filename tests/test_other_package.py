"""One new file is enough: a package with one component of every kind, each the template of `limen new`, found
through its entry points by every command, in the JSON schema, the reference, the console and the report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import limen
from limen.cli.new import kinds, write

ROOT = Path(limen.__file__).parents[1]
HEADING = "Mean change"
"""Heading that the template of metrics declares."""


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A folder with the package `other` and the entry points that its installation would declare."""
    folder = tmp_path_factory.mktemp("other")
    entries = []
    for kind, plural in kinds().items():
        write(kind, f"other_{kind}", folder / "other")
        entries.append(f"[limen.{plural}]\nother_{kind} = other.other_{kind}\n")
    info = folder / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(entries))
    return folder


def command(package: Path, *words: str, cwd: Path | None = None) -> str:
    path = os.pathsep.join([str(package), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "limen", *words],
        cwd=cwd or package,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_list_and_describe_know_a_component_of_every_kind(package):
    listed = command(package, "list")
    assert [kind for kind in kinds() if f"other_{kind} " not in listed] == []
    described = command(package, "describe", "other_budget")
    assert "other_budget (budget)" in described
    assert "Root mean square of the change" in described


def test_the_schema_of_experiment_files_offers_each_component_that_they_can_name(package):
    schema = json.loads(command(package, "schema"))
    text = json.dumps(schema["$defs"])
    named = ("data", "model", "defense", "goal", "budget", "attack", "metric", "task")
    assert [kind for kind in named if f'"const": "other_{kind}"' not in text] == []


def test_the_reference_has_an_entry_for_each(package, tmp_path):
    path = os.pathsep.join([str(package), str(ROOT)])
    subprocess.run(
        [sys.executable, "-m", "limen.cli.reference"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        check=True,
        capture_output=True,
    )
    pages = {path.stem: path.read_text() for path in (tmp_path / "docs" / "reference").glob("*.md")}
    assert [kind for kind, plural in kinds().items() if f"## other_{kind}" not in pages[plural]] == []


def test_an_experiment_of_these_components_runs_and_is_seen_in_console_and_report(package, tmp_path):
    attack = {
        "name": "other_attack",
        "goal": {"name": "other_goal"},
        "budget": {"name": "other_budget", "rms": 0.3},
    }
    net = {
        "model": {"name": "other_model", "weights": "random", "classes": 3},
        "data": {"name": "other_data", "limit": 6},
    }
    entry = {
        "nets": [net],
        "defenses": [{"name": "other_defense"}],
        "attacks": [attack],
        "metrics": [{"name": "other_metric"}, {"name": "correct"}],
    }
    tasks = [entry, {**entry, "task": {"name": "other_task"}}]
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"name": "t", "tasks": tasks}))
    words = ("run", "t.yaml", "--out", "run", "--jobs", "2", "--engine", "other_engine")
    shown = command(package, *words, cwd=tmp_path)
    assert HEADING in shown
    page = (tmp_path / "run" / "report.html").read_text()
    for visible in ("Title of other_section", HEADING, "other_attack", "other_defense", "other_task"):
        assert visible in page, visible
    assert "root mean square" in page


def test_training_takes_an_objective_of_another_package(package, tmp_path):
    task = {"name": "train", "epochs": 1, "objective": {"name": "other_objective", "gamma": 1.0}}
    net = {
        "model": {"name": "mlp", "weights": "random", "hidden": [8]},
        "data": {"name": "digits", "limit": 64},
    }
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"name": "t", "tasks": [{"task": task, "nets": [net]}]}))
    assert "weights:" in command(package, "train", "t.yaml", "--out", "run", cwd=tmp_path)


def test_a_study_takes_a_trial_type_and_an_axis_of_another_package(package, tmp_path):
    command(package, "listen", "new", "study", "--template", "abx", cwd=tmp_path)
    file = tmp_path / "study" / "study.yaml"
    study = yaml.safe_load(file.read_text())
    pages = [step for step in study["steps"] if step in ("consent", "instructions")]
    asked = {"name": "other_trial", "trials": 4}
    jnd = {"name": "same_different", "axes": ["other_axis"], "adaptive": {"min_trials": 1, "max_trials": 2}}
    study |= {"steps": [*pages, asked, jnd], "exclude": [], "hypotheses": []}
    file.write_text(yaml.safe_dump(study))
    command(package, "listen", "simulate", "study", "--listeners", "4", cwd=tmp_path)
    command(package, "listen", "analyze", "study", "--simulated", cwd=tmp_path)
    (page,) = (tmp_path / "study").rglob("*.html")
    assert "other_axis" in page.read_text()
    assert "Other trial: 16 of 16 answers were right" in page.read_text()

"""Docs that can go stale are checked."""

import re
from pathlib import Path

import pytest

from limen.cli.reference import describe, page
from limen.core.components import KINDS, names
from limen.experiments.file import load_file, read_experiment
from limen.experiments.plan import plan

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("kind", KINDS)
def test_the_reference_page_is_what_the_options_classes_say(kind):
    assert (ROOT / "docs" / "reference" / f"{kind}.md").read_text() == page(kind), "run `make docs`"


def test_describe_prints_every_option_of_every_component():
    for kind in KINDS:
        for name in names(kind):
            assert name in describe(f"{kind}/{name}")


@pytest.mark.parametrize(
    "path",
    sorted([*(ROOT / "experiments").glob("*.yaml"), ROOT / "limen/experiments/demo.yaml"]),
    ids=lambda p: p.stem,
)
def test_every_ready_made_experiment_is_valid_and_has_cells(path):
    assert plan(read_experiment(load_file(path), path))


@pytest.mark.parametrize(
    "path",
    sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]),
    ids=lambda p: p.name,
)
def test_links_and_pictures_of_a_page_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (path.parent / target).exists(), f"{path.name} points to {target}"


def test_the_experiments_that_pages_name_exist():
    for path in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"experiments/[\w.-]+\.yaml", path.read_text()):
            assert (ROOT / target).exists() or (ROOT / "limen" / target).exists(), (
                f"{path.name} names {target}"
            )

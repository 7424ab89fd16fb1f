"""The table that `limen run` prints."""

import io

import pytest
from rich.console import Console

from limen.cli.run_table import print_run
from limen.experiments.engine import run
from limen.experiments.file import Experiment


@pytest.mark.parametrize("width", [80, 110])
def test_no_name_and_no_number_is_cut_off_however_long_the_label(width, tmp_path):
    net = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 4}}
    label = "a step along the sign of the gradient, once, within a small budget for every pixel"
    attack = {"name": "fgsm", "label": label, "budget": {"name": "linf", "eps": 0.25}}
    tasks = [{"nets": [net], "attacks": [None, attack]}]
    summary = run(Experiment.model_validate({"name": "t", "audit": False, "tasks": tasks}), tmp_path / "run")
    console = Console(width=width, record=True, file=io.StringIO())
    print_run(summary, tmp_path / "run", console)
    text = console.export_text()
    assert "…" not in text
    assert "Correct" in text
    assert "every pixel" in " ".join(text.split())

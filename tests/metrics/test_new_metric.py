"""A metric of another package is one file: every table shows it with the heading and format that it declares."""

import io
import json

import numpy as np
import pytest
from packages import installed
from PIL import Image
from rich.console import Console

from limen.cli.run_table import print_run
from limen.experiments.engine import run
from limen.experiments.file import Experiment
from limen.measure import measure_files, print_tables, write_html, write_json

SOURCE = '''"""Range of the change."""

from limen.metrics.base.metric import Column, MetricOptions, per_pair


class Spread(MetricOptions):
    def columns(self):
        return {"spread": Column("range of the change", "steps", heading="Spread, steps", format="2f", headline=True)}


def spread(samples, options: Spread):
    return {"spread": per_pair(samples, lambda x, x_adv: float((x_adv - x).max() - (x_adv - x).min()))}
'''


@pytest.fixture
def console():
    return Console(width=140, record=True, file=io.StringIO())


def test_the_console_shows_a_new_metric_of_a_run(tmp_path, console):
    net = {"model": {"name": "mlp"}, "data": {"name": "digits", "limit": 4}}
    attack = {"name": "fgsm", "budget": {"name": "linf", "eps": 0.25}}
    with installed(tmp_path / "other", "metrics", "spread", SOURCE):
        experiment = {"name": "t", "audit": False, "tasks": [{"nets": [net], "attacks": [attack]}]}
        summary = run(Experiment.model_validate(experiment), tmp_path / "run")
        print_run(summary, tmp_path / "run", console)
    column = summary["cells"][0]["summary"]["columns"]["spread"]
    assert (column["heading"], column["unit"], column["figure"]) == ("Spread, steps", "steps", "median")
    text = console.export_text()
    head, row = (next(line for line in text.splitlines() if word in line) for word in ("defense", "fgsm"))
    assert "Spread, steps" in head
    assert f"{column['median']:.2f}" in row.split()
    assert "median of" in text
    assert "Spread, steps" in text.partition("median of")[2]


def test_measure_shows_a_new_metric_in_all_its_tables(tmp_path, console):
    x = np.zeros((4, 4), np.uint8)
    for side in ("clean", "adversarial"):
        (tmp_path / side).mkdir()
        for name in ("a.png", "b.png"):
            Image.fromarray(x).save(tmp_path / side / name)
        x[0, 0] = 51
    with installed(tmp_path / "other", "metrics", "spread", SOURCE):
        measured = measure_files(tmp_path / "clean", tmp_path / "adversarial")
    assert [row["spread"] for row in measured.rows] == pytest.approx([0.2, 0.2])
    print_tables(measured, console)
    text = console.export_text()
    assert "Spread, steps" in text
    assert "0.20" in text
    write_html(measured, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '<abbr title="spread: range of the change">Spread, steps</abbr>' in page
    assert "<td>0.20</td>" in page
    write_json(measured, tmp_path / "table.json")
    content = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert content["columns"]["spread"]["heading"] == "Spread, steps"

"""Packages of the extras stay out of the way: the job of the demo runs without them, and what needs one says
which."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from limen.core.errors import UserError
from limen.experiments.cradv.results import figure_class

WITHOUT = """
import sys
for name in ("sklearn", "matplotlib"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
sys.argv = ["limen", *sys.argv[1:]]
from limen.__main__ import main
main()
"""


def test_an_attacked_net_and_its_report_need_neither_scikit_learn_nor_matplotlib(tmp_path):
    net = {"model": {"name": "cnn"}, "data": {"name": "digits", "limit": 4}}
    words = {"model": {"name": "keyword_cnn"}, "data": {"name": "spoken_words", "limit": 2}}
    pgd = {"name": "pgd", "steps": 2, "budget": {"name": "linf", "eps": 0.1}}
    tasks = [{"nets": [net, words], "defenses": [None], "attacks": [None, pgd]}]
    (tmp_path / "t.yaml").write_text(yaml.safe_dump({"tasks": tasks, "audit": False}))
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "run", "t.yaml", "--jobs", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(Path(tmp_path).glob("runs/*/report.html"))


def test_plots_of_cradv_files_name_the_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        UserError, match=r"matplotlib, which is not installed. .*pip install 'limen\[plots\]'"
    ):
        figure_class()

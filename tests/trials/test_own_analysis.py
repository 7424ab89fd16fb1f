"""A trial type of another package is one file: served, simulated, analysed and shown with an analysis of its own."""

import os
import subprocess
import sys

LOUDEST = '''"""Which of the two clips is louder, on a scale from -3 to 3?"""

from typing import ClassVar

from limen.trials.base.clips import Clips, clips
from limen.trials.base.columns import ExportColumn
from limen.trials.base.findings import Answers, Findings, FindingsChart, FindingsTable
from limen.trials.base.screen import Listener, Screen, Widget
from dataclasses import replace


class Loudest(Clips):
    results_title: ClassVar[str] = "Loudness"
    columns: ClassVar[dict[str, ExportColumn]] = {"clips_played": ExportColumn("number of clips of the screen")}

    @classmethod
    def analyse(cls, answers: Answers) -> Findings:
        cells = [(where, rows) for where, rows in answers.cells() if where.keys in ((), ("condition",))]
        means = [(str(where), answers.mean([r["rating"] for r in rows], rows, (-3, 3))) for where, rows in cells]
        louder = answers.share(answers.rows, [r["rating"] > 0 for r in answers.rows])
        return Findings(
            sentences=[f"the mean loudness was {means[0][1].value:.2f}."],
            tables=[FindingsTable("Mean loudness", ["Condition", "Mean"], means, "From -3 to 3.")],
            charts=[FindingsChart("mean loudness", means, "loudness", (-3, 3), rule=(0, "equal"))],
            methods={"Loudness": "Mean of the scale."},
            numbers={"louder": louder.value},
        )

    @classmethod
    def simulated_answer(cls, listener, screen, widget, knows, chance):
        return 2.0 if screen.facts["condition"] == "pgd" else -1.0


def loudest(listener: Listener, options: Loudest) -> list[Screen]:
    widget = Widget("loudness", "slide", "How loud is it?", low=-3, high=3)
    made = clips("loudest", listener, options, [widget])
    return [replace(s, facts={**s.facts, "clips_played": len(s.sounds)}) for s in made]
'''

USE = """
import sys
from pathlib import Path

import numpy as np
import soundfile
import yaml

from limen.core.components import names
from limen.listening.simulation.simulate import simulate

assert "loudest" in names("trials")
folder = Path(sys.argv[1])
items = []
for k in range(5):
    files = {c: f"{c}{k}.wav" for c in ("clean", "pgd")}
    for n, file in enumerate(files.values()):
        t = np.arange(4000) / 16000
        soundfile.write(folder / file, 0.1 * np.sin(2 * np.pi * (300 + 40 * k + n) * t), 16000)
    items.append({"id": f"i{k}", "files": files})
study = folder / "study.yaml"
study.write_text(yaml.safe_dump({
    "name": "loud", "seed": 7, "listeners": 4, "items": items, "steps": ["consent", "loudest"],
    "hypotheses": [{"name": "Do they differ?", "trial": "loudest", "kind": "different"}],
}))
simulate(study, 4)
"""


def test_a_trial_type_of_another_package_is_simulated_analysed_and_shown(tmp_path):
    info = tmp_path / "package" / "other-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[limen.trials]\nloudest = other_loudest\n")
    (tmp_path / "package" / "other_loudest.py").write_text(LOUDEST)
    (tmp_path / "use.py").write_text(USE)
    paths = os.pathsep.join([str(tmp_path / "package"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}

    def run(*command):
        done = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    run(str(tmp_path / "use.py"), str(tmp_path))
    printed = run("-m", "limen", "listen", "analyze", str(tmp_path / "study.yaml"), "--simulated")
    # half of the clips were rated 2, half -1
    assert "Loudness: the mean loudness was 0.50." in printed
    page = (tmp_path / "results_simulated.html").read_text(encoding="utf-8")
    for text in (
        "<h2>Loudness</h2>",
        "Mean loudness",
        "loudness: mean",
        "Mean of the scale.",
        "From -3 to 3.",
    ):
        assert text.lower() in page.lower(), text
    assert "pgd minus clean: +3.00" in page
    numbers = (tmp_path / "results_simulated.json").read_text(encoding="utf-8")
    assert '"analysis": "own"' in numbers
    assert '"louder": 0.5' in numbers
    table = tmp_path / "answers.csv"
    run("-m", "limen", "listen", "export", str(tmp_path / "study.yaml"), str(table), "--simulated")
    heading = table.read_text(encoding="utf-8").split("\n")[0].split(",")
    assert "clips_played" in heading
    book = (tmp_path / "answers.codebook.csv").read_text(encoding="utf-8")
    assert "clips_played,number of clips of the screen" in book

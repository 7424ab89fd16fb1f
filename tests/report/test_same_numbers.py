"""One word error rate: every place that shows it for a set shows all errors over all words, and says so."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from limen.cli.app import out
from limen.cli.run_table import print_run
from limen.core.statistics import pooled
from limen.experiments.engine import run
from limen.experiments.file import read_experiment
from limen.report import all_together, build
from limen.report.run import read_run

NET = {"model": {"name": "ctc_small"}, "data": {"name": "digit_strings", "limit": 6}}
LOUD, QUIET = ({"name": "snr", "snr_db": db} for db in (20, 25))
FGSM = {"name": "fgsm", "budget": LOUD}
RATES = [{"name": "wer"}, {"name": "cer"}, {"name": "ser"}, {"name": "fooled"}, {"name": "snr_db"}]
TASKS = [
    {
        "nets": [NET],
        "attacks": [
            None,
            {"name": "random_noise", "budget": QUIET},
            FGSM,
            {"name": "fgsm", "label": "quiet", "budget": QUIET},
            {"name": "pgd", "steps": 3, "budget": QUIET},
        ],
        "metrics": RATES,
    },
    {
        "task": {"name": "constrained_accuracy", "constraint": "snr", "values": [20]},
        "nets": [NET],
        "attacks": [FGSM],
    },
    {"task": {"name": "transfer"}, "nets": [NET], "attacks": [FGSM], "metrics": RATES},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("speech")
    return folder / "run", run(
        read_experiment({"tasks": TASKS, "audit": False}, folder / "a.yaml"), folder / "run"
    )


def test_summary_curve_matrix_terminal_and_page_show_the_same_pooled_rate(
    made: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, summary = made
    cells = {(c["task"], c["labels"]["attack"]): c["summary"] for c in summary["cells"]}
    fgsm = cells["accuracy", "fgsm"]["columns"]
    rows = next(c for c in read_run(folder).done if (c.task, c.attack) == ("accuracy", "fgsm")).rows
    whole = pooled(rows["word_errors"], rows["words"])
    over_clips = sum(rows["wer"]) / len(rows["wer"])
    assert over_clips != pytest.approx(whole["mean"])  # clips differ in length, or this test shows nothing
    assert (fgsm["wer"]["rate"], fgsm["wer"]["low"], fgsm["wer"]["high"]) == (
        whole["mean"],
        whole["low"],
        whole["high"],
    )
    assert (fgsm["wer"]["count"], fgsm["wer"]["total"]) == (sum(rows["word_errors"]), sum(rows["words"]))
    assert fgsm["wer_mean"]["mean"] == pytest.approx(over_clips)
    assert fgsm["ser"]["mean"] == sum(rows["ser"]) / len(rows["ser"])
    curve = cells["constrained_accuracy", "fgsm"]["result"]
    assert (curve["wer"], curve["wer_low"], curve["wer_high"]) == (
        [whole["mean"]],
        [whole["low"]],
        [whole["high"]],
    )
    assert cells["transfer", "fgsm"]["result"]["victims"]["ctc_small"]["wer"] == whole["mean"]
    print_run(summary, folder, out)
    shown = capsys.readouterr().out
    (line,) = [line for line in shown.splitlines() if line.split()[:2] == ["none", "fgsm"]][:1]
    assert f"{100 * whole['mean']:.1f} %" in line
    assert "WER: word error rate of the adversarial sample" in shown
    assert re.search(r"median of .*SNR, dB", shown)
    page = " ".join(
        unescape(re.sub(r"<[^>]+>", " ", build(folder).read_text(encoding="utf-8"))).split()
    ).replace("\u202f", " ")
    assert f"{100 * whole['mean']:.1f} %" in page
    assert "WER errors / words" in page
    assert "SNR, dB median" in page
    assert "rate: word_errors / words" in page


def test_all_attacks_together_are_at_least_as_bad_as_each_of_them(made: tuple[Path, dict[str, Any]]) -> None:
    folder, summary = made
    members = [
        c["summary"]["columns"]
        for c in summary["cells"]
        if c["task"] == "accuracy" and c["labels"]["attack"] in ("fgsm", "quiet", "pgd")
    ]
    loud, quiet = all_together(folder)
    assert [(u["budget"], u["attack"]) for u in (loud, quiet)] == [
        ("SNR ≥ 20 dB", "all attacks together (worst of 3)"),
        ("SNR ≥ 25 dB", "all attacks together (worst of 2)"),
    ]
    for columns in members:
        assert loud["columns"]["wer"]["rate"] >= columns["wer"]["rate"]
        assert loud["columns"]["cer"]["rate"] >= columns["cer"]["rate"]
        assert loud["columns"]["fooled"]["mean"] >= columns["fooled"]["mean"]
    assert loud["columns"]["wer"]["rate"] >= quiet["columns"]["wer"]["rate"]


def test_rows_keep_what_rates_are_made_of(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    names = set(pq.read_table(folder / "rows.parquet").column_names)
    assert {
        "wer",
        "word_errors",
        "words",
        "cer",
        "character_errors",
        "characters",
        "success",
        "already",
        "fooled",
    } <= names


def test_the_terminal_gives_every_victim_of_a_transfer_a_line_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victims = [
        {"model": {"name": "ctc_small"}},
        {"model": {"name": "ctc_small", "decoding": "beam"}, "label": "beam"},
    ]
    task = {
        "task": {"name": "transfer", "victims": victims},
        "nets": [NET],
        "attacks": [FGSM],
        "metrics": RATES,
    }
    summary = run(read_experiment({"tasks": [task], "audit": False}, tmp_path / "a.yaml"), tmp_path / "run")
    found = summary["cells"][0]["summary"]["result"]["victims"]
    print_run(summary, tmp_path / "run", out)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if " fgsm on " in line]
    assert [line[3] for line in lines] == ["ctc_small", "beam"]
    for line in lines:
        assert line[4] == "6"
        assert f"{100 * found[line[3]]['wer']:.1f}" in line

"""Sections: each appears if the run holds its data and is absent otherwise, with the numbers of the rows."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fabricated_run import Fabricated, facts_of, full_run
from speech_run import NETS, SPEECH, curve, curve_rows, garbled, language_rows, speech_run, text_rows

from limen.core.components import load, names
from limen.core.statistics import wilson
from limen.report import build
from limen.report.blocks import Block, Cell, Figure, Folded, Gallery, Panels, Prose, Section, Table
from limen.report.html import draw
from limen.report.page import page_of
from limen.report.parts import Part, parts
from limen.report.run import Run, read_run

LINF = {"name": "linf", "eps": 0.1}
ALWAYS = {"summary", "checks", "environment"}
"""Sections that every run has."""


def made(run: Run, name: str) -> list[Section]:
    """What the section `name` shows of the run: at most one of the run, or one of each part."""
    function = load("sections", name).function
    subjects: list[Any] = parts(run) if "part" in function.__annotations__ else [run]
    return [section for subject in subjects if (section := function(subject)) is not None]


def shown(run: Run) -> set[str]:
    return {name for name in names("sections") if made(run, name)}


def only(run: Run, name: str) -> Section:
    (section,) = made(run, name)
    return section


def blocks(section: Section, kind: type[Any]) -> list[Any]:
    """The blocks of a kind, folded ones too."""
    found: list[Any] = []
    for block in section.blocks:
        inner: list[Block] = list(block.blocks) if isinstance(block, Folded) else [block]
        inner = [b for _, b in block.panels] if isinstance(block, Panels) else inner
        found += [b for b in inner if isinstance(b, kind)]
    return found


def texts(table: Table) -> list[list[str]]:
    """The rows of a table as plain text, without tags and thin spaces."""
    plain = lambda c: re.sub(r"<[^>]+>", "", str(c.text if isinstance(c, Cell) else c)).replace("\u202f", " ")
    return [[plain(cell) for cell in row.cells] for group in table.groups for row in group.rows]


def headings(table: Table) -> list[str]:
    return [heading.text for heading in table.headings]


def closed(run: Fabricated) -> Run:
    return read_run(run.close())


def of(label: int, prediction: int, i: int, **more: Any) -> dict[str, Any]:
    """The row of a digit that was right before the attack."""
    right = label == prediction
    row = {"id": f"d{i}", "label": str(label), "clean_prediction": str(label)}
    row |= {"adversarial_prediction": str(prediction), "success": not right, "correct": float(right)}
    return row | {"clean_correct": 1.0} | more


def test_a_run_without_an_attack_has_results_and_no_section_about_attacks(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(kind="picture", examples=0)
    assert shown(closed(run)) == ALWAYS | {"headline_numbers", "data_sets", "results", "all_metrics"}


def test_an_attack_adds_what_it_may_do_its_examples_and_its_errors(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(kind="picture", attack="pgd", budget=LINF, examples=1)
    clean = {"headline_numbers", "data_sets", "results", "all_metrics"}
    assert shown(closed(run)) == ALWAYS | clean | {"threat_model", "examples", "confusion_matrix"}


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("flags", [{"attack": "deepfool", "rate": 0.5}]),
        ("failed_cells", [{"error": "ValueError: no"}]),
        ("missing_values", [{"attack": "pgd", "budget": LINF}]),
        ("worst_case", [{"attack": "pgd", "budget": LINF}, {"attack": "fgsm", "budget": LINF}]),
        ("distributions", [{"attack": "pgd", "budget": LINF}]),
        ("sweeps", [{"attack": "pgd", "steps": n, "variable": {"attack.steps": n}} for n in (1, 2)]),
        ("sweep_details", [{"attack": "pgd", "steps": n, "variable": {"attack.steps": n}} for n in (1, 2)]),
        ("sweep_curves", [{"attack": "pgd", "steps": n, "variable": {"attack.steps": n}} for n in (1, 2)]),
        ("task_results", [{"task": {"name": "certify"}, "result": {"certified": 0.25}}]),
        ("transcripts", [{**SPEECH, "attack": "pgd", "budget": LINF, "rows": text_rows(["a"], ["b"])}]),
        ("languages", [{**SPEECH, "attack": "pgd", "rows": language_rows("sr", 1.0)}]),
        (
            "constrained_curves",
            [{**SPEECH, "attack": "pgd", "rows": curve_rows(), "result": curve(15.0, 0.3)}],
        ),
        (
            "targeted_attacks",
            [
                {
                    **SPEECH,
                    "attack": "cw",
                    "goal": {"name": "transcript", "text": "b"},
                    "rows": text_rows(["a"], ["b"], "b"),
                }
            ],
        ),
        (
            "model_sizes",
            [
                {**SPEECH, "net": net, "facts": {"parameters": size}, "rows": text_rows(*garbled(0.1))}
                for net, size in NETS.items()
            ],
        ),
    ],
)
def test_a_section_appears_with_its_data_and_not_without(
    tmp_path: Path, name: str, cells: list[dict[str, Any]]
) -> None:
    plain, run = Fabricated(tmp_path / "plain"), Fabricated(tmp_path / "run")
    plain.cell(kind="picture", examples=0)
    assert name not in shown(closed(plain))
    for cell in cells:
        run.cell(**{"examples": 0, **cell})
    assert name in shown(closed(run))


def test_every_section_is_shown_by_the_two_large_runs(tmp_path: Path) -> None:
    """A section that no fabricated run shows would be covered by no test of the page."""
    both = shown(read_run(full_run(tmp_path / "full"))) | shown(read_run(speech_run(tmp_path / "speech")))
    assert set(names("sections")) - both == {"gradient_probes", "training", "task_results"}


def test_anchors_are_unique_and_the_contents_list_every_titled_section(tmp_path: Path) -> None:
    page = page_of(read_run(full_run(tmp_path / "run")))
    anchors = [section.anchor for section in page.sections]
    assert len(set(anchors)) == len(anchors)
    titles = [section.title for section in page.sections if section.title]
    assert titles[0] == "Clips: accuracy under attack"
    assert titles[-4:] == [
        "Attack sanity checks",
        "Failed cells",
        "Missing values",
        "Environment and how to rerun",
    ]
    html = build(tmp_path / "run").read_text(encoding="utf-8")
    contents = re.findall(r'<li><a href="#([^"]+)">', html.split("</nav>")[0])
    assert contents == [section.anchor for section in page.sections if section.title]


def test_the_confusion_matrix_counts_pairs_of_truth_and_prediction(tmp_path: Path) -> None:
    pairs = [(1, 1), (1, 7), (1, 7), (3, 5), (3, 3), (7, 7)]
    run = Fabricated(tmp_path / "run")
    rows = [of(a, b, i) for i, (a, b) in enumerate(pairs)]
    run.cell(kind="picture", attack="pgd", budget=LINF, rows=rows, examples=0)
    (figure,) = blocks(only(closed(run), "confusion_matrix"), Figure)
    assert figure.title == "Confusion matrix"
    (panel,) = figure.panels
    cells = re.findall(r"<title>(\d), (\d): (\d+)</title>", str(panel[1]))
    assert {(int(a), int(b)): int(n) for a, b, n in cells} == Counter(pairs)


def test_a_sweep_has_the_share_of_each_value_and_of_all_attacks_together(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    wrong = {("fgsm", 0.1): {0}, ("pgd", 0.1): {1}, ("fgsm", 0.2): {0, 2}, ("pgd", 0.2): {1, 3}}
    for (attack, eps), those in wrong.items():
        rows = [of(1, 2 if i in those else 1, i, linf=eps) for i in range(8)]
        budget, variable = {"name": "linf", "eps": eps}, {"attack.budget.eps": eps}
        run.cell(kind="picture", attack=attack, budget=budget, variable=variable, rows=rows, examples=0)
    (table,) = blocks(only(closed(run), "sweeps"), Table)
    assert table.title == "Accuracy by attack.budget.eps"
    assert headings(table) == ["Model", "Defence", "Attack", "eps 0.1", "eps 0.2"]
    assert [row[2:] for row in texts(table)] == [
        ["fgsm", "87.5 %", "75.0 %"],
        ["pgd", "87.5 %", "75.0 %"],
        ["all attacks together worst of 2–4", "75.0 %", "50.0 %"],
    ]
    low, high = wilson(7, 8)
    assert table.groups[0].rows[0].cells[3].small == f"{100 * low:.1f}–{100 * high:.1f}"


def test_a_column_that_its_metric_declares_a_headline_is_in_the_table_of_results(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    rows = [of(1, 2, i, linf=0.05, peculiar=float(v), unheard_of=float(v)) for i, v in enumerate((1, 5, 6))]
    run.cell(kind="picture", attack="pgd", budget=LINF, rows=rows, examples=1)
    read = closed(run)
    (table,) = blocks(only(read, "results"), Table)
    assert headings(table)[-2:] == ["L∞", "Peculiarity, %"]
    assert texts(table)[0][-2:] == ["0.05", "5"]  # the budget's own measure, and the median as declared
    assert table.headings[-1].meaning == "how peculiar it is"
    (gallery,) = blocks(only(read, "examples"), Gallery)
    assert ("Peculiarity, %", "1") in gallery.examples[0]["metrics"]
    (everything,) = blocks(only(read, "all_metrics"), Table)
    (row,) = [row for row in texts(everything) if row[1].split()[0] == "unheard_of"]
    assert row[2:] == ["3", "4", "mean", "−2.57–10.6", "5", "0"]


def test_columns_that_need_an_attack_have_a_dash_without_one(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for attack in ("none", "pgd"):
        rows = [of(1, 1, i, snr_db=40.0, pesq=4.5) for i in range(4)]
        run.cell(attack=attack, budget=None if attack == "none" else LINF, rows=rows, examples=0)
    (table,) = blocks(only(closed(run), "results"), Table)
    assert headings(table)[-2:] == ["PESQ", "SNR, dB"]
    assert [row[-2:] for row in texts(table)] == [["–", "–"], ["4.50", "40.0"]]


def test_the_summary_names_the_fall_the_attack_and_the_size_of_the_change(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(net="m5", rows=[of(1, 1, i) for i in range(24)], examples=0)
    rows = [of(1, 1 if i < 2 else 2, i, snr_db=30.0 + i, linf=0.01) for i in range(24)]
    run.cell(net="m5", attack="pgd", budget=LINF, rows=rows, examples=0, seconds=61)
    (lede,) = blocks(only(closed(run), "summary"), Prose)
    text = lede.text.replace("\u202f", " ")
    assert text.startswith(
        "This run applied 1 attack to 1 model: 2 cells, 48 evaluated samples, 1 min 4 s of computing."
    )
    assert "Accuracy of m5 falls from 100.0 % to 8.3 % under pgd at a median SNR of 41.5 dB." in text


def test_the_summary_of_a_recogniser_is_its_word_error_rate_that_rises(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(**SPEECH, rows=text_rows(["one two"] * 4, ["one two"] * 4), examples=0)
    rows = text_rows(["one two"] * 4, ["one six"] * 4)
    run.cell(**SPEECH, attack="pgd", budget={"name": "snr", "snr_db": 30}, rows=rows, examples=0)
    (lede,) = blocks(only(closed(run), "summary"), Prose)
    text = lede.text.replace("\u202f", " ")
    assert (
        "Word error rate of keyword_cnn rises from 0.0 % to 50.0 % under pgd at a median SNR of 31.5 dB."
        in text
    )


def test_missing_values_are_counted_by_metric_and_reason(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for attack, gaps in (("pgd", 3), ("fgsm", 1)):
        rows = [of(1, 2, i, pesq=None if i < gaps else 3.0) for i in range(4)]
        rows = [row | {"missing": {"pesq": "too short"} if row["pesq"] is None else {}} for row in rows]
        run.cell(attack=attack, budget=LINF, rows=rows, examples=0)
    (table,) = blocks(only(closed(run), "missing_values"), Table)
    assert texts(table) == [["pesq", "too short", "4", "2"]]


def test_a_training_has_a_curve_of_each_quantity(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    history = [{"epoch": k, "loss": 2.0 / k, "valid_accuracy": 0.4 * k, "seconds": 3.0} for k in (1, 2)]
    run.cell(task={"name": "train"}, rows=[], examples=0, result={"history": history})
    run.cell(task={"name": "train"}, rows=[], examples=0, result={"history": history[:1]}, task_index=1)
    (figure,) = blocks(only(closed(run), "training"), Figure)
    assert [heading for heading, _ in figure.panels] == ["keyword_cnn: valid_accuracy", "keyword_cnn: loss"]
    assert "valid_accuracy: 40, 80." in str(figure.panels[0][1])
    assert "loss: 2, 1." in str(figure.panels[1][1])


def test_universal_perturbations_have_a_fooling_rate_for_each_class(tmp_path: Path) -> None:
    rates = {"yes": [0.0, 0.5], "no": [0.25, 1.0]}
    result = {"constraint": "l2", "values": [0.1, 0.2], "accuracy": [0.9, 0.3], "by_class": rates, "n": 8}
    for name, count in (("uap", 1), ("pgd", 0)):
        run = Fabricated(tmp_path / name)
        run.cell(
            attack=name,
            budget=LINF,
            rows=[],
            examples=0,
            result=result,
            task={"name": "constrained_accuracy"},
        )
        assert len(made(closed(run), "universal_fooling")) == count
    run = Fabricated(tmp_path / "again")
    run.cell(attack="uap", rows=[], examples=0, result=result, task={"name": "constrained_accuracy"})
    (figure,) = blocks(only(closed(run), "universal_fooling"), Figure)
    assert "yes: 0, 50; no: 25, 100." in str(figure.panels[0][1])


def test_boxes_show_the_quartiles_of_the_rows_by_attack_and_by_class(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    levels = [-50.0, -40.0, -30.0, -20.0]
    rows = [
        {**of(0, 1, i, peak_db=v), "label": label, "clean_prediction": label}
        for i, (v, label) in enumerate(zip(levels, ["yes", "no", "yes", "no"], strict=True))
    ]
    run.cell(attack="pgd", budget=LINF, rows=rows, examples=0)
    by_attack, by_class = blocks(only(closed(run), "distributions"), Figure)
    assert f"pgd, entire clip: median −35.0, quartiles {'−42.5'} and −27.5, n = 4" in str(
        by_attack.panels[0][1]
    )
    assert np.quantile(levels, [0.25, 0.75]).tolist() == [-42.5, -27.5]
    classes = str(by_class.panels[0][1])
    assert "yes, entire clip: median −40.0" in classes
    assert "no, entire clip: median −30.0" in classes


def test_a_diagnostic_task_is_no_result_whatever_its_name(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(kind="picture", examples=0)
    run.cell(
        kind="picture",
        task={"name": "my_probe"},
        attack="pgd",
        budget=LINF,
        examples=0,
        facts={"task_info": {"title": "my probe", "diagnostic": True}},
    )
    read = closed(run)
    assert [c.task for c in read.done] == ["accuracy"]
    assert [c.task for c in read.audits] == ["my_probe"]
    assert len(page_of(read).sections) == 4  # headline numbers, one part, checks, environment


def test_the_title_of_a_part_is_the_one_that_its_task_declares(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    info = {"title": "certified accuracy", "diagnostic": False}
    for index in (0, 1):
        run.cell(
            kind="picture", task={"name": "certify"}, task_index=index, examples=0, facts={"task_info": info}
        )
    titles = [part.title for part in parts(closed(run))]
    assert titles == ["Images: certified accuracy (task 1)", "Images: certified accuracy (task 2)"]


def test_what_attacks_and_budgets_declare_is_in_the_threat_model(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    mine = {"name": "window", "size": 0.25}
    facts = facts_of(LINF) or {}
    facts |= {"name": "window", "option": "size", "value": 0.25, "column": None}
    facts |= {"sentence": "may repaint a quarter", "sentence_template": "may repaint {}"}
    run.cell(kind="picture", attack="repaint", budget=mine, examples=0, facts={"budget_info": facts})
    read = closed(run)
    (threat,) = only(read, "threat_model").blocks[0].pairs  # type: ignore[attr-defined]
    assert threat[0] == "repaint"
    assert "wants any wrong output, and may repaint 0.25; success" in threat[1]


def test_text_from_a_run_is_escaped_in_every_block() -> None:
    nasty = "<script>alert(1)</script>"
    table = Table(nasty, [], [], caption=nasty)
    for block in (Prose(nasty), table, Folded(nasty, [Prose(nasty)]), Figure(nasty, nasty, [])):
        html = str(draw(block))
        assert "<script>" not in html
        assert "&lt;script&gt;" in html


def test_a_section_of_another_package_is_shown_in_its_place(tmp_path: Path) -> None:
    info = tmp_path / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[limen.sections]\nenergy = other_energy\ncolours = other_colours\n"
    )
    (tmp_path / "other_energy.py").write_text(
        '"""Energy that the run took."""\n\n'
        "from limen.report.blocks import Prose, Section\n"
        "from limen.report.run import Run\n\n\n"
        "def energy(run: Run) -> Section | None:\n"
        '    return Section("Energy", [Prose(f"{len(run.cells)} cells <took> 3 kWh.")], order=205)\n'
    )
    (tmp_path / "other_colours.py").write_text(
        '"""Colours of the attacks of a part."""\n\n'
        "from limen.report.blocks import Definitions, Section\n"
        "from limen.report.parts import Part\n\n\n"
        "def colours(part: Part) -> Section | None:\n"
        "    pairs = [(name, str(slot)) for name, slot in part.colours.items()]\n"
        '    return Section("Colours", [Definitions(pairs)], order=25) if pairs else None\n'
    )
    run = Fabricated(tmp_path / "run")
    run.cell(kind="picture", attack="pgd", budget=LINF, examples=0)
    code = f"from pathlib import Path; from limen.report import build; build(Path({str(run.close())!r}))"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", ""), str(Path.cwd())])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": path})
    html = (run.folder / "report.html").read_text(encoding="utf-8")
    headings = re.findall(r"<h[23][^>]*>(.*?)</h[23]>", html)
    at = {
        text: headings.index(text) for text in ("Energy", "Attack sanity checks", "Colours", "Threat model")
    }
    assert at["Attack sanity checks"] < at["Energy"] < headings.index("Environment and how to rerun")
    assert at["Threat model"] < at["Colours"] < headings.index("Results by model, defence and attack")
    assert "1 cells &lt;took&gt; 3 kWh." in html
    assert '<a href="#energy">Energy</a>' in html


def test_the_page_of_a_run_is_the_same_every_time(tmp_path: Path) -> None:
    folder = full_run(tmp_path / "run")
    assert build(folder, tmp_path / "a.html").read_bytes() == build(folder, tmp_path / "b.html").read_bytes()


def test_parts_hold_cells_that_are_compared_with_each_other(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(kind="picture", attack="pgd", budget=LINF, examples=0)
    run.cell(kind="clip", attack="fgsm", budget=LINF, examples=0)
    run.cell(kind="picture", attack="random_noise", budget=LINF, examples=0)
    found: list[Part] = parts(closed(run))
    assert [[c.attack for c in part.cells] for part in found] == [["pgd", "random_noise"], ["fgsm"]]
    assert found[0].colours == found[1].colours == {"pgd": 0, "fgsm": 1, "random_noise": -1}

"""All attacks together: who withstands every attack, counted by id on rows that are known exactly."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fabricated_run import Fabricated, facts_of
from hypothesis import given, settings
from hypothesis import strategies as st
from speech_run import SPEECH

from limen.cli.app import out
from limen.cli.run_table import print_run
from limen.core.statistics import wilson
from limen.experiments.engine import run
from limen.experiments.file import read_experiment
from limen.metrics.base.summary import summarise
from limen.report import all_together, build
from limen.report.run import CellResult, read_run
from limen.report.worst_case.cells import Together, along, together
from limen.report.worst_case.rows import COLUMNS, RATES

LINF = {"name": "linf", "eps": 0.1}
UNITS = {"word": 1, "character": 4}


def rows(
    fooled: set[int],
    *,
    n: int = 8,
    wrong: frozenset[int] | set[int] = frozenset(),
    sizes: dict[int, float] | None = None,
    **more: Any,
) -> list[dict[str, Any]]:
    """n samples; those of `fooled` become wrong, those of `wrong` were it before. `sizes` are their
    L-infinity norms, 0.05 otherwise."""
    out = []
    for i in range(n):
        bad, before = i in fooled, i in wrong
        out.append(
            {
                "id": f"s{i}",
                "label": "1",
                "clean_prediction": "2" if before else "1",
                "adversarial_prediction": "2" if bad else "1",
                "success": bad,
                "clean_correct": float(not before),
                "correct": float(not bad),
                "linf": (sizes or {}).get(i, 0.05),
                **more,
            }
        )
    return out


def found(run: Fabricated) -> list[Together]:
    return together(read_run(run.close()).done)


def picture(run: Fabricated, attack: str, cells: list[dict[str, Any]], **more: Any) -> None:
    run.cell(**{"kind": "picture", "budget": LINF, "examples": 0, **more}, attack=attack, rows=cells)


def test_a_sample_is_robust_only_if_no_attack_fooled_it_and_it_was_right_before(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "fgsm", rows({0, 1}, wrong={7}))
    picture(run, "pgd", rows({1, 2}, wrong={7}))
    picture(run, "square", rows({3}, wrong={7}))
    (union,) = found(run)
    assert [c.attack for c in union.cells] == ["fgsm", "pgd", "square"]
    assert union.n == 8
    assert union.stat("correct") == (3 / 8, *wilson(3, 8))  # 4, 5 and 6
    assert union.stat("success") == (4 / 8, *wilson(4, 8))  # 0, 1, 2 and 3
    assert union.budget == "L∞ ≤ 0.1"


def test_rows_are_matched_by_id_whatever_their_order_and_an_attack_on_other_samples_is_left_out(
    tmp_path: Path,
) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "fgsm", rows({0})[::-1])
    picture(run, "pgd", rows({1}))
    picture(run, "bim", rows({2}, n=6))
    (union,) = found(run)
    assert [c.attack for c in union.cells] == ["fgsm", "pgd"]
    assert (union.n, union.stat("correct")[0]) == (8, 6 / 8)


def test_the_noise_control_is_no_attack_and_one_attack_makes_no_union(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "random_noise", rows({4}))
    picture(run, "pgd", rows({1}))
    assert found(run) == []
    picture(run, "fgsm", rows({2}))
    (union,) = found(run)
    assert [c.attack for c in union.cells] == ["pgd", "fgsm"]
    assert union.stat("correct")[0] == 6 / 8


def test_other_budgets_nets_defences_and_tasks_stay_apart(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "pgd", rows({1}))
    picture(run, "fgsm", rows({2}), budget={"name": "peak_db", "peak_db": -20})
    picture(run, "bim", rows({3}), budget={"name": "l2", "eps": 0.1})
    picture(run, "mi_fgsm", rows({4}), net="other")
    picture(run, "apgd", rows({5}), defense="jpeg")
    picture(run, "fab", rows({6}), data="elsewhere")
    picture(run, "ddn", rows({7}), task_index=1)
    assert found(run) == []


def test_an_attack_without_a_budget_counts_where_its_change_fits(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "pgd", rows({0}))
    # of four fooled samples one changed too much and one says nothing of its size
    small = rows({0, 1, 2, 3}, sizes={1: 0.1, 2: 0.11})
    small[3]["linf"] = None
    picture(run, "cw_l2", small, budget=None)
    (union,) = found(run)
    assert union.stat("correct")[0] == 6 / 8  # 0 by pgd, 1 by cw_l2 at exactly the radius
    assert "cw_l2, samples whose change fits the budget" in build(run.folder).read_text(encoding="utf-8")


def test_the_radius_that_an_attack_for_the_smallest_change_begins_with_is_no_budget(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "pgd", rows({0}))
    picture(run, "cw", rows({0, 1, 2}, sizes={2: 0.11}), budget=None, eps=0.05)
    picture(
        run, "wasserstein", rows({3}), budget=None, eps=0.05, own_limit=True
    )  # this eps is a limit of its own kind
    (union,) = found(run)
    assert [c.attack for c in union.cells] == ["pgd", "cw"]
    assert union.stat("correct")[0] == 6 / 8


def test_without_a_column_of_its_size_such_an_attack_is_left_out(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "pgd", rows({0}), budget={"name": "l2", "eps": 1.0})
    picture(run, "deepfool", rows({1}), budget=None)
    assert found(run) == []


def test_a_larger_snr_is_a_smaller_change(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for attack, fooled, budget, level in (
        ("pgd", {0}, {"name": "snr", "snr_db": 30}, 30.0),
        ("cw_l2", {1}, None, 31.0),
        ("deepfool", {2}, None, 29.0),
    ):
        run.cell(attack=attack, budget=budget, rows=rows(fooled, snr_db=level), examples=0)
    (union,) = found(run)
    assert union.stat("correct")[0] == 6 / 8
    assert union.budget == "SNR ≥ 30 dB"


def test_each_value_of_a_sweep_has_its_union_and_what_the_sweep_does_not_concern_stands_beside_all(
    tmp_path: Path,
) -> None:
    run = Fabricated(tmp_path / "run")
    for eps, more in ((0.1, set()), (0.2, {4, 5})):
        swept = {"budget": {"name": "linf", "eps": eps}, "variable": {"attack.budget.eps": eps}}
        picture(run, "fgsm", rows({0} | more), **swept)
        picture(run, "pgd", rows({1} | more), **swept)
    picture(run, "cw_l2", rows({2, 3}, sizes={3: 0.15}), budget=None)
    unions = found(run)
    assert [(u.variable["attack.budget.eps"], len(u.cells), u.stat("correct")[0]) for u in unions] == [
        (0.1, 3, 5 / 8),
        (0.2, 5, 2 / 8),
    ]
    page = " ".join(
        unescape(re.sub(r"<[^>]+>", " ", build(run.folder).read_text(encoding="utf-8"))).split()
    ).replace("\u202f", " ")
    assert re.search(r"all attacks together worst of 3–5 62\.5 % 30\.6–86\.3 25\.0 %", page)
    assert (
        "Wide line: all attacks together, right only if no attack made the prediction wrong; attacks of "
        "smaller budgets count too." in page
    )


def test_an_attack_without_the_swept_option_makes_no_union_of_its_own(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "fgsm", rows({0}))
    picture(run, "r_fgsm", rows({1}))
    for steps in (10, 40):
        picture(run, "pgd", rows({2}), steps=steps, variable={"attack.steps": steps})
    assert [(u.variable, len(u.cells)) for u in found(run)] == [
        ({"attack.steps": 10}, 3),
        ({"attack.steps": 40}, 3),
    ]


def test_success_is_told_only_of_attacks_that_want_the_same(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "pgd", rows({0}))
    picture(run, "bim", rows({1}), goal={"name": "target_class", "target": 2})
    (union,) = found(run)
    assert "success" not in union.columns
    assert union.stat("correct")[0] == 6 / 8


def test_of_each_clip_the_most_word_errors_of_any_attack_count(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for attack, errors in (("pgd", [0, 3, 1]), ("genetic", [1, 2, 0])):
        cells = [
            {
                "id": f"c{i}",
                "label": "one two three four",
                "clean_prediction": "one two three four",
                "adversarial_prediction": "x",
                "success": e > 0,
                "correct": float(e == 0),
                "wer": e / 4,
                "word_errors": float(e),
                "words": 4.0,
                "clean_word_errors": 2.0 if i == 2 else 0.0,
            }
            for i, e in enumerate(errors)
        ]
        run.cell(**SPEECH, attack=attack, budget={"name": "snr", "snr_db": 30}, rows=cells, examples=0)
    (union,) = found(run)
    mean, low, high = union.stat("wer")
    assert mean == pytest.approx((1 + 3 + 2) / 12)  # two words of the last clip were wrong before
    assert low is not None
    assert high is not None
    assert low <= mean <= high
    assert union.stat("correct")[0] == 0


def test_curves_under_a_constraint_are_taken_together_at_each_value(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for attack, fooled in (("fgsm", {0.1: {0}, 0.2: {0, 1}}), ("pgd", {0.1: {2}, 0.2: {0, 2}})):
        cells = [row | {"value": v} for v, those in fooled.items() for row in rows(those)]
        result = {
            "constraint": "linf",
            "values": [0.1, 0.2],
            "accuracy": [7 / 8, 6 / 8],
            "low": [0.5, 0.4],
            "high": [1.0, 0.9],
            "n": 8,
        }
        picture(run, attack, cells, task={"name": "constrained_accuracy", "how": "auto"}, result=result)
    (whole,) = along(read_run(run.close()).done)
    assert whole.values == [0.1, 0.2]
    assert whole.column("correct")[0] == [6 / 8, 5 / 8]
    assert "all attacks together: 75, 62" in build(run.folder).read_text(encoding="utf-8")
    (plain,) = all_together(run.folder)
    assert (plain["attack"], plain["accuracy"]) == ("all attacks together (worst of 2)", [6 / 8, 5 / 8])


def test_what_a_smaller_size_has_done_a_larger_one_can_do_too(tmp_path: Path) -> None:
    for constraint, values in (("linf", [0.1, 0.2, 0.3]), ("snr_db", [40.0, 30.0, 20.0])):
        run = Fabricated(tmp_path / constraint)
        for attack, fooled in (("fgsm", [{0}, set(), {1}]), ("pgd", [{2}, {3}, set()])):
            cells = [
                row | {"value": v} for v, those in zip(values, fooled, strict=True) for row in rows(those)
            ]
            result = {
                "constraint": constraint,
                "values": values,
                "accuracy": [7 / 8] * 3,
                "low": [0.5] * 3,
                "high": [1.0] * 3,
                "n": 8,
            }
            picture(run, attack, cells, task={"name": "constrained_accuracy", "how": "auto"}, result=result)
        (whole,) = along(read_run(run.close()).done)
        accuracy = dict(zip(whole.values, whole.column("correct")[0], strict=True))
        assert [accuracy[v] for v in values] == [6 / 8, 5 / 8, 4 / 8]


def test_the_page_shows_the_union_beside_the_single_attacks_with_its_interval(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(kind="picture", rows=rows(set()), examples=0)
    picture(run, "fgsm", rows({0, 1}))
    picture(run, "pgd", rows({1, 2, 3}))
    page = build(run.close()).read_text(encoding="utf-8").replace("\u202f", " ")
    (row,) = re.findall(r'<tr class="together">(.*?)</tr>', page, re.S)
    text = " ".join(unescape(re.sub(r"<[^>]+>", " ", row)).split())
    assert text.startswith("none all attacks together worst of 2 L∞ ≤ 0.1 8 50.0 % 21.5–78.5 50.0 % 4 of 8")
    assert "fgsm, pgd" in row
    assert "and to 50.0 % under all attacks within this budget together (worst of 2)." in page
    assert "All attacks within this budget together (worst of 2): <b>50.0 %</b>" in page


def test_the_terminal_shows_the_union_of_a_real_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = {"model": {"name": "cnn"}, "data": {"name": "digits", "limit": 8}}
    attacks = [{"name": name, "budget": LINF} for name in ("fgsm", "pgd")]
    curve = {"name": "constrained_accuracy", "constraint": "linf", "values": [0.05, 0.1]}
    tasks = [
        {"nets": [net], "attacks": attacks, "metrics": [{"name": "correct"}]},
        {"task": curve, "nets": [net], "attacks": attacks},
    ]
    summary = run(read_experiment({"tasks": tasks, "audit": False}, tmp_path / "a.yaml"), tmp_path / "run")
    print_run(summary, tmp_path / "run", out)
    shown = " ".join(capsys.readouterr().out.split())
    fooled = [
        set(np.flatnonzero(np.array(c.rows["correct"]) == 0)) for c in read_run(tmp_path / "run").done[:2]
    ]
    right = 1 - len(fooled[0] | fooled[1]) / 8
    assert f"all attacks together (worst of 2), L∞ ≤ 0.1 8 {100 * right:.1f} %" in shown
    assert re.search(
        r"cnn \| none \| all attacks together \(worst of 2\), accuracy by linf 0.05: \d+ % 0.1: "
        rf"{100 * right:.0f} %",
        shown,
    )


def test_an_attack_under_a_smaller_budget_belongs_to_every_larger_one_of_its_kind(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    picture(run, "pgd", rows({0}), budget={"name": "linf", "eps": 0.05})
    picture(run, "pgd", rows({1}))
    picture(run, "fgsm", rows({2}))
    picture(run, "bim", rows({3}), budget={"name": "linf", "eps": 0.2})
    picture(run, "ddn", rows({4}), budget={"name": "l2", "eps": 0.01})
    unions = found(run)
    assert [(u.budget, [c.attack for c in u.cells], u.stat("correct")[0]) for u in unions] == [
        ("L∞ ≤ 0.1", ["pgd", "pgd", "fgsm"], 5 / 8),
        ("L∞ ≤ 0.2", ["pgd", "pgd", "fgsm", "bim"], 4 / 8),
    ]
    assert "pgd under L∞ ≤ 0.05, pgd, fgsm" in build(run.folder).read_text(encoding="utf-8")


def test_a_smaller_snr_is_a_larger_budget_and_one_attack_at_several_is_no_union(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for i, snr_db in enumerate((40, 30, 20)):
        run.cell(attack="pgd", budget={"name": "snr", "snr_db": snr_db}, rows=rows({i}), examples=0)
    assert found(run) == []
    run.cell(attack="fgsm", budget={"name": "snr", "snr_db": 30}, rows=rows({3}), examples=0)
    assert [(u.budget, len(u.cells), u.stat("correct")[0]) for u in found(run)] == [
        ("SNR ≥ 30 dB", 3, 5 / 8),
        ("SNR ≥ 20 dB", 4, 4 / 8),
    ]


def test_success_is_told_of_those_attacks_that_want_what_the_ones_under_the_budget_itself_want(
    tmp_path: Path,
) -> None:
    run = Fabricated(tmp_path / "run")
    mine = lambda fooled: [
        row | {"already": row["id"] == "s7", "success": row["success"] and row["id"] != "s7"}
        for row in rows(fooled | {7}, wrong={7})
    ]
    small = {"name": "linf", "eps": 0.05}
    picture(run, "pgd", mine({0}))
    picture(run, "fgsm", mine({2}), budget=small)
    picture(run, "bim", mine({1}), goal={"name": "target_class", "target": 2}, budget=small)
    (union,) = [u for u in found(run) if u.budget == "L∞ ≤ 0.1"]
    assert union.stat("success") == (2 / 7, *wilson(2, 7))  # of the seven that were right before
    assert union.stat("correct")[0] == 4 / 8
    picture(run, "apgd", rows({0, 7}))  # which has s7 right before any attack
    (union,) = [u for u in found(run) if u.budget == "L∞ ≤ 0.1"]
    assert "success" not in union.columns


TABLES = st.integers(1, 8).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 6), min_size=n, max_size=n),  # words of each clip
        st.lists(st.integers(0, 8), min_size=n, max_size=n),  # errors before any attack
        st.lists(
            st.tuples(
                st.sampled_from([20.0, 25.0, 30.0]), st.lists(st.integers(0, 12), min_size=n, max_size=n)
            ),
            min_size=2,
            max_size=5,
        ),
    )
)
"""Words, clean errors, and for each attack its budget and its errors."""


@settings(max_examples=200, deadline=None)
@given(TABLES)
def test_no_attack_does_worse_to_the_model_than_all_together_in_any_column(
    table: tuple[list[int], list[int], list[tuple[float, list[int]]]],
) -> None:
    words, before, attacks = table
    cells = []
    for k, (snr_db, errors) in enumerate(attacks):
        table_rows = []
        for i, (w, b, e) in enumerate(zip(words, before, errors, strict=True)):
            row: dict[str, Any] = {
                "id": f"c{i}",
                "label": "a",
                "clean_prediction": "a" if b == 0 else "b",
                "adversarial_prediction": "a" if e == 0 else "b",
                "already": b > 0,
                "success": e > 0 and b == 0,
                "clean_correct": float(b == 0),
                "correct": float(e == 0),
                "fooled": float(b != e),
            }
            for unit, scale in UNITS.items():
                counts = {f"{unit}_errors": e, f"clean_{unit}_errors": b, f"{unit}s": w}
                row |= {name: float(scale * count) for name, count in counts.items()}
            table_rows.append(row | {rate: e / w if w else None for rate in RATES})
        budget = {"name": "snr", "snr_db": snr_db}
        meta = {
            "id": str(k),
            "status": "done",
            "task": "accuracy",
            "output": "transcript",
            "labels": {"net": "n", "attack": f"a{k}"},
            "spec": {"attack": {"name": f"a{k}", "budget": budget}},
            "budget_info": facts_of(budget),
        }
        cell = CellResult(Path("nowhere"), meta, {"n": len(words), "columns": summarise(table_rows, COLUMNS)})
        cell.rows = {name: [row[name] for row in table_rows] for name in table_rows[0]}
        cells.append(cell)
    for union in together(cells):
        assert union.cells == [c for c in cells if c.budget["snr_db"] >= union.limit["snr_db"]]
        for member in union.cells:
            for name, column in COLUMNS.items():
                theirs, ours = member.stat(name)[0], union.stat(name)[0]
                assert (theirs is None) == (ours is None)
                if theirs is not None and ours is not None:
                    assert ours <= theirs + 1e-12 if column.better == "higher" else ours >= theirs - 1e-12

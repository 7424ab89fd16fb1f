"""What the report says: numbers, threat models, checks, and clear mistakes."""

import io
import json
import re
from base64 import b64decode
from html import unescape
from pathlib import Path

import numpy as np
import pytest
import soundfile
from fabricated_run import Fabricated, full_run
from PIL import Image

from limen.core.errors import UserError
from limen.report import build
from limen.report.checks.base import Check
from limen.report.checks.run import run_checks
from limen.report.embedded.example import show
from limen.report.formatting import duration, fmt, interval
from limen.report.run import read_run
from limen.report.svg.lines import Scale, log_ticks, ticks
from limen.report.threats import threats

LINF = {"name": "linf", "eps": 8 / 255}


def text_of(page: Path) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page.read_text(encoding="utf-8"))).split())


def checks_of(run: Fabricated) -> dict[str, Check]:
    return {check.name: check for check in run_checks(read_run(run.close()).cells)}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return full_run(tmp_path_factory.mktemp("full") / "run")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    run = Fabricated(tmp_path / "run")
    run.cell(examples=0)
    run.cell(attack="pgd", budget=LINF, examples=1)
    return run.close()


def test_the_page_is_written_whole_or_not_at_all(tmp_path: Path, small: Path) -> None:
    assert build(small) == small / "report.html"
    other = build(small, tmp_path / "elsewhere" / "page.html")
    assert other.read_bytes() == (small / "report.html").read_bytes()
    assert not list(tmp_path.rglob("*.part"))


def test_nothing_on_the_page_points_outside(tmp_path: Path, full: Path) -> None:
    page = build(full, tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?:https?:)?//""", page)


def test_the_number_of_examples_and_their_size_can_be_limited(tmp_path: Path, full: Path) -> None:
    count = lambda **limits: (
        build(full, tmp_path / "page.html", **limits).read_text(encoding="utf-8").count("<article")
    )
    attacked = sum(1 for c in read_run(full).done if c.attack != "none" and c.examples)
    assert count(examples=1, megabytes=100) == attacked
    assert count(examples=2, megabytes=100) == 2 * attacked
    assert count(examples=0) == 0
    assert 0 < count(examples=3, megabytes=1) < 3 * attacked


@pytest.mark.parametrize(
    "missing",
    [
        "summary.json",
        "config.json",
        "environment.json",
        "cells/000000000000/cell.json",
        "cells/000000000001/summary.json",
        "cells/000000000001/rows.parquet",
    ],
)
def test_an_incomplete_folder_is_a_clear_mistake(small: Path, missing: str) -> None:
    (small / missing).unlink()
    with pytest.raises(UserError, match=re.escape(Path(missing).name)) as caught:
        build(small)
    assert "--resume" in str(caught.value)
    assert not (small / "report.html").exists()


def test_no_folder_and_broken_files_are_clear_mistakes(tmp_path: Path, small: Path) -> None:
    with pytest.raises(UserError, match="limen run"):
        build(tmp_path / "nowhere")
    (small / "summary.json").write_text("{")
    with pytest.raises(UserError, match="is damaged"):
        build(small)
    (small / "summary.json").write_text(json.dumps({"cells": [{}]}))
    with pytest.raises(UserError, match="each with an id"):
        build(small)


def test_a_run_folder_of_an_older_version_is_a_clear_mistake(small: Path) -> None:
    path = small / "cells/000000000001/cell.json"
    meta = json.loads(path.read_text())
    del meta["attack_info"]
    path.write_text(json.dumps(meta))
    with pytest.raises(
        UserError, match=r"cell\.json has no attack_info: the run folder is from an older version"
    ):
        build(small)


def test_the_table_holds_the_numbers_of_the_summaries(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    rows = [
        {
            "id": str(i),
            "label": "1",
            "clean_prediction": "1",
            "adversarial_prediction": "2",
            "success": i < 3,
            "correct": float(i >= 3),
            "linf": 0.02 + i / 100,
        }
        for i in range(8)
    ]
    run.cell(kind="picture", attack="pgd", budget=LINF, rows=rows, examples=0)
    page = text_of(build(run.close()))
    assert "62.5 %" in page.replace("\u202f", " ")  # 5 of 8 still right
    assert "37.5 %" in page.replace("\u202f", " ")  # 3 of 8 fooled
    assert "30.6–86.3" in page  # Wilson interval of 5 of 8
    assert "0.055" in page  # median of 0.02 ... 0.09


def test_the_worst_case_is_the_strongest_attack_that_has_a_budget(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(rate=1.0)
    run.cell(attack="random_noise", budget=LINF, rate=0.0)
    run.cell(attack="cw_l2", rate=0.0)
    run.cell(attack="fgsm", budget=LINF, rate=0.7)
    run.cell(attack="pgd", budget=LINF, rate=0.2)
    page = build(run.close()).read_text(encoding="utf-8")
    worst = re.findall(r'<tr class="worst[^"]*">.*?<th scope="row">(\w+)', page, re.S)
    assert worst == ["pgd"]


def test_threat_models_are_said_in_words(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(kind="picture", attack="pgd", budget=LINF)
    run.cell(kind="picture", attack="pgd", budget=LINF, defense="jpeg")
    run.cell(kind="picture", attack="cw_l2", goal={"name": "target_class", "target": 3, "among": None})
    run.cell(attack="snr", budget={"name": "snr", "snr_db": 30}, defense="mp3", on_defense=False)
    run.cell(
        output="transcript",
        attack="say",
        goal={"name": "transcript", "text": "open the door"},
        budget={"name": "peak_db", "peak_db": -32},
    )
    run.cell(attack="random_noise", budget={"name": "l2", "eps": 0.1})
    said = {t.attacks[0]: t.sentence for t in threats(read_run(run.close()).cells)}
    assert said["pgd"] == (
        "The attacker knows the model and the defence (white box), wants any wrong output, and may change "
        "each value by at most 0.0314 (8/255); success is judged on the values as stored."
    )
    assert "wants the class 3" in said["cw_l2"]
    assert "as much as it needs" in said["cw_l2"]
    assert said["snr"].startswith("The attacker knows the model but not the defence")
    assert "at least 30 dB below the signal; success is judged on 16-bit audio as stored." in said["snr"]
    assert "“open the door”" in said["say"]
    assert "knows nothing" in said["random_noise"]


def audited(probes: dict[str, float] | None = None, **other: object) -> dict[str, object]:
    """A cell of the task audit: an honest model's, but for what is said."""
    honest = {
        "clean": 0.0,
        "noise": 0.0,
        "one_step": 0.4,
        "many_steps": 0.6,
        "no_gradients": 0.5,
        "undefended": 0.4,
        "transfer": 0.3,
        "anything_allowed": 1.0,
    }
    result = {
        "probes": honest | (probes or {}),
        "steps": [0, 1, 10, 40],
        "loss": [0.1, 0.5, 2.0, 2.5],
        "reached": [0, 0.1, 0.5, 0.6],
        "zero_gradients": 0.0,
        "broken_gradients": 0.0,
        "gradient_norms": [0.1, 1.0, 8.0],
        "random": False,
        "differs": 0.0,
        "draws": 1,
        "others": ["other"],
        "n": 60,
    } | other
    rows = [{"id": f"speaker{i:03d}_nohash_0", "label": "yes", "many_steps": i < 36} for i in range(60)]
    return {
        "attack": "audit",
        "task": {"name": "audit", "samples": 60},
        "budget": LINF,
        "result": result,
        "rows": rows,
        "examples": 0,
    }


def test_an_honest_run_raises_no_flag(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for eps, rate in ((0.01, 0.8), (0.03, 0.4), (0.1, 0.0)):
        budget, variable = {"name": "linf", "eps": eps}, {"attack.budget.eps": eps}
        run.cell(attack="random_noise", budget=budget, variable=variable, rate=1.0)
        run.cell(attack="fgsm", budget=budget, variable=variable, rate=rate + 0.15)
        run.cell(attack="pgd", budget=budget, variable=variable, rate=rate, steps=40)
    run.cell(
        attack="pgd",
        defense="crop_rescale",
        budget=LINF,
        rate=0.0,
        steps=40,
        facts={"random": True, "draws": 16},
    )
    run.cell(attack="cw_l2", rate=0.0)
    run.cell(attack="pgd", budget=LINF, rate=0.0, steps=40)
    run.cell(**audited())
    assert {name: check.status for name, check in checks_of(run).items()} == dict.fromkeys(
        checks_of(run), "pass"
    )


def test_each_fault_raises_its_flag_and_no_other(tmp_path: Path) -> None:
    faults = {
        "Noise control": [
            {"attack": "random_noise", "budget": LINF, "rate": 0.4},
            {"attack": "pgd", "budget": LINF, "rate": 0.6, "steps": 40},
        ],
        "Many steps beat one": [
            {"attack": "fgsm", "budget": LINF, "rate": 0.2},
            {"attack": "pgd", "budget": LINF, "rate": 0.7, "steps": 40},
        ],
        "The attack knows the defence": [
            {"attack": "pgd", "budget": LINF, "defense": "jpeg", "rate": 0.1, "on_defense": False}
        ],
        "Gradients are finite and not zero": [{"attack": "pgd", "budget": LINF, "rate": 0.1, "dead": 0.25}],
        "Accuracy falls with the budget": [
            {
                "attack": "pgd",
                "budget": {"name": "linf", "eps": e},
                "variable": {"attack.budget.eps": e},
                "rate": r,
            }
            for e, r in ((0.1, 0.1), (0.2, 0.5))
        ],
        "Random models are averaged": [
            {
                "attack": "pgd",
                "budget": LINF,
                "defense": "crop_rescale",
                "rate": 0.1,
                "facts": {"random": True, "draws": 1},
            }
        ],
        "Unbounded attacks always succeed": [{"attack": "deepfool", "rate": 0.2}],
        "Gradients beat other searches": [audited({"no_gradients": 0.8})],
        "The loss rises with the steps": [audited(loss=[0.1, 2.5, 2.0, 0.4])],
        "The attacks match a plain search": [
            {"attack": "pgd", "budget": LINF, "rate": 0.9, "steps": 40},
            audited(),
        ],
    }
    for number, (name, cells) in enumerate(faults.items()):
        run = Fabricated(tmp_path / str(number))
        for cell in cells:
            run.cell(**{**cell, "examples": 0})
        checks = checks_of(run)
        assert [c.name for c in checks.values() if c.status == "flag"] == [name]
        assert name in text_of(build(run.folder))
    assert set(checks) == set(faults)


def test_probes_raise_the_flags_that_cells_raise_too(tmp_path: Path) -> None:
    faults = {
        "Noise control": audited({"noise": 0.6}),
        "Many steps beat one": audited({"one_step": 0.9}),
        "Gradients are finite and not zero": audited(gradient_norms=[1e-9, 1.0, 1e9]),
        "Random models are averaged": audited(random=True, differs=1.0),
        "Unbounded attacks always succeed": audited({"anything_allowed": 0.9}),
        "Gradients beat other searches": audited({"undefended": 0.8}),
        "The loss rises with the steps": audited(loss=[0.1, 0.1, 0.05, 0.0]),
    }
    for number, (name, cell) in enumerate(faults.items()):
        run = Fabricated(tmp_path / str(number))
        run.cell(**cell)
        assert [c.name for c in checks_of(run).values() if c.status == "flag"] == [name]


def test_each_probe_of_gradients_and_answers_has_its_own_words(tmp_path: Path) -> None:
    faults = {
        "25.0 % of the gradients were zero.": audited(zero_gradients=0.25),
        "1.0 % of the gradients were not finite (NaN or infinite).": audited(broken_gradients=0.01),
        "gradients explode: the largest is 10⁹ times": audited(gradient_norms=[1e-9, 1.0, 1e9]),
        "its output differs on 40.0 % of the samples": audited(differs=0.4),
        "the attack of another net (other) ends with 90.0 % at the goal": audited({"transfer": 0.9}),
    }
    for number, (words, cell) in enumerate(faults.items()):
        run = Fabricated(tmp_path / str(number))
        run.cell(**cell)
        (flag,) = [flag for check in checks_of(run).values() for flag in check.flags]
        assert words.replace("10⁹", "1·10⁹") in flag.replace("\u202f", " ")


def test_what_an_honest_model_may_do_raises_no_flag(tmp_path: Path) -> None:
    fair = [
        # robust, and wrong on some samples as they are
        audited(
            dict.fromkeys(
                ("clean", "noise", "one_step", "many_steps", "no_gradients", "undefended", "transfer"), 0.3
            )
        ),
        audited(zero_gradients=0.05),
        audited(random=True, differs=1.0, draws=16),
        audited(loss=[0.1, 0.5, 2.5, 2.45]),
        audited(loss=[None, None, None, None]),
    ]
    for number, cell in enumerate(fair):
        run = Fabricated(tmp_path / str(number))
        run.cell(**cell)
        assert [c.name for c in checks_of(run).values() if c.status == "flag"] == []
        build(run.folder)


def test_a_search_without_the_nets_gradients_that_wins_is_flagged(tmp_path: Path) -> None:
    proxy = {
        "attack": "pgd on other",
        "attack_name": "pgd",
        "surrogate": {"models": [{"name": "other"}]},
        "steps": 40,
    }
    for number, (rate, status) in enumerate(((0.5, "pass"), (0.1, "flag"))):
        for blind in (proxy, {"attack": "square", "queries": 500}):
            run = Fabricated(tmp_path / f"{number}{blind['attack']}")
            run.cell(attack="pgd", budget=LINF, rate=0.3, steps=40, examples=0)
            rows = [
                {
                    "id": str(i),
                    "label": "yes",
                    "clean_prediction": "yes",
                    "adversarial_prediction": "yes" if i < 60 * rate else "no",
                    "success": i >= 60 * rate,
                    "correct": float(i < 60 * rate),
                    "forward_calls": 500,
                    "backward_calls": 40 if blind is proxy else 0,
                    "dead_gradients": 0,
                }
                for i in range(60)
            ]
            run.cell(**blind, budget=LINF, rows=rows, examples=0)
            check = checks_of(run)["Gradients beat other searches"]
            assert (check.status, check.compared) == (status, 1)
            assert status == "pass" or blind["attack"] in check.flags[0]


def test_an_attack_that_transfers_better_than_it_works_at_home_is_flagged(tmp_path: Path) -> None:
    for number, (away, status) in enumerate(((0.5, "pass"), (0.95, "flag"))):
        run = Fabricated(tmp_path / str(number))
        for proxy, victim in (("cnn", "mlp"), ("mlp", "cnn")):
            victims = {
                proxy: {"success": 0.8, "n": 40},
                victim: {"success": away if victim == "mlp" else 0.2, "n": 40},
            }
            run.cell(
                net=proxy,
                attack="pgd",
                budget=LINF,
                task={"name": "transfer"},
                rows=[],
                examples=0,
                result={"proxy": proxy, "victims": victims},
            )
        check = checks_of(run)["Gradients beat other searches"]
        assert (check.status, check.compared) == (status, 2)
        assert status == "pass" or check.flags == [
            "mlp: pgd computed on cnn succeeds on 95.0\u202f%, computed on itself on 80.0\u202f%."
        ]


def test_samples_that_were_wrong_before_are_not_held_against_the_attack(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    rows = [
        {
            "id": str(i),
            "label": "yes",
            "clean_prediction": "no" if i < 6 else "yes",
            "adversarial_prediction": "no" if i < 6 else "yes",
            "success": False,
            "already": i < 6,
            "clean_correct": float(i >= 6),
            "correct": float(i >= 6),
        }
        for i in range(60)
    ]
    for attack in ("random_noise", "pgd"):
        run.cell(attack=attack, budget=LINF, rows=rows, examples=0)
    assert checks_of(run)["Noise control"].status == "pass"


def test_the_page_shows_what_each_probe_fooled_and_the_loss_on_the_way(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(attack="pgd", budget=LINF, examples=0)
    run.cell(**audited())
    page = text_of(build(run.close()))
    assert "many steps" in page
    assert "anything allowed" in page
    assert "Attack loss against steps" in page
    assert "keyword_cnn · undefended 60" in page


def test_a_larger_snr_is_a_smaller_budget(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    for snr_db, rate in ((40, 0.9), (30, 0.5), (20, 0.0)):
        run.cell(
            attack="pgd",
            budget={"name": "snr", "snr_db": snr_db},
            variable={"attack.budget.snr_db": snr_db},
            rate=rate,
            examples=0,
        )
    assert checks_of(run)["Accuracy falls with the budget"].status == "pass"


def test_curves_that_never_fall_are_flagged_unless_they_are_the_control(tmp_path: Path) -> None:
    flat = {
        "constraint": "l2",
        "values": [0.1, 0.2, 0.4],
        "accuracy": [0.9, 0.9, 0.9],
        "low": [0.8] * 3,
        "high": [0.95] * 3,
        "n": 50,
    }
    for attack, status in (("pgd", "flag"), ("random_noise", "not run")):
        run = Fabricated(tmp_path / attack)
        run.cell(
            attack=attack,
            budget=LINF,
            task={"name": "constrained_accuracy", "how": "auto"},
            rows=[],
            examples=0,
            result=flat,
        )
        assert checks_of(run)["Accuracy falls with the budget"].status == status


def test_missing_metrics_are_counted_with_their_reasons(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    run.cell(attack="pgd", budget=LINF, n=24, examples=0)  # two of twenty-four clips are silence
    run.cell(attack="fgsm", budget=LINF, n=36, examples=0)  # three of thirty-six
    assert re.search(r"pesq no speech was found in the clip 5 2\b", text_of(build(run.close())))


def test_the_perturbation_of_a_picture_is_shown_with_the_factor_that_fits(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    cell_id = run.cell(kind="picture", attack="pgd", budget=LINF, examples=1)
    folder = run.folder / "cells" / cell_id / "examples"
    x = np.full((9, 9, 3), 100, np.uint8)
    x_adv = x.copy()
    x_adv[0, 0], x_adv[8, 8] = 110, 93
    Image.fromarray(x).save(folder / "0_clean.png")
    Image.fromarray(x_adv).save(folder / "0_adversarial.png")
    cell = read_run(run.close()).cells[0]
    change = show(cell, cell.examples[0])["panels"][1]
    assert change["note"] == "×\u00a08"  # 8 x 10 grey levels fit in 127, 16 x 10 do not
    pixels = np.asarray(Image.open(io.BytesIO(b64decode(change["image"].split(",")[1]))))
    assert pixels[0, 0].tolist() == [207] * 3
    assert pixels[8, 8].tolist() == [71] * 3
    assert pixels[4, 4].tolist() == [127] * 3


def test_a_tone_stands_at_its_frequency_in_the_spectrogram(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    cell_id = run.cell(attack="pgd", budget=LINF, examples=1)
    folder = run.folder / "cells" / cell_id / "examples"
    tone = 0.5 * np.sin(2 * np.pi * 2000 * np.arange(16000) / 16000)
    for role in ("clean", "adversarial"):
        soundfile.write(folder / f"0_{role}.wav", tone, 16000, subtype="PCM_16")
    cell = read_run(run.close()).cells[0]
    panels = show(cell, cell.examples[0])["panels"]
    levels = np.asarray(Image.open(io.BytesIO(b64decode(panels[0]["image"].split(",")[1]))))
    loudest = levels.astype(int).sum(1).argmax()
    assert abs((95.5 - loudest) / 96 * 8000 - 2000) < 100  # rows run from 8 kHz down to 0
    silent = np.asarray(Image.open(io.BytesIO(b64decode(panels[1]["image"].split(",")[1]))))
    assert silent.max() == 0


def test_example_files_outside_the_cell_are_not_read(tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    cell_id = run.cell(kind="picture", attack="pgd", budget=LINF, examples=1)
    Image.new("L", (4, 4)).save(tmp_path / "secret.png")
    path = run.folder / "cells" / cell_id / "examples.json"
    example = json.loads(path.read_text())
    example[0]["files"]["clean"] = "../../../secret.png"
    path.write_text(json.dumps(example))
    assert "No file for: clean." in text_of(build(run.close()))


def test_numbers_are_written_one_way() -> None:
    assert fmt(0.974, "%") == "97.4\u202f%"
    assert fmt(-33.46, "1f") == "−33.5"
    assert fmt(0.00001234) == "1.23·10⁻⁵"
    assert fmt(12345, "n") == "12\u202f345"
    assert fmt(None) == fmt(float("nan")) == "–"
    assert fmt(float("inf")) == "∞"
    assert interval(0.941, 0.989) == "94.1–98.9"
    assert interval(None, 0.9) == ""
    assert [duration(s) for s in (3.21, 119.6, 7260)] == ["3.2 s", "2 min 0 s", "2 h 1 min"]


def test_axes_have_round_ticks() -> None:
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(-47, -12, 6) == [-40, -30, -20]
    assert ticks(3, 3) == [3]
    assert log_ticks(0.01, 0.3) == pytest.approx([0.01, 0.02, 0.05, 0.1, 0.2])
    scale = Scale(0.01, 1.0, 0.0, 200.0, log=True)
    assert scale(0.1) == pytest.approx(100)

"""A run folder as the engine writes it, made up from a seed: pictures, clips and transcripts, several
attacks, sweeps, curves, failures."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import soundfile
from PIL import Image

from limen.budgets.families.options import budget_facts, budget_info
from limen.core.components import load, names, parse
from limen.core.statistics import wilson
from limen.metrics.base.apply import columns_of
from limen.metrics.base.metric import Column
from limen.metrics.base.summary import summarise as summarised
from limen.tasks.base.columns import TASK_COLUMNS, all_columns

COMMANDS = ["yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go", "unknown", "silence"]
DIGITS = [str(d) for d in range(10)]
SENTENCES = [
    "seven two nine",
    "one one four zero",
    "please turn the light off",
    "nine eight",
    "six three five two",
]
DECLARED = columns_of(*names("metrics")) | TASK_COLUMNS
DECLARED |= {
    "peculiar": Column("how peculiar it is", heading="Peculiarity, %", format="0f", headline=True),
}
"""The columns of all metrics, and one that no metric has."""

CURVES = {"snr_db": "snr"}
"""Constraint of a curve -> its budget, if the names differ."""


def curve_facts(constraint: str) -> dict[str, Any]:
    return budget_facts(load("budgets", CURVES.get(constraint, constraint)))


def facts_of(budget: dict[str, Any] | None) -> dict[str, Any] | None:
    """As the engine writes them; None for a budget that no component has."""
    known = budget is not None and budget["name"] in names("budgets")
    return budget_info(parse("budgets", budget)) if known else None


def summarise(rows: list[dict[str, Any]], kind: str | None, output: str | None) -> dict[str, Any]:
    """As the engine does."""
    rows = [{k: v for k, v in row.items() if k not in ("missing", "value")} for row in rows]
    return summarised(rows, all_columns(rows, DECLARED), kind, output)


TITLES = {"accuracy": "accuracy under attack", "constrained_accuracy": "accuracy under a constraint"}


class Fabricated:
    def __init__(self, folder: Path, name: str = "demo", seed: int = 0):
        self.folder, self.name, self.cells = folder, name, []  # type: ignore[var-annotated]
        self.random = np.random.default_rng(seed)
        (folder / "cells").mkdir(parents=True)
        (folder / "config.json").write_text(
            json.dumps({"name": name, "seed": 0, "tasks": [{"task": {"name": "accuracy"}}]})
        )
        environment = {
            "limen": "0.1.0",
            "git": "0f3c" * 10,
            "python": "3.11.2",
            "torch": "2.9.0",
            "platform": "Linux-6.1",
            "cores": 2,
            "command": "limen run experiments/demo.yaml",
            "started": "2026-03-01 10:00:00",
        }
        (folder / "environment.json").write_text(json.dumps(environment))
        (folder / "log.txt").write_text("started\n")

    def cell(
        self,
        *,
        net: str = "keyword_cnn",
        data: str = "spoken_words",
        kind: str | None = "clip",
        output: str | None = "class",
        defense: str = "none",
        attack: str = "none",
        attack_name: str | None = None,
        budget: dict[str, Any] | None = None,
        goal: dict[str, Any] | None = None,
        rate: float = 0.9,
        n: int = 60,
        db: float = -38.0,
        variable: dict[str, Any] | None = None,
        task: dict[str, Any] | None = None,
        task_index: int = 0,
        error: str | None = None,
        examples: int = 3,
        result: dict[str, Any] | None = None,
        rows: list[dict[str, Any]] | None = None,
        ids: list[str] | None = None,
        dead: float = 0.0,
        seconds: float = 3.2,
        facts: dict[str, Any] | None = None,
        on_defense: bool = True,
        own_limit: bool = False,
        **attack_options: Any,
    ) -> str:
        """Write one cell; `rate` is the accuracy of its adversarial answers."""
        number = len(self.cells)
        cell_id = f"{number:012x}"
        folder = self.folder / "cells" / cell_id
        folder.mkdir()
        classes = None if output != "class" else COMMANDS if kind == "clip" else DIGITS
        spec_attack = (
            None
            if attack == "none"
            else {
                "name": attack_name or attack,
                **attack_options,
                "goal": goal or {"name": "untargeted", "away_from": "label"},
                "budget": budget,
            }
        )
        task = task or {"name": "accuracy", "limit_samples": None}
        spec = {
            "task": task,
            "net": {"model": {"name": net, "weights": "zoo"}, "data": {"name": data}},
            "defense": None if defense == "none" else [{"name": defense}],
            "attack": spec_attack,
            "metrics": None,
            "attack_on_defense": on_defense,
            "seed": 0,
            "store": "auto",
            "examples": examples,
        }
        meta = {
            "id": cell_id,
            "order": number,
            "task": task["name"],
            "task_index": task_index,
            "labels": {"net": net, "data": data, "defense": defense, "attack": attack},
            "variable": variable,
            "spec": spec,
            "status": "failed" if error else "done",
            "error": error,
            "seconds": seconds,
            "kind": None if error else kind,
            "output": output,
            "classes": classes,
            "rate_hz": 16000 if kind == "clip" else None,
            "random": False,
            "draws": 1,
            "stored_as": "int16" if kind == "clip" else "float",
            "task_info": {
                "title": TITLES.get(task["name"], task["name"]),
                "diagnostic": task["name"] == "audit",
            },
            "budget_info": facts_of(budget),
            "attack_info": None
            if attack == "none"
            else self._attack_info(attack_name or attack, budget, goal, own_limit),
            **(facts or {}),
        }
        if result and "constraint" in result:
            result = result | {"budget_info": curve_facts(result["constraint"])}
        if rows is None:
            rows = (
                []
                if error
                else [self._row(i, kind, output, classes, attack, rate, db, ids, dead) for i in range(n)]
            )
        shown = (
            []
            if error
            else [self._example(folder, k, row, kind, db) for k, row in enumerate(rows[:examples])]
        )
        (folder / "cell.json").write_text(json.dumps(meta))
        (folder / "summary.json").write_text(
            json.dumps({"n": len(rows), "columns": summarise(rows, kind, output), "result": result or {}})
        )
        (folder / "examples.json").write_text(json.dumps(shown))
        names = list(dict.fromkeys(k for row in rows for k in row))
        pq.write_table(
            pa.table(
                {
                    k: [
                        json.dumps(r[k])
                        if k == "missing" and r[k]
                        else r.get(k) or None
                        if k == "missing"
                        else r.get(k)
                        for r in rows
                    ]
                    for k in names
                }
            ),
            folder / "rows.parquet",
        )
        self.cells.append({**meta, "summary": {"n": len(rows), "columns": {}, "result": {}}})
        return cell_id

    def _attack_info(self, name: str, budget: Any, goal: Any, own_limit: bool) -> dict[str, bool]:
        control, universal = name == "random_noise", name in ("uap", "uap_hc")
        return {
            "universal": universal,
            "minimal": budget is None and not (control or universal or own_limit),
            "own_limit": own_limit,
            "searches": not control,
            "uses_gradients": not control,
            "targeted": bool(goal) and goal["name"] != "untargeted" and not control,
        }

    def close(self) -> Path:
        content = {
            "name": self.name,
            "description": "Spoken commands, digits and a recogniser under attack.",
            "cells": self.cells,
        }
        (self.folder / "summary.json").write_text(json.dumps(content))
        return self.folder

    def _row(
        self,
        i: int,
        kind: Any,
        output: Any,
        classes: Any,
        attack: str,
        rate: float,
        db: float,
        ids: Any,
        dead: float,
    ) -> dict[str, Any]:
        draw = self.random
        right = (
            i + 0.5
        ) * 0.6180339887498949 % 1 < rate  # evenly spread, so that the rate is met whatever the draws
        if classes:
            label = classes[i % len(classes)]
            said = label if right else classes[(i + 1 + int(draw.integers(len(classes) - 1))) % len(classes)]
        else:
            label = SENTENCES[i % len(SENTENCES)]
            words = label.split()
            said = (
                label
                if right
                else " ".join(
                    [
                        "two" if draw.random() < 0.5 else w
                        for w in words[: max(1, len(words) - int(draw.integers(0, 2)))]
                    ]
                )
            )
        row: dict[str, Any] = {
            "id": ids[i % len(ids)] if ids else f"speaker{i:03d}_nohash_0",
            "label": label,
            "clean_prediction": label,
            "adversarial_prediction": said,
        }
        if attack != "none":
            row |= {
                "success": not right,
                "forward_calls": 41,
                "backward_calls": 1 if attack == "fgsm" else 40,
                "dead_gradients": round(40 * dead),
            }
        row |= {"clean_correct": 1.0, "correct": float(said == label), "fooled": float(said != label)}
        missing: dict[str, str] = {}
        if output == "class":
            row |= {"clean_confidence": 0.97, "confidence": float(0.5 + draw.random() / 2)}
        else:
            errors = 0 if said == label else int(draw.integers(3, 15))
            row |= {"wer": errors / 10, "word_errors": float(errors), "clean_word_errors": 0.0, "words": 10.0}
        size = 10 ** (db / 20)
        row |= {
            "l2": None if attack == "none" else float(size * draw.uniform(2, 4)),
            "linf": None if attack == "none" else float(size * draw.uniform(0.9, 1)),
            "dissimilarity_l2": 0.0 if attack == "none" else float(size * draw.uniform(0.5, 1)),
        }
        if kind == "clip":
            for part, offset in (("", 0.0), ("_vocal", 1.0), ("_background", 14.0)):
                for stem, lower in (("peak_db", 0.0), ("mean_db", 12.0)):
                    row[stem + part] = (
                        None if attack == "none" else float(db + offset - lower + draw.normal(0, 3.0))
                    )
            row |= {
                "snr_db": None if attack == "none" else float(-db - 6 + draw.normal(0, 2)),
                "stoi": float(draw.uniform(0.8, 1)),
                "pesq": float(draw.uniform(1.5, 4.4)),
            }
            if label == "silence":
                row["pesq"], missing["pesq"] = None, "no speech was found in the clip"
            if attack == "none":
                missing["snr_db"] = "nothing was changed"
        return {**row, "missing": missing}

    def _example(self, folder: Path, k: int, row: dict[str, Any], kind: Any, db: float) -> dict[str, Any]:
        (folder / "examples").mkdir(exist_ok=True)
        ending = "wav" if kind == "clip" else "png"
        files = {role: f"examples/{k}_{role}.{ending}" for role in ("clean", "perturbation", "adversarial")}
        (self._sound if kind == "clip" else self._picture)(folder, files, db)
        keep = ("id", "label", "clean_prediction", "adversarial_prediction", "success")
        return {
            **{key: row.get(key) for key in keep},
            "files": files,
            "metrics": {k: v for k, v in row.items() if k not in keep and k != "missing"},
        }

    def _sound(self, folder: Path, files: dict[str, str], db: float) -> None:
        t = np.arange(16000) / 16000
        pitch = self.random.uniform(90, 220) * (1 + 0.15 * np.sin(2 * np.pi * 2 * t))
        phase = 2 * np.pi * np.cumsum(pitch) / 16000
        voice = sum(
            np.sin(h * phase) * np.exp(-(((h * 150 - f) / 500) ** 2))
            for h in range(1, 24)
            for f in (600, 1500, 2600)
        )
        x = voice * np.exp(-(((t - 0.45) / 0.16) ** 2)) + 0.01 * self.random.normal(size=16000)
        x *= 0.6 / np.abs(x).max()
        change = np.sin(2 * np.pi * (800 + 2500 * t) * t) * 0.6 * 10 ** (db / 20)
        for role, wave in (("clean", x), ("perturbation", change), ("adversarial", x + change)):
            soundfile.write(folder / files[role], np.clip(wave, -1, 1), 16000, subtype="PCM_16")

    def _picture(self, folder: Path, files: dict[str, str], db: float) -> None:
        a, b = np.mgrid[0:28, 0:28]
        x = np.clip(1.2 - abs(np.hypot(a - 14, (b - 14) * self.random.uniform(1, 1.7)) - 8) / 2.2, 0, 1)
        change = self.random.choice([-1.0, 1.0], size=(28, 28)) * 0.1
        for role, pixels in (
            ("clean", x),
            ("perturbation", change / 2 + 0.5),
            ("adversarial", np.clip(x + change, 0, 1)),
        ):
            Image.fromarray((pixels * 255).round().astype(np.uint8)).save(folder / files[role])


def full_run(folder: Path) -> Path:
    """About 30 cells of every kind, with faults for each check to find."""
    run = Fabricated(folder)
    peak = {"name": "peak_db", "peak_db": -32}
    for defense, kept in (("none", 0.0), ("low_pass", 0.25), ("mp3", 0.4)):
        run.cell(defense=defense, rate=0.97 - kept / 8)
        run.cell(defense=defense, attack="random_noise", budget=peak, rate=0.93 - kept / 8, db=-32)
        run.cell(defense=defense, attack="fgsm", budget=peak, rate=0.35 + kept / 2, db=-32)
        run.cell(
            defense=defense,
            attack="pgd",
            budget=peak,
            steps=40,
            rate=0.04 + kept,
            db=-34,
            on_defense=defense != "mp3",
        )
        run.cell(defense=defense, attack="cw_l2", steps=100, rate=0.0 if defense == "none" else 0.12, db=-44)
    grid = np.linspace(0.02, 0.4, 9)
    rates = {
        name: [float(1 / (1 + math.exp(-(v - 0.08 - 0.012 * k) * 30))) for v in grid]
        for k, name in enumerate(COMMANDS)
    }
    run.cell(
        attack="uap_hc",
        rate=0.5,
        db=-30,
        task={"name": "constrained_accuracy", "how": "auto"},
        task_index=4,
        result={
            "constraint": "l2",
            "values": grid.tolist(),
            "accuracy": [1 - sum(rates[name][k] for name in COMMANDS) / 12 for k in range(9)],
            "low": None,
            "high": None,
            "by_class": rates,
            "n": 60,
        },
    )
    for eps in (0.01, 0.03, 0.1, 0.3):
        for attack, slope in (("random_noise", 0.3), ("fgsm", 1.6), ("pgd", 4.0)):
            rate = 0.98 * math.exp(-slope * eps * 4) if (attack, eps) != ("pgd", 0.3) else 0.5
            run.cell(
                net="digits_cnn",
                data="digits",
                kind="picture",
                attack=attack,
                budget={"name": "linf", "eps": eps},
                variable={"attack.budget.eps": eps},
                rate=rate,
                n=100,
                db=20 * math.log10(eps),
                task_index=1,
                dead=0.4 if (attack, eps) == ("fgsm", 0.3) else 0.0,
                **({"steps": 40} if attack == "pgd" else {}),
            )
    run.cell(net="digits_cnn", data="digits", kind="picture", rate=0.98, n=100, task_index=1)
    run.cell(
        net="digits_cnn",
        data="digits",
        kind="picture",
        defense="crop_rescale",
        attack="pgd",
        budget={"name": "linf", "eps": 0.1},
        rate=0.6,
        n=100,
        db=-20,
        steps=40,
        task_index=1,
        facts={"random": True, "draws": 1},
    )
    values = [0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06]
    for attack, slope in (("random_noise", 2.0), ("pgd", 60.0), ("deepfool", 45.0)):
        curve = [0.98 * math.exp(-slope * v) for v in values]
        low, high = zip(*(wilson(100 * a, 100) for a in curve), strict=True)
        rows = [
            {
                "id": f"d{i}",
                "label": "1",
                "clean_prediction": "1",
                "adversarial_prediction": "2",
                "value": v,
                "correct": 0.0,
                "fooled": 1.0,
            }
            for v in values
            for i in range(4)
        ]
        run.cell(
            net="digits_cnn",
            data="digits",
            kind="picture",
            attack=attack,
            task={
                "name": "constrained_accuracy",
                "constraint": "dissimilarity",
                "values": values,
                "how": "auto",
            },
            task_index=2,
            rows=rows,
            examples=0,
            budget=None if attack == "deepfool" else {"name": "linf", "eps": 0.1},
            result={
                "constraint": "dissimilarity",
                "values": values,
                "accuracy": curve,
                "low": low,
                "high": high,
                "fooling_rate": curve,
                "by_class": {},
                "n": 100,
            },
        )
    run.cell(net="tiny_ctc", data="digit_strings", output="transcript", rate=0.9, n=30, task_index=3)
    run.cell(
        net="tiny_ctc",
        data="digit_strings",
        output="transcript",
        attack="pgd",
        goal={"name": "transcript", "text": "open the door"},
        budget={"name": "snr", "snr_db": 20},
        rate=0.1,
        n=30,
        db=-26,
        task_index=3,
        steps=100,
    )
    run.cell(
        net="digits_cnn",
        attack="cw_l2",
        error="RuntimeError: Expected all tensors to be on the same device, but found at least two devices",
        task_index=1,
    )
    return run.close()

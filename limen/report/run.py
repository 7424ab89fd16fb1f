"""The run folder, read: cells with their rows, summaries and examples. The format is the third seam of
docs/architecture.md."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from limen.core.atomic import read_json
from limen.core.errors import UserError
from limen.metrics.base.summary import figure

DECLARED = ("task_info", "attack_info", "budget_info")
"""What cell.json holds about the components of a cell; null if it has none of the kind."""


@dataclass
class CellResult:
    """One net under one defence and one attack."""

    folder: Path
    meta: dict[str, Any]
    summary: dict[str, Any] = field(default_factory=dict)
    examples: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        labels = self.meta.get("labels") or {}
        self.id = str(self.meta["id"])
        self.task = str(self.meta.get("task") or "task")
        self.task_index = int(self.meta.get("task_index") or 0)
        self.net = str(labels.get("net") or "model")
        self.defense = str(labels.get("defense") or "none")
        self.attack = str(labels.get("attack") or "none")
        variable = self.meta.get("variable") or labels.get("variable") or {}
        self.variable: dict[str, Any] = variable if isinstance(variable, dict) else {"variable": variable}
        self.kind: str | None = self.meta.get("kind")
        self.output: str | None = self.meta.get("output")
        self.classes: list[str] = [str(c) for c in self.meta.get("classes") or []]
        self.spec: dict[str, Any] = self.meta.get("spec") or {}
        self.done = self.meta.get("status") == "done"
        self.error = str(self.meta.get("error") or "")
        self.seconds = float(self.meta.get("seconds") or 0)
        self.task_info: dict[str, Any] = self.meta.get("task_info") or {}
        self.attack_info: dict[str, Any] = self.meta.get("attack_info") or {}
        self.budget_info: dict[str, Any] = self.meta.get("budget_info") or {}
        self.columns: dict[str, dict[str, Any]] = self.summary.get("columns") or {}
        self.result: dict[str, Any] = self.summary.get("result") or {}
        self.n = int(self.curve.get("n") or self.summary.get("n") or 0)

    @property
    def attack_spec(self) -> dict[str, Any]:
        return component(self.spec.get("attack"))

    @property
    def budget(self) -> dict[str, Any]:
        return component(self.attack_spec.get("budget"))

    @property
    def limit(self) -> dict[str, Any]:
        """What the attacker may change: the budget, or the numbers that an attack with a limit of its own was
        given. {} if there is no limit, as for attacks that seek the smallest change."""
        if self.budget or not self.attack_info.get("own_limit"):
            return self.budget
        return {k: v for k, v in self.attack_spec.items() if number(v) is not None and k != "draws"}

    @property
    def goal(self) -> dict[str, Any]:
        return component(self.attack_spec.get("goal")) or {"name": "untargeted"}

    @property
    def diagnostic(self) -> bool:
        """True if the cell tests the attack on a model instead of evaluating the model."""
        return bool(self.task_info.get("diagnostic"))

    @property
    def targeted(self) -> bool:
        """True if the attack wants one answer of each sample."""
        return bool(self.attack_info.get("targeted"))

    @property
    def rated_by(self) -> str:
        """The column that measures the model's performance: the word error rate of a recogniser if it was
        measured, else accuracy."""
        return "wer" if self.output == "transcript" and self.value("wer") is not None else "correct"

    @property
    def proxies(self) -> list[str]:
        """Names of the other nets that the attack was computed on; [] if it saw the net itself."""
        surrogate = component(self.attack_spec.get("surrogate"))
        return [str(component(m).get("name")) for m in surrogate.get("models") or []]

    @property
    def control(self) -> bool:
        """True for random noise: what a change of the same size does by chance."""
        info = self.attack_info
        return bool(info) and not (info.get("searches", True) or info.get("own_limit"))

    @property
    def queries(self) -> bool:
        """True if the attack evaluated the model and took no gradient."""
        evaluated, gradients = self.value("forward_calls"), self.value("backward_calls")
        return gradients == 0 and bool(evaluated) and not self.universal

    @property
    def universal(self) -> bool:
        """True if one perturbation serves all samples."""
        return bool(self.attack_info.get("universal"))

    @property
    def curve(self) -> dict[str, Any]:
        """Accuracy at each value of a constraint (task constrained_accuracy), else {}. Its rows repeat every
        sample at every value."""
        return (
            self.result
            if "accuracy" in self.result and "values" in self.result and "constraint" in self.result
            else {}
        )

    @property
    def curve_info(self) -> dict[str, Any]:
        """What the constraint of the curve declares: heading, larger_is_stronger, nothing_at, sentence."""
        found = self.curve.get("budget_info")
        return found if isinstance(found, dict) else {}

    @property
    def victims(self) -> dict[str, dict[str, Any]]:
        """How the attack computed on this net does against each net (task transfer), else {}. Its rows repeat
        every sample."""
        found = self.result.get("victims")
        return {str(k): v for k, v in found.items() if isinstance(v, dict)} if isinstance(found, dict) else {}

    @property
    def rerun(self) -> bool:
        """True if the curve comes from attacks run anew at each value, not from one perturbation made larger
        and smaller."""
        how = component(self.spec.get("task")).get("how", "auto")
        return how == "budget" or (how == "auto" and bool(self.budget) and not self.universal)

    @property
    def sees_defense(self) -> bool:
        return self.spec.get("attack_on_defense") is not False

    def stat(self, column: str) -> tuple[float | None, float | None, float | None]:
        """The number of a column with its 95 % interval: the mean or share, of error rates all errors over
        all words."""
        value, low, high = figure(self.columns[column]) if column in self.columns else (None, None, None)
        return number(value), number(low), number(high)

    def value(self, column: str) -> float | None:
        return self.stat(column)[0]

    def median(self, column: str) -> float | None:
        return number(self.columns.get(column, {}).get("median"))

    @cached_property
    def rows(self) -> dict[str, list[Any]]:
        """Column -> values, one per sample."""
        import pyarrow.parquet as pq

        path = self.folder / "rows.parquet"
        if not path.is_file():
            raise UserError(
                f"The run folder is incomplete: {path} is missing. Run the experiment again with --resume."
            )
        return pq.read_table(path).to_pydict()

    def values(self, column: str) -> list[float | None]:
        """A column as numbers; None if it is missing or not finite."""
        return [number(v) for v in self.rows.get(column, [])]


@dataclass
class Run:
    folder: Path
    name: str
    config: dict[str, Any]
    environment: dict[str, Any]
    cells: list[CellResult]
    description: str = ""
    examples: int = 3
    """At most this number of examples of each cell is embedded in the page."""
    megabytes: float = 6.5
    """Size to which the examples fill the page."""

    @property
    def done(self) -> list[CellResult]:
        return [c for c in self.cells if c.done and not c.diagnostic]

    @property
    def audits(self) -> list[CellResult]:
        """Probes of the models' gradients: they show whether the results can be trusted."""
        return [c for c in self.cells if c.done and c.diagnostic]

    @property
    def failed(self) -> list[CellResult]:
        return [c for c in self.cells if not c.done]


def component(value: Any) -> dict[str, Any]:
    """A component of an experiment file, "pgd" or {"name": "pgd", ...}, as a mapping; nothing is {}."""
    if not value:
        return {}
    return dict(value) if isinstance(value, dict) else {"name": str(value)}


def number(value: Any) -> float | None:
    """A finite float, or None."""
    if isinstance(value, bool | int | float) and math.isfinite(value):
        return float(value)
    return None


def read_run(folder: Path) -> Run:
    """Read a run folder; a UserError names what is missing."""
    if not folder.is_dir():
        raise UserError(
            f"There is no run folder {folder}. A run folder is what `limen run EXPERIMENT` writes."
        )
    summary = read_json(folder / "summary.json", dict)
    listed = summary.get("cells")
    if not isinstance(listed, list) or not all(isinstance(c, dict) and c.get("id") for c in listed):
        raise UserError(
            f"{folder / 'summary.json'} must hold a list `cells`, each with an id. Run the experiment again "
            "with --resume."
        )
    cells = [_read_cell(folder / "cells" / str(c["id"])) for c in listed]
    config = read_json(folder / "config.json", dict)
    return Run(
        folder,
        str(summary.get("name") or folder.resolve().name),
        config,
        read_json(folder / "environment.json", dict),
        sorted(cells, key=lambda c: (c.task_index, c.meta.get("order") or 0)),
        str(summary.get("description") or ""),
    )


def _read_cell(folder: Path) -> CellResult:
    meta = read_json(folder / "cell.json", dict)
    if meta.get("status") != "done":
        return CellResult(folder, {"id": folder.name, **meta})
    for name in DECLARED:
        if name not in meta:
            raise UserError(
                f"{folder / 'cell.json'} has no {name}: the run folder is from an older version of Limen. "
                "Run the experiment again, into another folder."
            )
    path = folder / "examples.json"
    examples = read_json(path, list) if path.is_file() else []
    return CellResult(folder, {"id": folder.name, **meta}, read_json(folder / "summary.json"), examples)

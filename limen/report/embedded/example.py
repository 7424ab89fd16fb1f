"""One example for the page: its predictions, metrics, transcripts, and the panels with pictures or
players."""

from typing import Any

from limen.report.columns import headlines
from limen.report.embedded.choose import ROLES, find
from limen.report.embedded.clip import clip_panels
from limen.report.embedded.picture import picture_panels
from limen.report.formatting import fmt
from limen.report.run import CellResult
from limen.report.transcripts import align_words

CONFIDENCE = {"clean": "clean_confidence", "adversarial": "confidence"}
"""Role -> the column with the probability of the predicted class."""


def show(cell: CellResult, example: dict[str, Any]) -> dict[str, Any]:
    """The data of one example, as the block Gallery takes it."""
    paths = {role: find(cell, example, role) for role in ROLES}
    metrics = example.get("metrics") or {}
    shown: dict[str, Any] = {
        "id": str(example.get("id", "")),
        "label": _text(example.get("label")),
        "success": bool(example.get("success")),
        "already": bool(example.get("already")),
        "answers": {
            "clean": _text(example.get("clean_prediction")),
            "adversarial": _text(example.get("adversarial_prediction")),
        },
        "metrics": _metrics(cell, metrics),
        "confidence": {
            role: fmt(metrics[k], "%") for role, k in CONFIDENCE.items() if _number(metrics.get(k))
        },
        "missing": [role for role in ("clean", "adversarial") if paths[role] is None],
        "panels": [],
    }
    if cell.output == "transcript":
        goal = cell.goal if cell.targeted and cell.goal["name"] == "transcript" else {}
        target = metrics.get("target") or goal.get("text")
        texts = shown["answers"]
        shown["compared"] = align_words(cell, shown["label"], texts["clean"], texts["adversarial"], target)
    if not shown["missing"]:
        shown["panels"] = clip_panels(paths) if cell.kind == "clip" else picture_panels(paths)
    return shown


def _metrics(cell: CellResult, metrics: dict[str, Any]) -> list[tuple[str, str]]:
    """The headline columns that are numbers of single samples, not shares of a set."""
    columns = [c for c in headlines([cell]) if c.stat.get("figure") != "share"]
    return [(c.heading, fmt(metrics[c.name], c.format)) for c in columns if _number(metrics.get(c.name))]


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def _text(value: Any) -> str:
    return "" if value is None else str(value)

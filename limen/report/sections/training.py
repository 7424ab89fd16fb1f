"""Loss and accuracy of a training after each epoch."""

from typing import Any

from markupsafe import Markup

from limen.report.blocks import Figure, Section
from limen.report.formatting import fmt
from limen.report.parts import Part
from limen.report.run import number
from limen.report.svg.lines import Series, line_chart

NOT_DRAWN = ("epoch", "seconds", "rate", "lr")


def training(part: Part) -> Section | None:
    panels: list[tuple[str, Markup]] = []
    for cell in part.cells:
        history = cell.result.get("history")
        if isinstance(history, list) and len(history) > 1:
            panels += [panel for shares in (True, False) if (panel := _panel(cell.net, history, shares))]
    return Section(blocks=[Figure("Training", "One point per epoch.", panels)], order=110) if panels else None


def _panel(net: str, history: list[dict[str, Any]], shares: bool) -> tuple[str, Markup] | None:
    """The accuracies, or everything else, of each epoch."""
    known = [k for k in history[0] if all(number(epoch.get(k)) is not None for epoch in history)]
    names = [k for k in known if k not in NOT_DRAWN and ("accuracy" in k) == shares]
    if not names:
        return None
    epochs = list(range(1, len(history) + 1))
    series = [Series(k, epochs, [float(epoch[k]) for epoch in history], slot=j) for j, k in enumerate(names)]
    label = "Accuracy, %" if shares else "Loss"
    scale: dict[str, Any] = {}
    if not shares:
        top = max(v for s in series for v in s.y if v is not None) * 1.05 or 1.0
        scale = {"y_range": (0.0, top), "y_text": fmt}
    chart = line_chart(series, title=f"{label}: {net}", x_label="epoch", y_label=label, **scale)
    return f"{net}: {', '.join(names)}", chart

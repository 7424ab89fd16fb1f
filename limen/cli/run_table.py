"""Tables of a run on the terminal: one per net, with the headline columns of its cells, and its curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from limen.cli.options import varied_text
from limen.metrics.base.metric import formatted
from limen.metrics.base.summary import typical
from limen.report import all_together

Summaries = Mapping[str, Mapping[str, Any]]
"""Column -> its summary, as the run folder holds it."""


def print_run(summary: Mapping[str, Any], folder: Path, console: Console) -> None:
    """Print a short table per net, and a line per curve; all attacks of a budget together have their own."""
    unions = all_together(folder)
    results = [c for c in summary["cells"] if not c["task_info"]["diagnostic"]]
    curves = [c for c in results if "values" in c["summary"]["result"]]
    cells = [c for c in results if c not in curves]
    for net in dict.fromkeys(c["labels"]["net"] for c in cells):
        of_net = [u for u in unions if u["net"] == net and "values" not in u]
        _print_net(net, [c for c in cells if c["labels"]["net"] == net], of_net, console)
    lines = [(c["labels"], c["summary"]["result"]) for c in curves]
    for labels, curve in [*lines, *((u, u) for u in unions if "values" in u)]:
        points = zip(curve["values"], curve["accuracy"], strict=True)
        text = "  ".join(f"{value:g}: {100 * accuracy:.0f} %" for value, accuracy in points)
        name = " | ".join(labels[k] for k in ("net", "defense", "attack"))
        console.print(f"  {name}, accuracy by {curve['constraint']}  {text}", soft_wrap=True)


def _print_net(
    net: str, cells: Sequence[dict[str, Any]], unions: Sequence[dict[str, Any]], console: Console
) -> None:
    headlines = _headlines(cells)
    varied = any(cell["variable"] for cell in cells)
    table = Table(box=None, header_style="bold", title=net, title_justify="left", title_style="bold")
    for name in ("defense", "attack", *(["varied"] if varied else [])):
        table.add_column(name, overflow="fold")  # wrapped if the table is too wide; numbers never are
    for name in ("n", *(column["heading"] for column in headlines.values())):
        table.add_column(name, no_wrap=True, justify="right")
    for cell in cells:
        labels = cell["labels"]
        for attack, n, columns in _lines(cell):
            row = [labels["defense"], attack, *([varied_text(cell["variable"])] if varied else [])]
            if cell["status"] == "failed":
                table.add_row(*row, "failed", cell["error"][:60])
            else:
                shown = _without_attack(columns) if labels["attack"] == "none" else columns
                table.add_row(*row, str(n), *_values(headlines, shown))
    for union in unions:
        under = "" if any("budget" in path for path in union["variable"]) else f", {union['budget']}"
        name = union["attack"] + under
        row = [union["defense"], name, *([varied_text(union["variable"])] if varied else [])]
        table.add_row(*row, str(union["n"]), *_values(headlines, union["columns"]))
    console.print(table)
    console.print(f" {_legend(headlines)}", style="dim", soft_wrap=True)


def _headlines(cells: Sequence[dict[str, Any]]) -> Summaries:
    """The headline columns of any of the cells: shares and rates first."""
    columns = {
        name: column
        for cell in cells
        for name, column in cell["summary"]["columns"].items()
        if column["headline"]
    }
    return dict(sorted(columns.items(), key=lambda item: item[1]["figure"] not in ("share", "rate")))


def _lines(cell: dict[str, Any]) -> list[tuple[str, int, Summaries]]:
    """Attack, number of samples and columns: one line per cell, and per victim of a transfer."""
    attack, summary = cell["labels"]["attack"], cell["summary"]
    victims = summary["result"].get("victims") or {}
    if len(victims) > 1:
        return [(f"{attack} on {name}", v["n"], v["columns"]) for name, v in victims.items()]
    return [(attack, summary["n"], summary["columns"])]


def _without_attack(columns: Summaries) -> Summaries:
    return {name: column for name, column in columns.items() if not column["needs_attack"]}


def _values(headlines: Summaries, columns: Summaries) -> list[str]:
    return [
        formatted(typical(columns[name])[1] if name in columns else None, headline["format"])
        for name, headline in headlines.items()
    ]


def _legend(headlines: Summaries) -> str:
    """What the numbers are: the meaning of shares and rates; of the others, which figure is shown."""
    texts = [
        f"{c['heading']}: {c['meaning']}" for c in headlines.values() if c["figure"] in ("share", "rate")
    ]
    for figure in ("mean", "median"):
        if names := [c["heading"] for c in headlines.values() if c["figure"] == figure]:
            texts.append(f"{figure} of {' · '.join(names)}")
    return "; ".join(texts)

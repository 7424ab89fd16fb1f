"""What `limen measure` found, as CSV, JSON, a page to look at, and a table on the terminal."""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limen.core.atomic import write_atomic
from limen.measure.pairs import Measured
from limen.metrics.base.summary import figure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

FIRST = ("snr_db", "peak_db", "pesq", "stoi", "linf", "l2", "peak_db_vocal", "dissimilarity_l2")
"""Columns shown first where not all fit."""


def write_csv(measured: Measured, path: str | Path) -> None:
    """One line per pair; an empty field where there is no number, with the reason in the last one."""
    names = ["id", "clean_file", "adversarial_file", *measured.columns, "note", "missing"]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, names)
    writer.writeheader()
    for row in measured.rows:
        writer.writerow(
            {**row, "missing": json.dumps(row["missing"], ensure_ascii=False) if row["missing"] else ""}
        )
    _write(path, text.getvalue())


def write_json(measured: Measured, path: str | Path) -> None:
    meanings = {
        name: {"meaning": c.meaning, "unit": c.unit, "better": c.better}
        for name, c in measured.columns.items()
    }
    content = {
        "kind": measured.kind,
        "columns": meanings,
        "rows": measured.rows,
        "summary": measured.summary(),
        "unmatched": measured.unmatched,
        "failed": measured.failed,
    }
    _write(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_html(measured: Measured, path: str | Path) -> None:
    """A page that needs nothing but itself."""
    import jinja2

    page = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(PAGE)
    text = page.render(
        m=measured,
        summary=measured.summary(),
        show=show,
        interval=interval,
        figure=figure,
        plural="s" if len(measured.rows) != 1 else "",
    )
    _write(path, text)


def print_tables(measured: Measured, console: "Console") -> None:
    """All metrics of a single pair; of several, their summary and the first columns of every pair."""
    from rich.text import Text

    if len(measured.rows) == 1:
        console.print(_single(measured))
    else:
        console.print(_overview(measured, console.width))
        console.print(_pairs(measured, console.width))
    notes = [(row["id"], row["note"]) for row in measured.rows if row["note"]]
    for heading, line in [
        *notes,
        *(("no partner", u) for u in measured.unmatched),
        *(("not compared", f) for f in measured.failed),
    ]:
        console.print(Text(f"{heading}: {line}"))


def _single(measured: Measured) -> "Table":
    from rich.table import Table
    from rich.text import Text

    (row,) = measured.rows
    table = Table(title=Text(row["id"]))
    for heading in ("metric", "value", "unit", "meaning"):
        table.add_column(
            heading, justify="right" if heading == "value" else "left", no_wrap=heading != "meaning"
        )
    for name, column in measured.columns.items():
        # what the pair lacks is said in place of what it would have meant
        why = row["missing"].get(name)
        table.add_row(name, show(row[name]), column.unit, f"none: {why}" if why else column.meaning)
    return table


def _overview(measured: Measured, width: int) -> "Table":
    from rich.table import Table

    table = Table(title=f"{len(measured.rows)} pairs of {measured.kind}s")
    for heading in ("metric", "mean", "95 % interval", "median", "n", "unit"):
        table.add_column(heading, justify="left" if heading in ("metric", "unit") else "right", no_wrap=True)
    if width >= 130:
        table.add_column("meaning")
    for name, s in measured.summary().items():
        meaning = measured.columns[name.removesuffix("_mean")].meaning
        cells = [
            name,
            show(figure(s)[0]),
            interval(s),
            show(s.get("median")),
            str(s["n"]),
            s["unit"],
            meaning,
        ]
        table.add_row(*cells[: len(table.columns)])
    return table


def _pairs(measured: Measured, width: int) -> "Table":
    """One line per pair, with the first columns that fit."""
    from rich.table import Table
    from rich.text import Text

    room = width - max(len(row["id"]) for row in measured.rows) - 4
    table = Table()
    table.add_column("pair", overflow="fold")
    lines: list[list[str | Text]] = [[Text(row["id"])] for row in measured.rows]
    for name in sorted(measured.columns, key=lambda c: FIRST.index(c) if c in FIRST else len(FIRST)):
        values = [show(row[name]) for row in measured.rows]
        room -= max(map(len, [name, *values])) + 3
        if room < 0 and len(table.columns) > 1:
            break
        table.add_column(name, justify="right")
        for line, value in zip(lines, values, strict=True):
            line.append(value)
    for line in lines:
        table.add_row(*line)
    return table


def show(value: float | None) -> str:
    """Four digits are enough to look at."""
    return "–" if value is None else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def interval(summary: dict[str, Any]) -> str:
    return "–" if summary["low"] is None else f"{show(summary['low'])} to {show(summary['high'])}"


def _write(path: str | Path, text: str) -> None:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode())


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>limen measure: {{ m.rows | length }} pair{{ plural }}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1.5rem; max-width: 110rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--soft); } th:first-child, td:first-child, .text { text-align: left; }
td.long { text-align: left; white-space: normal; min-width: 16rem; }
tbody tr:hover { background: var(--soft); } tbody tr:last-child td { border-bottom: 0; }
abbr { text-decoration: underline dotted; cursor: help; }
</style>
</head>
<body>
<h1>{{ m.rows | length }} pair{{ plural }} of {{ m.kind }}s: what lies between clean and adversarial</h1>
<h2>Summary</h2>
<div class="wide" tabindex="0"><table>
<thead><tr><th>metric</th><th>mean</th><th>95 % interval</th><th>median</th><th>n</th><th>none</th><th class="text">unit</th>
<th class="text">better</th><th class="text">meaning</th></tr></thead>
<tbody>
{% for name, s in summary.items() %}
<tr><td>{{ name }}</td><td>{{ show(figure(s)[0]) }}</td><td>{{ interval(s) }}</td><td>{{ show(s.get("median")) }}</td><td>{{ s.n }}</td>
<td>{{ s.missing }}</td><td class="text">{{ s.unit }}</td><td class="text">{{ s.better }}</td>
<td class="long">{{ m.columns[name.removesuffix("_mean")].meaning }}</td></tr>
{% endfor %}
</tbody></table></div>
<h2>Every pair</h2>
<div class="wide" tabindex="0"><table>
<thead><tr><th>pair</th>{% for name in m.columns %}<th>{{ name }}</th>{% endfor %}<th class="text">note</th></tr></thead>
<tbody>
{% for row in m.rows %}
<tr><td>{{ row.id }}</td>{% for name in m.columns %}<td>{% if row[name] is none %}<abbr title="{{ row.missing[name] }}">none</abbr>
{%- else %}{{ show(row[name]) }}{% endif %}</td>{% endfor %}<td class="long">{{ row.note }}</td></tr>
{% endfor %}
</tbody></table></div>
{% for heading, lines in [("Files without a partner", m.unmatched), ("Pairs that could not be compared", m.failed)] if lines %}
<h2>{{ heading }}</h2>
<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>
{% endfor %}
</body>
</html>
"""

"""Results of `limen measure` as CSV, JSON, an HTML page, and tables on the terminal.

Headings, formats, units and the order of the columns are those that the metrics declare.
"""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limen.core.atomic import write_atomic
from limen.measure.pairs import Measured
from limen.metrics.base.metric import formatted
from limen.metrics.base.summary import described, figure

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

HERE = Path(__file__).parent


def write_csv(measured: Measured, path: str | Path) -> None:
    """One line per pair; an empty field if there is no number, with the reason in the column `missing`."""
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
    columns = {name: described(name, c, measured.kind, None) for name, c in measured.columns.items()}
    content = {
        "kind": measured.kind,
        "columns": columns,
        "rows": measured.rows,
        "summary": measured.summary(),
        "unmatched": measured.unmatched,
        "failed": measured.failed,
    }
    _write(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_html(measured: Measured, path: str | Path) -> None:
    """A self-contained page."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.get_template("measure.html.j2").render(
        m=measured,
        columns={name: measured.columns[name] for name in headlines_first(measured)},
        summary=measured.summary(),
        formatted=formatted,
        interval=interval,
        figure=figure,
        plural="s" if len(measured.rows) != 1 else "",
    )
    _write(path, text)


def print_tables(measured: Measured, console: "Console") -> None:
    """Print all metrics of a single pair; of several, their summary and the first columns of every pair."""
    from rich.text import Text

    if len(measured.rows) == 1:
        console.print(_single(measured))
    else:
        console.print(_overview(measured, console.width))
        console.print(_pairs(measured, console.width))
    notes = [(row["id"], row["note"]) for row in measured.rows if row["note"]]
    unmatched = [("no partner", path) for path in measured.unmatched]
    failed = [("not compared", reason) for reason in measured.failed]
    for heading, line in [*notes, *unmatched, *failed]:
        console.print(Text(f"{heading}: {line}"))


def headlines_first(measured: Measured) -> list[str]:
    """Names of the columns, those that metrics declare as headlines first."""
    return sorted(
        measured.columns, key=lambda name: not measured.columns[name].is_headline(measured.kind, None)
    )


def interval(summary: dict[str, Any]) -> str:
    """The 95 % interval of a column."""
    how = summary["format"]
    if summary["low"] is None:
        return formatted(None, how)
    return f"{formatted(summary['low'], how)} to {formatted(summary['high'], how)}"


def _single(measured: Measured) -> "Table":
    from rich.table import Table
    from rich.text import Text

    (row,) = measured.rows
    table = Table(title=Text(row["id"]))
    for heading in ("metric", "value", "unit", "meaning"):
        table.add_column(
            heading, justify="right" if heading == "value" else "left", no_wrap=heading != "meaning"
        )
    for name in headlines_first(measured):
        column, why = measured.columns[name], row["missing"].get(name)
        meaning = f"none: {why}" if why else column.meaning
        table.add_row(name, formatted(row[name], column.format), column.unit, meaning)
    return table


def _overview(measured: Measured, width: int) -> "Table":
    from rich.table import Table

    table = Table(title=f"{len(measured.rows)} pairs of {measured.kind}s")
    for heading in ("metric", "mean", "95 % interval", "median", "n", "unit"):
        table.add_column(heading, justify="left" if heading in ("metric", "unit") else "right", no_wrap=True)
    if width >= 130:
        table.add_column("meaning")
    for name, s in measured.summary().items():
        mean, median = (formatted(value, s["format"]) for value in (figure(s)[0], s.get("median")))
        cells = [name, mean, interval(s), median, str(s["n"]), s["unit"], s["meaning"]]
        table.add_row(*cells[: len(table.columns)])
    return table


def _pairs(measured: Measured, width: int) -> "Table":
    """One line per pair, with the columns that fit, headlines first."""
    from rich.table import Table
    from rich.text import Text

    room = width - max(len(row["id"]) for row in measured.rows) - 4
    table = Table()
    table.add_column("pair", overflow="fold")
    lines: list[list[str | Text]] = [[Text(row["id"])] for row in measured.rows]
    for name in headlines_first(measured):
        column = measured.columns[name]
        heading, values = (
            column.heading or name,
            [formatted(row[name], column.format) for row in measured.rows],
        )
        room -= max(map(len, [heading, *values])) + 3
        if room < 0 and len(table.columns) > 1:
            break
        table.add_column(heading, justify="right")
        for line, value in zip(lines, values, strict=True):
            line.append(value)
    for line in lines:
        table.add_row(*line)
    return table


def _write(path: str | Path, text: str) -> None:
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode())

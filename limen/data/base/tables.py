"""Read tables of files: CSV or TSV with a header."""

import csv
import io
from pathlib import Path
from typing import Literal

from limen.core.errors import UserError


def read_rows(table: Path) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The columns, and each row with the number of its line."""
    text = read_text(table)
    if not text.strip():
        raise UserError(
            f"{table}: the file is empty ({table.stat().st_size} bytes); a CSV or TSV table with a header "
            "line was expected."
        )
    first = text.partition("\n")[0]
    delimiter = "\t" if table.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
    # in TSV files quotation marks are part of the text (Common Voice), in CSV they enclose it
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, quoting=quoting)
        columns = [name.strip() for name in reader.fieldnames or []]
        reader.fieldnames = columns
        return columns, [
            (reader.line_num, {k: (v or "").strip() for k, v in row.items() if isinstance(k, str)})
            for row in reader
        ]
    except csv.Error as error:
        raise UserError(f"{table}: cannot be read as a table ({error}).") from None


def find_column(
    table: Path, columns: list[str], wanted_column: str | None, usual: tuple[str, ...], option: str
) -> str:
    """The named column, or the first of the usual ones, ignoring case."""
    lower = {name.lower(): name for name in reversed(columns)}
    for name in (wanted_column,) if wanted_column else usual:
        if name.lower() in lower:
            return lower[name.lower()]
    wanted = f'the column "{wanted_column}"' if wanted_column else f"any of the columns {', '.join(usual)}"
    raise UserError(
        f"{table}: has the columns {', '.join(columns) or 'none'}, but not {wanted}. Name the right one "
        f"with the option {option}."
    )


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as UTF-8 text ({error}).") from None

"""What a column of the tables means that `limen listen export` writes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ExportColumn:
    meaning: str
    unit: str = ""
    values: str = ""
    """Allowed values, separated by " | ", or a sentence in parentheses."""
    kind: str = "text"
    """text, number, whole, truth (true or false) or time."""

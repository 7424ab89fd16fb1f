"""What `limen measure` does: pairs of files, made by anyone, measured and written down."""

from limen.pairs.command import command
from limen.pairs.measure import Measured, measure_files
from limen.pairs.tables import print_tables, write_csv, write_html, write_json

__all__ = ["Measured", "command", "measure_files", "print_tables", "write_csv", "write_html", "write_json"]

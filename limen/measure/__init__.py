"""`limen measure`: metrics of pairs of files from any source, written as tables."""

from limen.measure.command import command
from limen.measure.pairs import Measured, measure_files
from limen.measure.tables import print_tables, write_csv, write_html, write_json

__all__ = ["Measured", "command", "measure_files", "print_tables", "write_csv", "write_html", "write_json"]

"""Run folder -> one self-contained HTML page with tables, figures, pictures and players."""

from limen.report.page import build
from limen.report.worst_case.cells import all_together

__all__ = ["all_together", "build"]

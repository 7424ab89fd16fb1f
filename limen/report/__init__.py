"""Run folder -> one self-contained HTML page, made to be looked at and listened to."""

from limen.report.page import build
from limen.report.worst_case import all_together

__all__ = ["all_together", "build"]

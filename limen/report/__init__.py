"""Run folder -> one self-contained HTML page, made to be looked at and listened to."""

from limen.report._build import build
from limen.report._together import all_together

__all__ = ["all_together", "build"]

"""Run folder -> one self-contained HTML page, made to be looked at and listened to."""

from limen.report._build import build

__all__ = ["build"]

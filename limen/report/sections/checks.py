"""Signs that an attack was weaker than it appears."""

from limen.report.blocks import Checks, Prose, Section
from limen.report.checks.run import run_checks
from limen.report.run import Run

NOTE = (
    "Signs that an attack was weaker than it appears. A flag is no proof; it shows what to examine before a "
    "model is called robust."
)


def checks(run: Run) -> Section:
    return Section("Attack sanity checks", [Prose(NOTE), Checks(run_checks(run.cells))], order=200)

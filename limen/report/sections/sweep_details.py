"""The results of every value of a sweep, with distortions."""

from limen.report.blocks import Folded, Section
from limen.report.parts import Part
from limen.report.results_table import Results
from limen.report.sections.sweeps import swept_options


def sweep_details(part: Part) -> Section | None:
    if not swept_options(part):
        return None
    table = Results(part.rated, part.unions, f"All values of the sweep: {part.title}").table()
    return Section(blocks=[Folded("All values of the sweep, with distortions", [table])], order=60)

"""Cells that failed, with their errors."""

from markupsafe import Markup

from limen.report.blocks import Html, Section
from limen.report.formatting import place
from limen.report.run import Run


def failed_cells(run: Run) -> Section | None:
    item = Markup(
        '<li><p><strong>{}</strong> <span class="muted id">{}</span></p><pre tabindex="0">{}</pre></li>'
    )
    items = Markup("").join(item.format(place(c), c.id, c.error) for c in run.failed)
    blocks = [Html(Markup('<ul class="failed">{}</ul>').format(items))]
    return Section("Failed cells", blocks, order=300) if run.failed else None

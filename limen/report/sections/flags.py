"""A warning if an attack sanity check raised a flag."""

from markupsafe import Markup

from limen.report.blocks import Html, Section
from limen.report.checks.run import run_checks
from limen.report.formatting import many
from limen.report.run import Run


def flags(run: Run) -> Section | None:
    found = [c for c in run_checks(run.cells) if c.status == "flag"]
    link = Markup('<a href="#checks">{}</a>')
    names = Markup(", ").join(link.format(c.name[0].lower() + c.name[1:]) for c in found)
    alarm = Markup(
        '<aside class="alarm" aria-label="Flags raised"><p><strong>{} raised.</strong> '
        "Some numbers may overestimate the model. Checks that did not pass: {}.</p></aside>"
    ).format(many(len(found), "flag"), names)
    return Section(blocks=[Html(alarm)], order=20, in_header=True) if found else None

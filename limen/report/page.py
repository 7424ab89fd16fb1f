"""Builds the report of a run: reads the run folder, collects the sections, renders the page."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

from limen.core.components import load, names
from limen.report.blocks import Block, Page, Prose, Section, Subheading
from limen.report.html import render, write_page
from limen.report.parts import Part, parts
from limen.report.run import Run, read_run

PARTS = 100
"""Order of the parts of the run among the sections of the run."""
FOOTER = (
    "Every number on this page is computed from the rows of the run folder. Shares have 95\u202f% Wilson "
    "intervals, error rates bootstrap intervals over clips, means Student’s intervals."
)


def build(run_folder: Path, out: Path | None = None, *, examples: int = 3, megabytes: float = 6.5) -> Path:
    """Write the report of a run and return its path; `out` defaults to report.html in the run folder.

    At most `examples` samples of each cell are embedded, one of each in turn until they fill `megabytes`; the
    others stay in the run folder.
    """
    run = read_run(Path(run_folder))
    run.examples, run.megabytes = examples, megabytes
    path = Path(out) if out is not None else run.folder / "report.html"
    return write_page(path, render(page_of(run)))


def page_of(run: Run) -> Page:
    """The page with all sections that have something to show."""
    of_run = collect(Run, run)
    in_order = [
        *((s.order, s) for s in of_run if not s.in_header),
        *((PARTS, _of_part(p)) for p in parts(run)),
    ]
    started = str(run.environment.get("started") or "")
    header = [Prose(run.description, "description")] if run.description else []
    return Page(
        title=f"{run.name} · Limen report",
        eyebrow=f"Limen report · {started}" if started else "Limen report",
        heading=run.name,
        footer=FOOTER,
        header=[*header, *(block for s in of_run if s.in_header for block in s.blocks)],
        sections=[section for _, section in sorted(in_order, key=lambda item: item[0])],
    )


def collect(scope: type, subject: Run | Part) -> list[Section]:
    """The sections of all components whose parameter is a `scope`, Run or Part, in their order."""
    functions = {name: load("sections", name).function for name in names("sections")}
    found = [
        (name, section)
        for name, function in functions.items()
        if _scope(function) is scope and (section := function(subject)) is not None
    ]
    anchored = [section if section.anchor else replace(section, anchor=name) for name, section in found]
    return sorted(anchored, key=lambda section: section.order)


def _scope(function: Callable[..., Any]) -> type:
    """What a section is made from: the annotation of its parameter."""
    first = next(iter(inspect.signature(function).parameters))
    return get_type_hints(function)[first]


def _of_part(part: Part) -> Section:
    """One section that holds all sections of a part."""
    blocks: list[Block] = []
    for section in collect(Part, part):
        blocks += [Subheading(section.title)] if section.title else []
        blocks += section.blocks
    return Section(part.title, blocks, anchor=f"part-{part.number}")

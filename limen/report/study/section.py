"""The section of the results page about one result, and how it is found."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

from limen.listening.analysis.result_types import TrialResult
from limen.listening.analysis.results import Results
from limen.report.blocks import Block
from limen.trials.base.findings import Row
from limen.trials.base.trial import title_of


@dataclass(frozen=True)
class Context:
    """What a section may use besides its result."""

    results: Results
    rows: Sequence[Row]
    """All answers."""
    title: str
    """Heading of the trial type: "ABX"."""


@dataclass(frozen=True)
class StudySection:
    sentences: Sequence[str]
    """What was found, for the top of the page and the command line."""
    blocks: Sequence[Block] = ()
    methods: Mapping[str, str] = field(default_factory=dict)
    """Name of each method it uses -> how it works."""


def section_of(result: TrialResult, results: Results, rows: Sequence[Row]) -> StudySection:
    return load_section(result.analysis)(result, Context(results, rows, title_of(result.trial)))


def load_section(analysis: str) -> Callable[[Any, Context], StudySection]:
    """The function of limen/report/study/sections/NAME.py, or NAME/NAME.py."""
    module = f"limen.report.study.sections.{analysis}"
    spec = find_spec(module)
    folder = spec is not None and spec.submodule_search_locations is not None
    found = importlib.import_module(f"{module}.{analysis}" if folder else module)
    section: Callable[[Any, Context], StudySection] = getattr(found, analysis)
    return section

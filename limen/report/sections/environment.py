"""The command, the machine and the resolved experiment of the run."""

import json
from typing import Any

from markupsafe import Markup

from limen.report.blocks import Block, Code, Definitions, Folded, Prose, Section
from limen.report.run import Run

FILES = ("config.json", "environment.json", "summary.json", "rows.parquet", "log.txt")
SHOWN_ELSEWHERE = ("command", "started")


def environment(run: Run) -> Section:
    blocks: list[Block] = []
    if command := str(run.environment.get("command") or ""):
        blocks += [Prose("The run was started with this command:", ""), Code(command)]
    link = Markup('<a href="{0}">{0}</a>')
    links = Markup(", ").join(link.format(name) for name in FILES if (run.folder / name).is_file())
    if links:
        blocks.append(Prose(Markup("Files of the run folder: {}.").format(links), ""))
    facts = [(k, v) for k, v in run.environment.items() if k not in SHOWN_ELSEWHERE and v is not None]
    if facts:
        blocks.append(Definitions([(k, _shown(k, v)) for k, v in facts]))
    config = Code(json.dumps(run.config, indent=2, ensure_ascii=False))
    blocks.append(Folded("The experiment with every default written out", [config]))
    return Section("Environment and how to rerun", blocks, order=400)


def _shown(name: str, value: Any) -> str:
    """A fact as text; of lists, such as the sessions of a resumed run, the number of entries."""
    if name == "git":
        return str(value)[:12]
    return str(len(value)) if isinstance(value, list | dict) else str(value)

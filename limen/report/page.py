"""Puts the page together: words, tables, charts and examples into one file that needs nothing else."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limen.core.atomic import write_atomic
from limen.report import (
    audit,
    checks,
    curves,
    distributions,
    figures,
    languages,
    media,
    recognisers,
    tables,
    transcripts,
    transfer,
    worst_case,
)
from limen.report.formatting import duration, fmt, interval, listed, many, place, threats
from limen.report.run import CellResult, Run, component, read_run

HERE = Path(__file__).parent
THINGS = {
    ("picture", "class"): "Pictures",
    ("clip", "class"): "Clips",
    ("clip", "transcript"): "Speech to text",
}
TASKS = {
    "accuracy": "accuracy under attack",
    "constrained_accuracy": "accuracy under a constraint",
    "samples": "samples",
    "transfer": "transfer between models",
    "train": "training",
}


def build(run_folder: Path, out: Path | None = None, *, examples: int = 3, megabytes: float = 6.5) -> Path:
    """Write the report of a run and return its path; `out` defaults to report.html in the run folder.

    At most `examples` samples of each cell are embedded, taken by turns until they fill `megabytes`; the rest
    stays in the run folder.
    """
    run = read_run(Path(run_folder))
    path = Path(out) if out is not None else run.folder / "report.html"
    page = _environment().get_template("page.html.j2").render(_context(run, examples, megabytes))
    return write_page(path, page)


def write_page(path: Path, page: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    # an error message may hold half a character (a lone surrogate): shown as a question mark, never a crash
    return write_atomic(path, page.encode("utf-8", errors="replace"))


def _environment() -> Any:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([HERE, HERE / "study"]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["fmt"] = fmt
    return environment


def _context(run: Run, examples: int, megabytes: float) -> dict[str, Any]:
    checked = checks.run_checks(run.cells)
    return {
        "name": run.name,
        "description": run.description,
        "css": (HERE / "page.css").read_text(encoding="utf-8"),
        "js": (HERE / "page.js").read_text(encoding="utf-8"),
        "started": str(run.environment.get("started") or ""),
        "lede": _lede(run, checked),
        "tiles": _tiles(run.done),
        "checks": checked,
        "audit": {"table": audit.table(run.audits), "figures": audit.figures(run.audits)},
        "flagged": [c for c in checked if c.status == "flag"],
        "blocks": _blocks(run, examples, megabytes),
        "failed": [{"place": place(c), "error": c.error, "id": c.id} for c in run.failed],
        "missing": tables.missing_metrics(run.done),
        "command": str(run.environment.get("command") or ""),
        "facts": [
            (str(k), str(v)[:12] if k == "git" else str(v))
            for k, v in run.environment.items()
            if k not in ("command", "started") and v is not None
        ],
        "config": json.dumps(run.config, indent=2, ensure_ascii=False),
        "links": [
            n
            for n in ("config.json", "environment.json", "summary.json", "rows.parquet", "log.txt")
            if (run.folder / n).is_file()
        ],
    }


def _lede(run: Run, checked: Sequence[checks.Check]) -> str:
    done = run.done
    nets = list(dict.fromkeys(c.net for c in run.cells))
    attacks = list(dict.fromkeys(c.attack for c in run.cells if c.attack != "none" and c.task != "audit"))
    defenses = list(dict.fromkeys(c.defense for c in run.cells if c.defense != "none"))
    judged = sum(c.n for c in done)
    parts = [
        f"This run set {many(len(attacks), 'attack')} against {many(len(nets), 'model')}"
        if attacks
        else f"This run judged {many(len(nets), 'model')}",
        f", undefended and behind {many(len(defenses), 'defence')}" if defenses else "",
        f": {many(len(run.cells), 'cell')}, {many(judged, 'judged sample')}, "
        f"{duration(sum(c.seconds for c in run.cells))} of computing.",
    ]
    for tile in _tiles(done):
        if tile["worst"]:
            further = tile.get("together", tile["worst"]) != tile["worst"]
            of = f" (worst of {tile['together_of']})" if further else ""
            parts.append(
                f" {tile['net']} goes from {tile['clean']} to {tile['worst']} {tile['what']} under "
                f"{tile['attack']}{tile['cost']}"
                + (
                    f", and to {tile['together']} under all attacks within this budget together{of}."
                    if further
                    else "."
                )
            )
    if run.failed:
        parts.append(
            f" {many(len(run.failed), 'cell')} failed and {'is' if len(run.failed) == 1 else 'are'} listed "
            "below."
        )
    flags, ran = [c for c in checked if c.status == "flag"], [c for c in checked if c.status != "not run"]
    if flags:
        parts.append(
            f" {len(flags)} of {len(ran)} honest-attacker checks raised a flag: read them before believing "
            "a number."
        )
    elif ran:
        parts.append(
            f" Every honest-attacker check that could be made ({len(ran)} of {len(checked)}) passed."
        )
    return "".join(parts)


def _tiles(cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Per net: how it does clean, at worst, and at worst behind its best defence."""
    tiles, unions = [], worst_case.together(cells)
    for net in dict.fromkeys(c.net for c in cells):
        mine = [c for c in cells if c.net == net and tables.harm(c) is not None]
        if not mine:
            continue
        column, what = ("wer", "word error rate") if "wer" in mine[0].columns else ("correct", "accuracy")
        bare = [c for c in mine if c.defense == "none"] or mine
        clean = next((c.value(column) for c in bare if c.attack == "none"), None)
        if clean is None:
            clean = next((c.value(f"clean_{column}") for c in bare if f"clean_{column}" in c.columns), None)
        top = tables.worst(bare)
        behind = [
            w
            for w in (
                tables.worst([c for c in mine if c.defense == d])
                for d in dict.fromkeys(c.defense for c in mine if c.defense != "none")
            )
            if w
        ]
        best = min(behind, key=lambda c: tables.harm(c) or 0.0, default=None)
        tile: dict[str, Any] = {"net": net, "what": what, "clean": fmt(clean, "%"), "worst": None, "cost": ""}
        if top is not None:
            tile |= {
                "worst": fmt(top.value(column), "%"),
                "attack": top.attack,
                "interval": interval(*top.stat(column)[1:]),
                "n": fmt(top.n, "n"),
                "defense": "" if top.defense == "none" else top.defense,
                "cost": _cost(top),
            }
            union = next(
                (u for u in unions if any(c.id == top.id for c in u.cells) and u.limit == top.limit), None
            )
            if union is not None and union.stat(column)[0] is not None:
                tile |= {
                    "together": fmt(union.stat(column)[0], "%"),
                    "together_interval": interval(*union.stat(column)[1:]),
                    "together_of": len(union.cells),
                }
        if best is not None and best.defense != (top.defense if top else ""):
            tile |= {
                "best": best.defense,
                "best_rate": fmt(best.value(column), "%"),
                "best_attack": best.attack,
                "best_unseen": not best.sees_defense,
                "best_helps": top is None or (tables.harm(best) or 0.0) < (tables.harm(top) or 0.0),
            }
        tiles.append(tile)
    return tiles


def _cost(cell: CellResult) -> str:
    """What the attack changed, in the words of the kind of sample."""
    for column, words in (
        ("snr_db", "at a median SNR of {} dB"),
        ("linf", "at a median L∞ of {}"),
        ("l2", "at a median L2 of {}"),
    ):
        value = cell.median(column)
        if value is not None and (cell.kind == "clip" or column != "snr_db"):
            return ", " + words.format(fmt(value, "1f" if column == "snr_db" else "3g"))
    return ""


def _blocks(run: Run, examples: int, megabytes: float) -> list[dict[str, Any]]:
    """One section per task and kind of sample."""
    colours = figures.slots(run.done)
    chosen = media.choose([c for c in run.done if c.attack != "none"], examples, megabytes)
    groups: dict[tuple[Any, ...], list[CellResult]] = {}
    for cell in run.done:
        groups.setdefault((cell.task_index, cell.task, cell.kind, cell.output), []).append(cell)
    titles = Counter(_title(key) for key in groups)
    blocks = []
    for number, (key, cells) in enumerate(groups.items(), 1):
        title = _title(key)
        rated = [c for c in cells if tables.harm(c) is not None]
        plain = [c for c in rated if not c.variable]
        unions = worst_case.together(rated)
        swept = tables.sweep_tables(rated, unions)
        samples = [c for c in cells if chosen.get(c.id)]
        bad = tables.worst_ids(samples)
        blocks.append(
            {
                "id": f"part-{number}",
                "title": f"{title} (task {key[0] + 1})" if titles[title] > 1 else title,
                "clips": key[2] == "clip",
                "data": listed(list(dict.fromkeys(_data(c) for c in cells if _data(c)))),
                "threats": threats(cells),
                # a sweep is read across; its cells stand in the pivot and, in full, in the folded table
                "table": tables.main_table(plain if swept else rated, unions)
                if (plain if swept else rated)
                else None,
                "sweeps": swept,
                "together": bool(unions),
                "full": tables.main_table(rated, unions) if swept else None,
                **_pictures(cells, rated, unions, colours),
                "details": distributions.details(cells),
                "metrics": tables.every_metric([c for c in cells if not c.curve and not c.victims]),
                "scalars": tables.scalars(cells),
                "examples": [
                    {
                        "place": place(c),
                        "clips": c.kind == "clip",
                        "transcripts": c.output == "transcript",
                        "kept": len(c.examples),
                        "open": c.id in bad and c.defense == "none",
                        "before": "wrong before" if c.goal["name"] == "untargeted" else "at the goal before",
                        "shown": [media.show(c, e) for e in chosen[c.id]],
                        "folder": f"cells/{c.id}/examples",
                    }
                    for c in samples
                ],
                "heard": [
                    {"place": place(c), **table}
                    for c in cells
                    if c.output == "transcript"
                    and not c.curve
                    and c.attack != "none"
                    and (table := transcripts.transcript_table(c))
                ],
            }
        )
    return blocks


def _pictures(
    cells: Sequence[CellResult],
    rated: Sequence[CellResult],
    unions: Sequence[worst_case.Together],
    colours: dict[str, int],
) -> dict[str, Any]:
    """Tables, matrices and curves that stand before the examples."""
    sizes, confusions = recognisers.sizes(rated, colours), languages.languages(cells)
    return {
        "tables": [
            t for t in (recognisers.targeted(cells), sizes and sizes[0], confusions and confusions[0]) if t
        ],
        "heat": transfer.heat_maps(cells),
        "curves": [
            *figures.training(cells),
            *curves.sweeps(cells, colours, unions),
            *curves.constrained(cells, colours),
            *figures.fooling(cells),
            *(found[1] for found in (sizes, confusions) if found),
        ],
    }


def _title(key: tuple[Any, ...]) -> str:
    _, task, kind, output = key
    if (task, output) == ("constrained_accuracy", "transcript"):
        return "Speech to text: word error rate under a constraint"
    return f"{THINGS.get((kind, output), 'Results')}: {TASKS.get(task, str(task).replace('_', ' '))}"


def _data(cell: CellResult) -> str:
    return str(component(component(cell.spec.get("net")).get("data")).get("name") or "")

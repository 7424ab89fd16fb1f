"""Which examples are embedded in the page, and where their files are."""

from pathlib import Path
from typing import Any

from limen.report.run import CellResult

ROLES = ("clean", "perturbation", "adversarial")


def choose(cells: list[CellResult], per_cell: int, megabytes: float) -> dict[str, list[dict[str, Any]]]:
    """Examples of each cell, one of each in turn, until the page would exceed its size."""
    chosen: dict[str, list[dict[str, Any]]] = {c.id: [] for c in cells}
    room = megabytes * 1e6
    for turn in range(per_cell):
        # small ones first: images are small, and clips must not take all the room
        costs = [(_cost(c, c.examples[turn]), k, c) for k, c in enumerate(cells) if turn < len(c.examples)]
        for cost, _, cell in sorted(costs, key=lambda item: item[:2]):
            if cost <= room:
                chosen[cell.id].append(cell.examples[turn])
                room -= cost
    return chosen


def _cost(cell: CellResult, example: dict[str, Any]) -> float:
    paths = [find(cell, example, role) for role in ROLES]
    size = sum(p.stat().st_size for p in paths if p) * 4 / 3
    return size + (45e3 if cell.kind == "clip" else 2e3)  # spectrograms and waveforms; markup


def find(cell: CellResult, example: dict[str, Any], role: str) -> Path | None:
    """The file of an example, or None. A path that leads out of the cell's folder is not followed."""
    name = (example.get("files") or {}).get(role)
    for base in (cell.folder, cell.folder / "examples") if name else ():
        path = (base / str(name)).resolve()
        if path.is_file() and path.is_relative_to(cell.folder.resolve()):
            return path
    return None

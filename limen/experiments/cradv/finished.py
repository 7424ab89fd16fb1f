"""Index of a results folder, <results_path>/limen.json: the result of each cell, so that a stopped run can be
resumed at the next cell.

A cell is identified by the hash of everything that decides its result: its part of the file with defaults,
the content of its weights, the limit, and `cradv_exact`. The path of its result is recorded before the cell
starts; the result is written last and atomically, so a result that exists is complete.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limen import __version__
from limen.core.errors import UserError
from limen.experiments.cradv import plan
from limen.experiments.cradv.nets import Opener
from limen.experiments.folder import write_json

INDEX = "limen.json"


@dataclass
class ResultIndex:
    """The index of a results folder."""

    root: Path
    file: Path
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Key of the cell -> {result: path in the folder, limen: version, cradv_exact}."""

    @staticmethod
    def of(root: Path, file: Path) -> "ResultIndex":
        path = root / INDEX
        content = _json(path).get("results") if path.is_file() else {}
        if not isinstance(content, dict) or not all(
            isinstance(e, dict) and isinstance(e.get("result"), str) for e in content.values()
        ):
            raise UserError(
                f"{path} cannot be read, so finished cells are not known. Move it away to run "
                "every cell again; existing results are kept."
            ) from None
        return ResultIndex(root, file, content)

    def begin(self, key: str, result: Path, exact: bool) -> None:
        path = result.relative_to(self.root).as_posix()
        self.results = {k: v for k, v in self.results.items() if v["result"] != path}
        self.results[key] = {"result": path, "limen": __version__, "cradv_exact": exact}
        self.root.mkdir(parents=True, exist_ok=True)
        write_json(self.root / INDEX, {"file": str(self.file.resolve()), "results": self.results})

    def done(self, key: str) -> bool:
        """True if the cell's result exists, can be read, and is not the error message of a failed cell."""
        return key in self.results and bool(_json(self.root / self.results[key]["result"]))


def _json(path: Path) -> dict[str, Any]:
    """The mapping in a file; empty if it cannot be read or is no mapping."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def newest(file: Path) -> Path:
    """The newest results folder of this file, for --resume without --out."""
    found = [
        path for path in Path("results").glob(f"*/{INDEX}") if _json(path).get("file") == str(file.resolve())
    ]
    if not found:
        raise UserError(
            f"There are no results of {file} to resume in results/. Start it without --resume, or name the "
            "folder with --out."
        )
    return max(found, key=lambda path: path.stat().st_mtime).parent


def keys(cells: Sequence[plan.CradvCell], opener: Opener, limit: int | None, exact: bool) -> list[str]:
    """One key per cell; a cell that is in the file twice has two."""
    trained = {cell.net.id for cell in cells if cell.task.task_name == "train"}
    trainings: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    weights = {
        net.id: None if net.id in trained else _weights(net, opener) for cell in cells for net in cell.nets
    }
    found = []
    for cell in cells:
        spec = {
            "task": cell.task_data,
            "nets": [[net.data, weights[net.id], trainings[net.id]] for net in cell.nets],
            "defenses": [defense and defense.data for defense in cell.defenses],
            "attacks": [
                attack and [attack.data, attack.surrogate and attack.surrogate.id] for attack in cell.attacks
            ],
            "variable": cell.variable,
            "limit": limit,
            "exact": exact,
        }
        key = hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:12]
        seen[key] += 1
        found.append(key if seen[key] == 1 else f"{key}-{seen[key]}")
        if cell.task.task_name == "train":
            trainings[cell.net.id] += 1
    return found


def _weights(net: plan.Net, opener: Opener) -> str | None:
    """Hash of the content of its weights, if there is a file of them."""
    path = opener.find(f"data/weights/{net.id}.pth")
    return None if path is None else hashlib.sha256(path.read_bytes()).hexdigest()

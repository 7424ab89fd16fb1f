"""Export of clean and adversarial samples as files with a table, readable by other tools.

adversarial/table.csv holds a line per sample: id, clean and adversarial (paths relative to the table), text
or label (the reference), target, both predictions, success, and every metric. The attack `imported` reads it.
"""

import csv
import hashlib
import io
import re
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

from limen.audio.files import SUFFIXES, write_clip
from limen.core.atomic import write_atomic
from limen.core.types import Samples
from limen.images.files import write_picture

Export = Literal["flac", "wav"]

TRANSCRIPT_COLUMNS = {
    "label": "text",
    "clean_prediction": "clean_transcript",
    "adversarial_prediction": "adversarial_transcript",
}
"""Column of the rows -> its name in the table of a recogniser."""


class Exporter:
    """Writes the files of each batch, and the table at the end; clips have 16 bits, pictures 8 (PNG)."""

    def __init__(self, folder: Path, form: Export):
        self.folder, self.form = folder / "adversarial", form
        self.rows: list[dict[str, Any]] = []
        self.names: set[str] = set()

    def add(self, samples: Samples, rows: list[dict[str, Any]]) -> None:
        clip = samples.batch.kind == "clip"
        renamed = TRANSCRIPT_COLUMNS if not isinstance(samples.batch.y, Tensor) else {}
        for i, row in enumerate(rows):
            name = f"{self._name(row['id'])}.{self.form if clip else 'png'}"
            for which, x in zip(("clean", "adversarial"), samples.pair(i), strict=True):
                path = self.folder / which / name
                write_clip(path, x, _rate_hz(samples)) if clip else write_picture(path, x)
            files = {"id": row["id"], "clean": f"clean/{name}", "adversarial": f"adversarial/{name}"}
            self.rows.append(
                files | {renamed.get(k, k): v for k, v in row.items() if k not in ("id", "missing")}
            )

    def close(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(dict.fromkeys(key for row in self.rows for key in row)))
        writer.writeheader()
        writer.writerows(self.rows)
        write_atomic(self.folder / "table.csv", text.getvalue().encode())

    def _name(self, identity: str) -> str:
        """The id as a file name that is valid on every system, with a hash if another id has the same."""
        stem = (
            identity[: -len(Path(identity).suffix)]
            if Path(identity).suffix.lower() in (*SUFFIXES, ".png", ".jpg")
            else identity
        )
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", stem).strip("._")[:100] or "sample"
        if name.lower() in self.names:
            name += f"-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
        self.names.add(name.lower())
        return name


def _rate_hz(samples: Samples) -> int:
    assert samples.rate_hz is not None
    return samples.rate_hz

"""The command `limen measure`: measure, write the requested files, and print tables."""

from pathlib import Path
from typing import TYPE_CHECKING

from limen.measure.pairs import measure_files
from limen.measure.tables import print_tables, write_csv, write_html, write_json

if TYPE_CHECKING:
    from rich.console import Console


def command(
    clean: Path,
    adversarial: Path,
    *,
    csv: Path | None = None,
    json_path: Path | None = None,
    html: Path | None = None,
    align: bool = False,
    metrics: list[str] | None = None,
    console: "Console",
) -> None:
    from rich.progress import Progress

    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("measuring", total=None)
        measured = measure_files(
            clean,
            adversarial,
            metrics,
            align=align,
            advance=lambda done, n: progress.update(task, completed=done, total=n),
        )
    print_tables(measured, console)
    for path, write in ((csv, write_csv), (json_path, write_json), (html, write_html)):
        if path is not None:
            write(measured, path)
            console.print(f"written: {path}", markup=False)

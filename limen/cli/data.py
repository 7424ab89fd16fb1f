"""The commands `limen data get` and `limen data list`."""

from pathlib import Path
from typing import Annotated

import typer

from limen.cli.options import out

app = typer.Typer(no_args_is_help=True, help="Fetch data sets and published models.")


@app.command("get")
def data_get(
    name: Annotated[str, typer.Argument(help="A name from `limen data list`.")],
    source: Annotated[
        Path | None, typer.Option("--from", help="Folder that already contains the files.")
    ] = None,
) -> None:
    """Fetch a data set or a published model and verify its sha256."""
    from limen.data.fetch.get import get

    out.print(f"ready: {get(name, source, out.print)}", soft_wrap=True)


@app.command("list")
def data_list() -> None:
    """List the data sets and models that `limen data get` can fetch."""
    from limen.data.fetch.get import available

    for name, entry in available().items():
        out.print(f"  {name:<22} {entry.about}", soft_wrap=True, markup=False)

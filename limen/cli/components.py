"""The commands `limen list`, `describe`, `schema` and `new`: the components and templates for new ones."""

import json
from pathlib import Path
from typing import Annotated

import typer

from limen.cli.new import kinds, write
from limen.cli.options import out
from limen.core.errors import UserError

app = typer.Typer()


@app.command("list")
def list_(
    kind: Annotated[
        str | None,
        typer.Argument(help="For example attacks, models or metrics; all kinds if left out."),
    ] = None,
) -> None:
    """List the components of one kind, or of all."""
    from limen.core.components import KINDS, load, names

    if kind is not None and kind not in KINDS:
        raise UserError(f'There is no kind "{kind}". Kinds: {", ".join(KINDS)}.')
    for one in [kind] if kind else KINDS:
        out.print(one, style="bold")
        for name in names(one):
            out.print(f"  {name:<22} {load(one, name).summary}", soft_wrap=True, markup=False)


@app.command()
def describe(
    name: Annotated[
        str,
        typer.Argument(help="Name of a component, or kind/name if two kinds share the name (metrics/l2)."),
    ],
) -> None:
    """Describe a component and its options."""
    from limen.cli.reference import describe as describe_component

    out.print(describe_component(name), soft_wrap=True, markup=False)


@app.command()
def schema() -> None:
    """Print the JSON schema of experiment files."""
    from limen.experiments.file import schema as make_schema

    print(json.dumps(make_schema(), indent=2))


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(kinds())}.")],
    name: Annotated[str, typer.Argument(help="Name of the component and of its file.")],
    into: Annotated[
        Path | None, typer.Option(help="Folder to write to; default the folder of the kind.")
    ] = None,
) -> None:
    """Write a commented template of a new component that passes the contract test of its kind."""
    for path in write(kind, name, into):
        out.print(f"written: {path}", soft_wrap=True)

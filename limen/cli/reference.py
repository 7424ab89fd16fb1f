"""The reference: what `limen describe` prints and the pages under docs/reference/ show, both read from the
options classes."""

from pathlib import Path

from limen.core.components import KINDS, Component, load, names
from limen.core.errors import UserError
from limen.core.options import option_rows


def find(name: str) -> list[Component]:
    """The components of that name; "metrics/l2" asks for one kind."""
    kind, _, short = name.rpartition("/")
    if kind and kind not in KINDS:
        raise UserError(f'There is no kind "{kind}". Kinds: {", ".join(KINDS)}.')
    found = [load(k, short) for k in ([kind] if kind else KINDS) if short in names(k)]
    if not found:
        from difflib import get_close_matches

        close = get_close_matches(short, [n for k in KINDS for n in names(k)], n=1)
        hint = f' Did you mean "{close[0]}"?' if close else ""
        raise UserError(f'There is no component "{name}".{hint} `limen list` shows all.')
    return found


def describe(name: str) -> str:
    return "\n\n".join(_plain(component) for component in find(name))


def _plain(component: Component) -> str:
    lines = [
        f"{component.name} ({KINDS[component.kind].singular})",
        "",
        (component.module.__doc__ or "").strip(),
        "",
    ]
    rows = option_rows(component.options)
    for row in rows:
        lines += [f"  {row['name']}: {row['type']} = {row['default']}", f"      {row['meaning']}"]
    return "\n".join(lines if rows else [*lines, "  no options"])


def page(kind: str) -> str:
    """The reference page of a kind, in Markdown."""
    lines = [
        f"# {kind.capitalize()}",
        "",
        f"Written from the options classes by `python -m limen.cli.reference`. `limen describe {kind}/NAME` "
        "prints the same.",
        "",
    ]
    for name in names(kind):
        component = load(kind, name)
        lines += [f"## {name}", "", "```text", (component.module.__doc__ or "").strip(), "```", ""]
        rows = option_rows(component.options)
        if not rows:
            lines += ["No options.", ""]
            continue
        lines += ["| option | type | default | meaning |", "|---|---|---|---|"]
        lines += [
            f"| `{r['name']}` | {_cell(r['type'])} | `{r['default']}` | {_cell(r['meaning'])} |" for r in rows
        ]
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def write_pages(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for kind in KINDS:
        path = folder / f"{kind}.md"
        path.write_text(page(kind), encoding="utf-8")
        paths.append(path)
    return paths


if __name__ == "__main__":
    for path in write_pages(Path("docs/reference")):
        print(path)

"""Renders a page with the templates and writes it as one file that needs no other."""

from functools import cache
from pathlib import Path
from typing import Any

from markupsafe import Markup

from limen.core.atomic import write_atomic
from limen.report.blocks import Block, Page

HERE = Path(__file__).parent


def render(page: Page) -> str:
    """The page as HTML."""
    return str(environment().get_template("page.html.j2").render(page=page, **assets()))


def write_page(path: Path, html: str) -> Path:
    """Write the page atomically and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # an error message may hold a lone surrogate: it is written as a question mark
    return write_atomic(path, html.encode("utf-8", errors="replace"))


@cache
def environment() -> Any:
    """The jinja2 environment of all pages. The filter `draw` renders a block."""
    import jinja2

    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["draw"] = draw
    return found


def draw(block: Block) -> Markup:
    """The HTML of one block."""
    macros = environment().get_template("blocks.html.j2").module
    return Markup(getattr(macros, block.macro)(block))


def assets() -> dict[str, Markup]:
    """The style sheet and the script that every page embeds."""
    read = lambda name: Markup((HERE / name).read_text(encoding="utf-8"))
    return {"css": read("page.css"), "js": read("page.js")}

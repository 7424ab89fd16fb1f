"""HTML pages that the server renders itself, from the folder templates/."""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


@cache
def _environment() -> Environment:
    loader = FileSystemLoader(TEMPLATES)
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def html_page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template; all values are escaped."""
    text = _environment().get_template(template).render(values)
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})

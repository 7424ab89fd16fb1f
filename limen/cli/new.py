"""`limen new`: commented templates of new components, one file each. Every template passes the contract tests
of its kind unchanged."""

import keyword
import re
from pathlib import Path

from limen.core.atomic import write_atomic
from limen.core.components import KINDS, module_paths, names
from limen.core.errors import UserError

TEMPLATES = Path(__file__).parent / "templates"


def kinds() -> dict[str, str]:
    """Short name of each kind -> its folder name: {"attack": "attacks", "data": "data", ...}."""
    return {kind.singular.split()[0]: name for name, kind in KINDS.items()}


def write(kind: str, name: str, into: Path | None = None) -> list[Path]:
    """Write the template of a kind; returns the files written."""
    if kind not in kinds():
        raise UserError(f'There is no template for "{kind}". Kinds: {", ".join(kinds())}.')
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(
            "The name of a component is its file name, of lower-case letters, digits and underscores; got "
            f"{name!r}."
        )
    plural = kinds()[kind]
    if name in names(plural):
        raise UserError(f'There is already a component "{name}" in {plural}. Choose another name.')
    path = (into or _folder(plural)) / f"{name}.py"
    if path.exists():
        raise UserError(f"{path} already exists; nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    class_name = "".join(part.capitalize() for part in name.split("_"))
    template = (TEMPLATES / f"{kind}.txt").read_text(encoding="utf-8")
    write_atomic(path, template.replace("CLASS", class_name).replace("NAME", name).encode())
    module_paths.cache_clear()
    return [path]


def _folder(plural: str) -> Path:
    """Folder of the package that holds the components of a kind."""
    import importlib

    return Path(next(iter(importlib.import_module(KINDS[plural].package).__path__)))

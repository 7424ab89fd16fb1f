"""Folders stand in the order in which a sample travels: each uses what stands above it, never what stands
below."""

import ast
from pathlib import Path

import limen

ROOT = Path(limen.__file__).parent
ORDER = [
    "core",
    "audio",
    "images",
    "data",
    "models",
    "defenses",
    "perception",
    "degradations",
    "goals",
    "budgets",
    "attacks",
    "objectives",
    "metrics",
    "measure",
    "trials",
    "listening",
    "tasks",
    "inputs",
    "api",
    "experiments",
    "report",
    "cli",
    "__main__",
]


def imported(tree: ast.AST) -> set[str]:
    """Names of the parts of limen that a file imports, wherever in the file it does."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "limen":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("limen."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("limen.")}
    return found & set(ORDER)


def test_every_file_imports_only_what_stands_above_it():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if part == "__init__":
            continue
        for other in imported(ast.parse(path.read_text())):
            if ORDER.index(other) > ORDER.index(part):
                wrong.append(f"{path.relative_to(ROOT)} imports limen.{other}")
    assert not wrong, wrong


def test_every_folder_and_file_has_its_place():
    parts = {
        p.name.removesuffix(".py")
        for p in ROOT.iterdir()
        if p.suffix == ".py" or (p.is_dir() and (p / "__init__.py").exists())
    }
    assert parts - {"__init__"} <= set(ORDER), parts - set(ORDER)


def test_no_component_is_imported_by_name_outside_its_folder():
    """A new component is one new file: no other file names it (but a model may name the data it was trained
    on)."""
    kinds = ("defenses", "metrics", "attacks", "data")
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.count(".") == 2:
                _, kind, name = node.module.split(".")
                room = (ROOT / kind / name).is_dir()
                if kind in kinds and not room and path.relative_to(ROOT).parts[0] not in (kind, "models"):
                    wrong.append(f"{path.relative_to(ROOT)} imports {node.module}")
    assert not wrong, wrong

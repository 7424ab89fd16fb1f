"""Study files and their tables of items, broken in structure, text and encoding."""

import copy
import random
from collections.abc import Iterator
from pathlib import Path

import yaml
from broken_experiments import broken, written
from broken_media import damaged
from judging import Mutant, limen

TEMPLATES = ("abx", "identification", "mushra", "same_different_jnd")
TABLES = [
    b"",
    b"id\n",
    b"id,file:clean\n",
    b"id,file:clean\n,\n",
    b"id,file:\nx,y\n",
    b"id,file:clean,file:clean\nx,y,z\n",
    b"\0\0\0",
    b"\xff\xfe",
    b"id,file:clean\n" + b"x" * 300_000 + b",audio/a.wav\n",
    b'id,file:clean\n"x\n',
    b"id,file:clean\nx,../../../../etc/passwd\n",
    b"id,file:clean\nx,audio\n",
    b"id,file:clean\nx,audio/none.wav,more,and more\n",
    b"id,file:clean\n" + b"x,audio/a.wav\n" * 500,
]


def mutants(draw: random.Random, count: int, folder: Path) -> Iterator[Mutant]:
    for name in TEMPLATES:
        limen("listen", "new", folder / name, "--template", name, "--seed", 0)()
        yield Mutant(
            f"{name} unbroken", limen("listen", "check", folder / name), folder / name / "study.yaml"
        )
    trees = {name: yaml.safe_load((folder / name / "study.yaml").read_text()) for name in TEMPLATES}
    tables = {path: path.read_bytes() for path in folder.glob("*/items.csv")}
    for number in range(count):
        name = draw.choice(TEMPLATES)
        study, table = folder / name / "study.yaml", folder / name / "items.csv"
        for path, content in tables.items():
            path.write_bytes(content)
        tree = copy.deepcopy(trees[name])
        if table in tables and draw.random() < 0.3:
            table.write_bytes(draw.choice(TABLES) if draw.random() < 0.3 else damaged(draw, tables[table]))
            study.write_text(yaml.safe_dump(tree))
            yield Mutant(f"{name} items #{number}", limen("listen", "check", study.parent), table)
            continue
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            tree = broken(draw, tree, aliases=True)
        study.write_bytes(written(draw, tree, is_json=False))
        yield Mutant(f"{name} #{number}", limen("listen", "check", study.parent), study)

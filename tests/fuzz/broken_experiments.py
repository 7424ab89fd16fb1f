"""Experiment files, ours and CrAdv's, broken in structure, text and encoding."""

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from judging import HERE, Mutant, limen

ROOT = HERE.parents[1]
ODD: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    3,
    10**30,
    -(10**400),
    2**63 - 1,
    0.5,
    -0.0,
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    "x",
    "x" * 10_000,
    "pgd",
    "linf",
    "accuracy",
    "../..",
    "/dev/zero",
    "a\0b",
    "\ud800",
    "é" * 300,
    "1e3",
    "{{ x }}",
    [],
    {},
    [[]],
    [None],
    [1, "a"],
    ["pgd"],
    {"name": None},
    {"name": 5},
    {"name": ["pgd"]},
    {"name": {"name": "pgd"}},
    {"name": "pgd"},
    {"name": ""},
    {"name": "_run"},
    {"name": "mlp"},
    {"name": "linf", "eps": "much"},
    {"": 1},
    {"a.b": {"c": []}},
    {1: 2},
    {None: None},
    {(1, 2): 3},
    {True: False},
    {"x": {"x": {"x": {"x": [{}]}}}},
]
PATHS = [
    "attack",
    "attack.name",
    "attack.budget",
    "attack.budget.eps",
    "attack.goal",
    "attack.surrogate",
    "attack.through",
    "attack.draws",
    "attack.label",
    "attack.precision",
    "defense",
    "defense.name",
    "model",
    "model.name",
    "model.weights",
    "data",
    "data.limit",
    "data.name",
    "task",
    "task.name",
    "metrics",
    "",
    ".",
    "..",
    "attack..eps",
    "attack_on_defense",
    "name",
    "x" * 500,
]
TAGS = [
    "!!timestamp ",
    "!!binary ",
    "!!set ",
    "!!omap ",
    "!!pairs ",
    "!!int ",
    "!!float ",
    "!!bool ",
    "!!str ",
    "!!map ",
    "!!python/object/apply:os.getcwd ",
    "!x ",
    "&a ",
    "*a ",
    "? ",
    "- ",
    "<<: ",
    "| ",
    "> ",
    "%YAML 9.9\n",
    "---\n",
    "...\n",
    "\t",
    "!!null ",
    "!!seq ",
    "\0",
    "\x07",
    "'",
    '"',
    "[",
    "]",
    "{",
    "}",
    "#",
    "@",
    "`",
    "\r",
    "\u2028",
    "\ufeff",
    '"\\UFFFFFFFF"',
]


def places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in it; what stands in it twice is entered once."""
    found, waiting, seen = [], [tree], set()
    while waiting:
        here = waiting.pop()
        if id(here) in seen or not isinstance(here, dict | list):
            continue
        seen.add(id(here))
        inside = list(here.items() if isinstance(here, dict) else enumerate(here))
        found += [(here, key) for key, _ in inside]
        waiting += [value for _, value in inside]
    return found


def broken(draw: random.Random, tree: Any, aliases: bool) -> Any:
    """The tree with one thing wrong."""
    everywhere = places(tree)
    if not everywhere:
        return draw.choice(ODD)
    inside, key = draw.choice(everywhere)
    value = inside[key]
    match draw.choice(
        [
            "odd",
            "odd",
            "odd",
            "huge",
            "delete",
            "repeat",
            "nest",
            "swap",
            "copy",
            "rename",
            "sweep",
            "many",
            "deep",
            "shared",
        ]
    ):
        case "odd":
            inside[key] = copy.deepcopy(draw.choice(ODD))
        case "huge":
            whole = [(here, at) for here, at in everywhere if type(here[at]) is int]
            inside, key = draw.choice(whole or everywhere)
            inside[key] = 10 ** draw.choice([9, 18])
        case "delete":
            del inside[key]
        case "repeat":
            inside[key] = [copy.deepcopy(value) for _ in range(draw.choice([2, 3, 40]))]
        case "nest":
            inside[key] = draw.choice([[value], {"name": value}, {"x": value}, [[value]], {str(key): value}])
        case "swap":
            other, there = draw.choice(everywhere)
            inside[key], other[there] = copy.deepcopy(other[there]), copy.deepcopy(value)
        case "copy":
            other, there = draw.choice(everywhere)
            inside[key] = copy.deepcopy(other[there])
        case "rename" if isinstance(inside, dict):
            inside[
                draw.choice(
                    [
                        f"{key}s",
                        "name",
                        "label",
                        "surrogate",
                        "through",
                        "draws",
                        "goal",
                        "budget",
                        "sweep",
                        "",
                    ]
                )
            ] = inside.pop(key)
        case "sweep":
            tasks = tree.get("tasks") if isinstance(tree, dict) else None
            entry = draw.choice(tasks) if isinstance(tasks, list) and tasks else None
            if isinstance(entry, dict):
                values = lambda: draw.choice(
                    [[0.1], [], [1, 2, 3], draw.choices(ODD, k=3), list(range(300)), {}, 5]
                )
                entry["sweep"] = {draw.choice(PATHS): values() for _ in range(draw.choice([1, 2, 3]))}
        case "many":
            tasks = tree.get("tasks") if isinstance(tree, dict) else None
            for entry in tasks if isinstance(tasks, list) else []:
                for name in ("nets", "attacks", "defenses"):
                    if isinstance(entry, dict) and isinstance(entry.get(name), list):
                        entry[name] = entry[name] * draw.choice([1, 30, 300])
        case "deep":
            for _ in range(draw.choice([20, 70, 300])):
                value = [value] if draw.random() < 0.5 else {"x": value}
            inside[key] = value
        case "shared" if aliases:
            for _ in range(draw.choice([5, 20, 60])):
                value = [value, value]
            inside[key] = value
    return tree


def written(draw: random.Random, tree: Any, is_json: bool) -> bytes:
    """The tree as a file, perhaps with its text broken too."""
    if is_json:
        try:
            text = json.dumps(tree, indent=draw.choice([None, 1]))
        except (TypeError, ValueError):  # keys that JSON does not have, digits that Python does not print
            text = "{"
    else:
        try:
            text = yaml.safe_dump(
                tree, default_flow_style=draw.choice([None, True, False]), allow_unicode=True, sort_keys=False
            )
        except (yaml.YAMLError, ValueError, RecursionError):
            text = "a: ["
    match draw.choice(["plain"] * 6 + ["tag", "tag", "cut", "bytes", "encoding", "bomb", "twice", "empty"]):
        case "tag":
            for _ in range(draw.choice([1, 1, 3])):
                at = draw.randrange(len(text) + 1)
                at = text.find(" ", at) + 1 or at
                text = text[:at] + draw.choice(TAGS) + text[at:]
        case "cut":
            text = text[: draw.randrange(len(text) + 1)]
        case "bytes":
            raw = bytearray(text.encode(errors="replace"))
            for _ in range(draw.choice([1, 5, 50])):
                raw.insert(draw.randrange(len(raw) + 1), draw.randrange(256))
            return bytes(raw)
        case "encoding":
            return text.encode(
                draw.choice(["utf-16", "utf-32", "utf-8-sig", "cp500", "utf-7"]), errors="replace"
            )
        case "bomb" if not is_json:
            levels = draw.choice([8, 30, 200])
            doubling = ["[*b{0}, *b{0}]", "{{x: *b{0}, y: *b{0}}}", "{{<<: [*b{0}, *b{0}]}}"]
            bomb = "".join(f"b{i}: &b{i} {draw.choice(doubling).format(i - 1)}\n" for i in range(1, levels))
            text = f"b0: &b0 {{x: [1, 2, 3]}}\n{bomb}{text}\nname: *b{levels - 1}\n"
        case "twice":
            text += text
        case "empty":
            small = [b"", b"\n", b"null", b"[]", b"{}", b"5", b"\0" * 100, bytes(range(256)), b"tasks:", b'"']
            large = [
                b"[" * 50_000,
                b"{a: " * 50_000,
                b"- " * 50_000,
                b"a: " + b"9" * 6000,
                b"#" * 3_000_000,
                b"tasks: [" + b"x," * 150_000 + b"]",
            ]
            return draw.choice(small + large)
    return text.encode(errors="surrogatepass")


def read_cradv(path: Path) -> None:
    from limen.experiments.cradv.plan import read_plan
    from limen.experiments.cradv.runner import is_cradv
    from limen.experiments.file import load_file

    content = load_file(path)
    if is_cradv(content):
        read_plan(content, str(path), lambda words: None)


def mutants(draw: random.Random, count: int, folder: Path) -> Iterator[Mutant]:
    ours = [*sorted((ROOT / "experiments").glob("*.yaml")), ROOT / "limen" / "experiments" / "demo.yaml"]
    theirs = sorted((ROOT / "tests" / "experiments" / "cradv").glob("*.json"))
    trees = {path: yaml.safe_load(path.read_text()) for path in [*ours, *theirs]}
    whole = (
        folder / "whole.yaml"
    )  # the first mutant is none: it imports everything, which is no use of memory
    whole.write_bytes(ours[-1].read_bytes())
    yield Mutant("unbroken", limen("plan", whole, "--quick"), whole)
    for number in range(count):
        cradv = draw.random() < 0.2
        source = draw.choice(theirs if cradv else ours)
        tree, is_json = copy.deepcopy(trees[source]), cradv or draw.random() < 0.2
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            tree = broken(draw, tree, aliases=not is_json)
        path = folder / f"t{number % 7}.{'json' if is_json else 'yaml'}"
        path.write_bytes(written(draw, tree, is_json))
        ask = (
            (lambda path=path: read_cradv(path))
            if cradv
            else limen("plan", path, "--quick", *draw.choice([[], ["--limit", 2]]))
        )
        yield Mutant(f"{source.name} #{number}", ask, path)

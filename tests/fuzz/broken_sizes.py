"""Options that are right but for one whole number, which is huge: every one of every trial type and model.
And plans that open models."""

import copy
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import yaml
from broken_experiments import broken, written
from judging import Mutant, limen
from pydantic import BaseModel

HUGE = 10**9
NEEDED: dict[str, dict[str, Any]] = {
    "instructions": {"text": "Listen."},
    "attention": {"file": "a.wav", "word": "river", "others": ["forest"]},
    "same_different": {"axes": ["noise"]},
}
TREE = {
    "audit": False,
    "tasks": [
        {
            "nets": [
                {
                    "model": {"name": "mlp", "weights": "random", "hidden": [8]},
                    "data": {"name": "digits", "limit": 2},
                }
            ],
            "attacks": [{"name": "fgsm", "budget": {"name": "linf", "eps": 0.1}}],
        }
    ],
}


def parts(annotation: Any) -> Iterator[Any]:
    yield annotation
    for one in get_args(annotation):
        yield from parts(one)


def whole_numbers(options: type[BaseModel]) -> Iterator[tuple[list[str], Any]]:
    """Path of every option that may be a whole number, or hold some, and a huge value for it."""
    for name, field in options.model_fields.items():
        inside = list(parts(field.annotation))
        if int in inside:
            default = field.default
            many = isinstance(default, tuple | list) and isinstance(default[0], int)
            yield [name], [HUGE] * len(default) if many else HUGE
        for part in inside:
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield from (([name, *path], value) for path, value in whole_numbers(part))


def ask(kind: str, name: str, path: list[str], value: Any) -> None:
    from limen.core.components import parse
    from limen.listening.study import Item
    from limen.models.base.load import load_model
    from limen.trials.base.screen import Listener

    spec: dict[str, Any] = {"name": name, **copy.deepcopy(NEEDED.get(name, {}))}
    here = spec
    for step in path[:-1]:
        here = here.setdefault(step, {})
    here[path[-1]] = value
    if kind == "models":
        load_model({**spec, "weights": "random"})
        return
    component, options = parse("trials", spec)
    items = [
        Item(id=str(k), files={"clean": f"{k}.wav", "adv": f"{k}_adv.wav"}, answer="river") for k in range(12)
    ]
    component.function(Listener(0, items, random.Random(0)), options)


def mutants(draw: random.Random, count: int, folder: Path) -> Iterator[Mutant]:
    from limen.core.components import load, names

    path = folder / "t.yaml"
    path.write_text(yaml.safe_dump(TREE))
    plan: Callable[[], None] = limen("plan", path)
    yield Mutant("unbroken", plan, path)  # it imports everything, which is no use of memory
    for kind, left_out in (
        ("trials", ()),
        ("models", ("huggingface_ctc", "huggingface_seq2seq", "torch_module", "whisper")),
    ):
        for name in names(kind):
            for way, value in whole_numbers(load(kind, name).options) if name not in left_out else ():
                yield Mutant(f"{name}.{'.'.join(way)}", partial(ask, kind, name, way, value), path)
    for number in range(count):
        path.write_bytes(written(draw, broken(draw, copy.deepcopy(TREE), aliases=True), is_json=False))
        yield Mutant(f"plan #{number}", plan, path)

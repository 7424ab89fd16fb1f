"""Who hears what in which order: all screens of a listener, and which comes next.

Both are functions of the study file, the listener's group and number, and the answers so far: nothing needs
to be remembered between two requests, and after a crash the same screens are made again.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from limen.core.components import parse
from limen.listening.study import Study
from limen.trials.base.options import refuse_many
from limen.trials.base.screen import Listener, Screen


@dataclass(frozen=True)
class StoredAnswer:
    """An answer as it was stored."""

    position: int
    answer: Mapping[str, Any]
    facts: Mapping[str, Any]
    """With `strength`, the level that was played."""


def screens(study: Study, group: str, number: int) -> list[Screen]:
    """All screens of a listener; `number` counts the listeners of the group from 0. Strengths that depend on
    answers are left open."""
    from limen.core import seeds

    items = study.items_of(group)
    out: list[Screen] = []
    for step, spec in enumerate(study.steps):
        component, options = parse("trials", spec)
        chance = random.Random(seeds.number(study.seed, "screens", group, number, step))
        made = component.function(Listener(number, items, chance), options)
        out += [_placed(screen, step, group) for screen in made]
        refuse_many(study.name, len(out))
    return out


def _placed(screen: Screen, step: int, group: str) -> Screen:
    facts = {"item": "", "condition": "", **screen.facts, "group": group}
    # two steps of the same type are two measurements
    track = f"step {step} {screen.track}" if screen.track else None
    return replace(screen, step=step, facts=facts, track=track)


def least_filled(study: Study, counts: Mapping[str, int]) -> str:
    """The group that a new listener joins: the one with the fewest, the first of equals."""
    return min(study.cells, key=lambda cell: counts.get(cell, 0))


def following(
    study: Study, planned: Sequence[Screen], answers: Sequence[StoredAnswer], seed: int
) -> tuple[int, Screen] | None:
    """Position and screen that come next; none: the end. Screens of a track that has stopped are passed
    over."""
    from limen.core import seeds
    from limen.perception import adaptive

    stopped: set[str] = set()
    for position in range(max((a.position for a in answers), default=-1) + 1, len(planned)):
        screen = planned[position]
        if screen.track is None:
            return position, screen
        if screen.track in stopped:
            continue
        options = _adaptive(json.dumps(screen.facts["adaptive"]))
        level = adaptive.next_level(
            options, history(planned, answers, screen.track), seeds.number(seed, screen.track)
        )
        if level is not None:
            return position, screen.at(level)
        stopped.add(screen.track)
    return None


@cache
def _adaptive(options: str) -> Any:
    from limen.perception import adaptive

    return adaptive.Options.model_validate_json(options)


def history(
    planned: Sequence[Screen], answers: Sequence[StoredAnswer], track: str
) -> list[tuple[float, bool]]:
    """(strength, whether "different" was said) of a track, in the order of the screens."""
    mine = sorted((a for a in answers if planned[a.position].track == track), key=lambda a: a.position)
    return [(float(a.facts["strength"]), a.answer["answer"] == "different") for a in mine]

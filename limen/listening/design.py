"""The design of a study: all screens of a listener, in order, and the next one.

Both are functions of the study file, the listener's group and number, and the answers so far: no state is
kept between two requests, and after a crash the same screens are made again.
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
from limen.trials.base.trial import trial_type


@dataclass(frozen=True)
class StoredAnswer:
    """An answer as it is stored."""

    position: int
    answer: Mapping[str, Any]
    facts: Mapping[str, Any]
    """Facts of the screen, with the `strength` that was played."""


def screens(study: Study, group: str, number: int) -> list[Screen]:
    """All screens of a listener; `number` counts the listeners of the group from 0. Strengths that depend on
    answers remain open."""
    from limen.core import seeds

    items = study.items_of(group)
    out: list[Screen] = []
    for step, spec in enumerate(study.steps):
        component, options = parse("trials", spec)
        chance = random.Random(seeds.number(study.seed, "screens", group, number, step))
        new = component.function(Listener(number, items, chance), options)
        out += [_in_step(screen, step, group) for screen in new]
        refuse_many(study.name, len(out))
    return out


def _in_step(screen: Screen, step: int, group: str) -> Screen:
    facts = {"item": "", "condition": "", **screen.facts, "group": group}
    # two steps of the same type are two measurements
    track = f"step {step} {screen.track}" if screen.track else None
    return replace(screen, step=step, facts=facts, track=track)


def least_filled(study: Study, counts: Mapping[str, int]) -> str:
    """The group that a new listener joins: the one with the fewest listeners, the first of several."""
    return min(study.cells, key=lambda cell: counts.get(cell, 0))


def next_screen(
    study: Study, planned: Sequence[Screen], answers: Sequence[StoredAnswer], seed: int
) -> tuple[int, Screen] | None:
    """Position and screen that come next; None at the end. Screens of a track that has stopped are
    skipped."""
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
    """(strength, whether the difference was noticed) for each answer of a track, in the order of the
    screens."""
    of_track = sorted((a for a in answers if planned[a.position].track == track), key=lambda a: a.position)
    signal = trial_type(planned[of_track[0].position].kind).signal if of_track else None
    return [
        (float(a.facts["strength"]), signal is not None and a.answer["answer"] == signal.answer)
        for a in of_track
    ]

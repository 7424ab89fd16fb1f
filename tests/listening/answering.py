"""Listeners who take a study through its design and its database, without a server: what they answer is up to
a function."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from limen.listening import design
from limen.listening.analysis.export import rows
from limen.listening.design import StoredAnswer
from limen.listening.server.answers import checked
from limen.listening.server.store import Store
from limen.listening.server.tables import Record
from limen.listening.study import Study
from limen.trials.base.screen import Screen

Respond = Callable[[int, Screen], dict[str, Any] | None]
"""Number of the listener and screen -> the answer; None: the listener leaves for good."""


def played(screen: Screen, proved: bool = True) -> list[dict[str, Any]]:
    return [
        {"label": s.label, "digest": "", "rate_hz": 48_000, "plays": 2, "played_s": 0.5, "proved": proved}
        for s in screen.sounds
    ]


def fill(
    plan: Study,
    where: Path,
    listeners: int,
    respond: Respond,
    seconds: Callable[[int], float] = lambda k: 4.0,
    proved: Callable[[int], bool] = lambda k: True,
) -> Store:
    """The database of a study that so many listeners took."""
    where.parent.mkdir(exist_ok=True)
    store = Store(where)
    store.bind(plan)
    for k in range(listeners):
        person = store.join(
            plan,
            f"key {k}",
            None,
            {"participant": f"Person Number{k}"},
            design.least_filled,
            lambda group, n: n,
        )
        planned = design.screens(plan, person.group_, person.number)
        past: list[StoredAnswer] = []
        while (coming := design.next_screen(plan, planned, past, person.seed)) is not None:
            position, screen = coming
            said = respond(k, screen)
            if said is None:
                break
            answer = checked(screen, said)
            past.append(StoredAnswer(position, {} if screen.personal else answer, screen.facts))
            last = design.next_screen(plan, planned, past, person.seed) is None
            store.append(
                Record(
                    person.id,
                    position,
                    f"{k}-{position}",
                    screen.step,
                    screen.kind,
                    screen.role,
                    answer,
                    screen.facts,
                    screen.truth,
                    screen.correct(answer),
                    played(screen, proved(k)),
                    1000 * seconds(k),
                    personal=screen.personal,
                    last=last,
                )
            )
    return store


def table(plan: Study, where: Path, listeners: int, respond: Respond, **more: Any) -> list[dict[str, Any]]:
    """The rows of such a study."""
    store = fill(plan, where, listeners, respond, **more)
    out = rows(store.answers(), store.listeners(), plan)
    store.close()
    return out


def study(
    steps: list[Any], n: int = 4, conditions: tuple[str, ...] = ("clean", "adversarial"), **more: Any
) -> Study:
    """n items of two classes and two loudness levels."""
    items = [
        {
            "id": f"item {k}",
            "files": {c: f"{c}{k}.wav" for c in conditions},
            "answer": ("left", "right")[k % 2],
            "factors": {"loudness": ("low", "high")[k // 2 % 2]},
        }
        for k in range(n)
    ]
    return Study.model_validate(
        {"name": "small", "title": "A small study", "items": items, "steps": steps, "listeners": 1000} | more
    )

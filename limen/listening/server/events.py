"""Events on the pages of listeners: pages hidden and shown again, sounds that did not play."""

from datetime import UTC, datetime
from typing import Any

from limen.listening import design
from limen.listening.server.store import Store
from limen.listening.study import Study
from limen.trials.base.screen import Screen


def page_events(store: Store, study: Study) -> list[dict[str, Any]]:
    """One row per event, with the columns of EVENTS, in chronological order."""
    people = {person["id"]: person for person in store.listeners()}
    planned: dict[int, list[Screen]] = {}
    rows = []
    for event in store.events():
        listener = event["listener"]
        if listener not in planned:
            number = people[listener]["number"]  # null: given to another listener before the first answer
            group = people[listener]["group"]
            planned[listener] = [] if number is None else design.screens(study, group, number)
        screen = next(iter(planned[listener][event["position"] :]), None)
        at = datetime.fromtimestamp(event["at"], UTC).isoformat(timespec="milliseconds")
        rows.append(
            {
                "listener": listener,
                "at": at,
                "position": event["position"],
                "step": screen.step if screen else None,
                "kind": screen.kind if screen else None,
                "event": event["kind"],
            }
        )
    return rows

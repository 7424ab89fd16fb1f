"""What happened on the pages of listeners while they took part: pages hidden and shown again, sounds that did
not play."""

from datetime import UTC, datetime
from typing import Any

from limen.listening import design
from limen.listening.server.store import Store
from limen.listening.study import Study
from limen.trials.base.screen import Screen


def page_events(store: Store, study: Study) -> list[dict[str, Any]]:
    """One row for each event, with the columns of EVENTS, in the order in which they happened."""
    people = {person["id"]: person for person in store.listeners()}
    planned: dict[int, list[Screen]] = {}
    out = []
    for event in store.events():
        who = event["listener"]
        if who not in planned:
            number = people[who]["number"]  # none: it went to another before the first answer
            planned[who] = [] if number is None else design.screens(study, people[who]["group"], number)
        screen = next(iter(planned[who][event["position"] :]), None)
        at = datetime.fromtimestamp(event["at"], UTC).isoformat(timespec="milliseconds")
        out.append(
            {
                "listener": who,
                "at": at,
                "position": event["position"],
                "step": screen.step if screen else None,
                "kind": screen.kind if screen else None,
                "event": event["kind"],
            }
        )
    return out

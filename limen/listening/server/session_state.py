"""Where a listener is in a study, and an answer on its way into the store."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from limen.listening.design import StoredAnswer
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type


@dataclass(frozen=True)
class Place:
    """The screen that a listener is at. Replaced as a whole: whoever looks sees one place or the next, never
    a mixture."""

    position: int
    screen: Screen
    shown: Mapping[str, Any]
    """The screen as the page knows it."""
    sounds: Mapping[str, int]
    """Index of each of its sounds, by opaque id."""


class Session:
    """One listener as computed from the store."""

    def __init__(self, row: Any, planned: Sequence[Screen], answered: list[StoredAnswer]):
        self.id, self.group, self.number, self.seed = (
            int(row.id),
            str(row.group_),
            int(row.number),
            int(row.seed),
        )
        self.finished, self.placed = row.finished_at is not None, row.placed_at is not None
        self.returning: str | None = row.returning_hash
        """What tells this listener when they return, from what their recruitment site said."""
        self.planned, self.answered = planned, answered
        self.place: Place | None = None
        """None: at the end."""
        self.positions: dict[str, int] = {}
        """Position of every screen shown so far, by the opaque id the page knows it by."""
        self.lock = threading.Lock()
        self.noted_at = float("-inf")
        """When it was last noted that the listener fetches sounds."""

    def agrees_before(self, position: int) -> bool:
        """Whether no screen from this position on asks for consent."""
        return not any(trial_type(screen.kind).asks_consent for screen in self.planned[position:])


@dataclass(frozen=True)
class Offer:
    """An answer that was handed to the store."""

    key: str
    screen: str
    """Opaque id of the screen it is an answer to."""
    session: Session
    place: Place | None = None
    kept: StoredAnswer | None = None
    following: tuple[int, Screen] | None = None
    """What comes after it; None: the end."""
    stored: "Future[bool] | None" = None
    """Done after the commit: whether it was stored, or there was one already. None: there was one before it
    was offered."""
    earns: bool = False
    """With it the listener takes a place."""

"""The state of one listener's session, and an answer that is being stored."""

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from limen.listening.design import StoredAnswer
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type


@dataclass(frozen=True)
class CurrentScreen:
    """The screen a listener is at. Immutable and replaced as one object, so that other threads never see a
    mixture of two screens."""

    position: int
    screen: Screen
    public: Mapping[str, Any]
    """The screen as sent to the page."""
    sounds: Mapping[str, int]
    """Index of each of its sounds, by opaque id."""


class Session:
    """One listener, as computed from the store."""

    def __init__(self, row: Any, planned: Sequence[Screen], answered: list[StoredAnswer]):
        self.id, self.group = int(row.id), str(row.group_)
        self.number, self.seed = int(row.number), int(row.seed)
        self.finished, self.has_place = row.finished_at is not None, row.placed_at is not None
        self.returning_hash: str | None = row.returning_hash
        """Recognises this listener if their recruitment site sends them again."""
        self.planned, self.answered = planned, answered
        self.current: CurrentScreen | None = None
        """None at the end."""
        self.positions: dict[str, int] = {}
        """Position of every screen shown so far, by its opaque id."""
        self.lock = threading.Lock()
        self.activity_noted_at = float("-inf")
        """When the store last noted that the listener fetches sounds, by the monotonic clock."""

    def consented_before(self, position: int) -> bool:
        """Whether no screen from this position on asks for consent."""
        return not any(trial_type(screen.kind).asks_consent for screen in self.planned[position:])


@dataclass(frozen=True)
class PendingAnswer:
    """An answer that was handed to the store."""

    key: str
    screen: str
    """Opaque id of the screen it answers."""
    session: Session
    current: CurrentScreen | None = None
    answer: StoredAnswer | None = None
    next_screen: tuple[int, Screen] | None = None
    """Position and screen that follow it; None at the end."""
    stored: "Future[bool] | None" = None
    """Done after the commit, with whether the answer was new. None: the screen had been answered before."""
    takes_place: bool = False
    """With this answer the listener takes one of the study's places."""

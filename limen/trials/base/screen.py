"""Screens: what a listener sees at one time, with sounds to play and widgets to answer with.

A trial type makes screens from the items of a study. `Screen.public` is all that a page receives; what X is,
file names, conditions and right answers remain on the server.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

Role = Literal["page", "check", "teaching", "trial", "sentinel", "catch"]
"""Purpose of a screen. Only trials are analysed; checks, sentinels and catch trials are used by the exclusion
rules."""


@dataclass(frozen=True)
class Effect:
    """A degradation along one axis; strength 0 changes nothing, 100 is the strongest."""

    axis: Mapping[str, Any]
    """Spec of an axis: {"name": "noise", "colour": "pink"}."""
    strength: float | None
    """None: chosen by the adaptive method of the track when the screen is reached."""


@dataclass(frozen=True)
class Stimulus:
    """A sound: a file of the study, then effects in order."""

    file: str
    """Relative to the folder of the study file; "limen:loud", "limen:soft", "limen:tone:normal",
    "limen:tone:quiet" and "limen:tone:antiphase" are generated."""
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True)
class Sound:
    label: str
    """Label on the page: "A", "X", "Clip"."""
    stimulus: Stimulus
    condition: str = ""
    """Condition of its item; not sent to the page."""
    rated: bool = True
    """Whether a widget with `each_sound` asks about it; the open reference of MUSHRA is not rated."""


@dataclass(frozen=True)
class Choice:
    value: str
    label: str


@dataclass(frozen=True)
class Widget:
    """A question and how it is answered."""

    name: str
    """Key of the answer."""
    kind: Literal["choose", "slide", "type"]
    question: str
    choices: tuple[Choice, ...] = ()
    """For `choose`: the possible answers."""
    low: float = 0
    high: float = 100
    step: float = 1
    anchors: tuple[str, ...] = ()
    """For `slide`: words along the scale, lowest first."""
    each_sound: bool = False
    """One answer for every rated sound, keyed by its label: MUSHRA."""
    required: bool = True
    longest: int = 2000
    """For `type`: maximum number of characters."""
    other: str = ""
    """For `choose`: label of a free-text answer after the choices, stored as "other:" and the text."""


@dataclass(frozen=True)
class Screen:
    kind: str
    """The trial type that made it."""
    role: Role
    title: str = ""
    text: str = ""
    """Plain paragraphs, separated by empty lines."""
    sounds: tuple[Sound, ...] = ()
    widgets: tuple[Widget, ...] = ()
    plays: int | None = None
    """How often each sound may be played; None: without limit. See `over_limit`."""
    switch: bool = False
    """All sounds run in parallel: choosing another one continues in it at the same position."""
    hear_all: bool = True
    """Every sound must have been played to its end once before an answer is accepted."""
    truth: Mapping[str, Any] = field(default_factory=dict)
    """The right answer by widget; not sent to the page. Empty: there is none."""
    feedback: bool = False
    """The right answer is shown once the listener's own is stored: training."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the results are grouped by (item, condition, axis, ...); not sent to the page."""
    track: str | None = None
    """Name shared by the screens of one adaptive measurement."""
    personal: bool = False
    """The answer is personal data: kept apart from the others, and can be erased."""
    step: int = 0
    """Index of its step in the study file; set by the design."""
    decline: str = ""
    """Label of a button that ends the study: "I do not agree". Empty: there is none."""

    def over_limit(self, plays: Sequence[int]) -> int:
        """Number of plays beyond the limit, given the plays of each sound. A play is one start, or one
        repetition of a loop; switching belongs to the same play, so if switching is possible all sounds share
        one limit."""
        if self.plays is None:
            return 0
        return (
            max(0, sum(plays) - self.plays * len(self.sounds))
            if self.switch
            else sum(max(0, n - self.plays) for n in plays)
        )

    def public(self) -> dict[str, Any]:
        """What is sent to a page; the server adds the addresses of the sounds."""
        return {
            "kind": self.kind,
            "role": "trial" if self.role in ("sentinel", "catch") else self.role,
            "title": self.title,
            "text": self.text,
            "sounds": [{"label": s.label, "rated": s.rated} for s in self.sounds],
            "widgets": [_shown(w) for w in self.widgets],
            "plays": self.plays,
            "switch": self.switch,
            "hear_all": self.hear_all,
            "decline": self.decline,
        }

    def correct(self, answer: Mapping[str, Any]) -> bool | None:
        """Whether the answer is right; None if there is no right answer."""
        return all(answer.get(name) == value for name, value in self.truth.items()) if self.truth else None

    def at(self, strength: float) -> "Screen":
        """The same screen with the open strengths of its effects set."""

        def set_strength(sound: Sound) -> Sound:
            effects = tuple(
                replace(e, strength=strength) if e.strength is None else e for e in sound.stimulus.effects
            )
            return replace(sound, stimulus=replace(sound.stimulus, effects=effects))

        return replace(
            self, sounds=tuple(map(set_strength, self.sounds)), facts={**self.facts, "strength": strength}
        )


@dataclass(frozen=True)
class Listener:
    """What a trial type makes screens from: the items for this listener, and a random stream for this
    listener and step."""

    number: int
    """Number of the listener within their group, from 0: the row of a Latin square."""
    items: Sequence[Any]
    """Items (limen.listening.study.Item) of the listener's group, in the order of the study file."""
    random: random.Random
    """Seeded by study, listener and step, so the same screens can be made again."""


@lru_cache(maxsize=4096)
def _shown(widget: Widget) -> dict[str, Any]:
    """Cached: all listeners of a study get the same widgets."""
    return asdict(widget)


def choices(*values: str) -> tuple[Choice, ...]:
    return tuple(Choice(v, v) for v in values)


def latin_row(n: int, row: int) -> list[int]:
    """Row of a Williams square (Williams 1949, https://doi.org/10.1071/CH9490149): over its rows (n if n is
    even, else 2 n) every number is in every place equally often and follows every other number equally
    often."""
    first = [(i + 1) // 2 if i % 2 else (n - i // 2) % n for i in range(n)]
    order = [(v + row) % n for v in first]
    return order[::-1] if n % 2 and (row // n) % 2 else order

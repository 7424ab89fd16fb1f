"""What a listener meets: one screen at a time, with sounds to play and a few widgets to answer with.

A trial type makes screens from the items of a study. Everything a page may know is in `Screen.public`; what X
is, file names, conditions and right answers stay on the server.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

Role = Literal["page", "check", "teaching", "trial", "sentinel", "catch"]
"""What a screen is for. Only a trial counts in the results; checks, sentinels and catch trials feed the
exclusion rules."""


@dataclass(frozen=True)
class Effect:
    """A degradation by one axis; strength 0 changes nothing, 100 is the strongest."""

    axis: Mapping[str, Any]
    """Spec of an axis: {"name": "noise", "colour": "pink"}."""
    strength: float | None
    """None: chosen by the track of the screen when the listener gets there."""


@dataclass(frozen=True)
class Stimulus:
    """Recipe of a sound: a file of the study, then effects in order."""

    file: str
    """Relative to the folder of the study file; "limen:loud", "limen:soft", "limen:tone:normal",
    "limen:tone:quiet" and "limen:tone:antiphase" are sounds that we make."""
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True)
class Sound:
    label: str
    """What the listener sees: "A", "X", "Clip"."""
    stimulus: Stimulus
    condition: str = ""
    """Which condition of its item it plays; secret."""
    rated: bool = True
    """Whether a widget with `each_sound` asks about it; the reference of MUSHRA is only there to compare
    with."""


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
    """Of `choose`: one of these values is the answer."""
    low: float = 0
    high: float = 100
    step: float = 1
    anchors: tuple[str, ...] = ()
    """Of `slide`: words along the scale, lowest first."""
    each_sound: bool = False
    """One answer for every rated sound, keyed by its label: MUSHRA."""
    required: bool = True
    longest: int = 2000
    """Of `type`: most characters."""
    other: str = ""
    """Of `choose`: label of a free answer beside the choices; the answer is then "other:" and what was
    typed."""


@dataclass(frozen=True)
class Screen:
    kind: str
    """The trial type that made it."""
    role: Role
    title: str = ""
    text: str = ""
    """Plain paragraphs, parted by empty lines."""
    sounds: tuple[Sound, ...] = ()
    widgets: tuple[Widget, ...] = ()
    plays: int | None = None
    """How often each sound may be played; None: as often as one likes. See `over_limit`."""
    switch: bool = False
    """All sounds run together, and pressing another one goes on in it at the same place."""
    hear_all: bool = True
    """Every sound must have been played to its end once before an answer is taken."""
    truth: Mapping[str, Any] = field(default_factory=dict)
    """The right answer by widget; secret. Empty: there is none."""
    feedback: bool = False
    """The right answer is told once the listener's own is stored: teaching."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What the results are sorted by (item, condition, axis, ...); secret."""
    track: str | None = None
    """Screens of one adaptive measurement share a name."""
    personal: bool = False
    """The answer is kept apart from the others and can be erased."""
    step: int = 0
    """Which step of the study file it belongs to; set by the design."""
    decline: str = ""
    """Label of a button that ends the study instead of an answer: "I do not agree". Empty: there is none."""

    def over_limit(self, plays: Sequence[int]) -> int:
        """Plays beyond the limit, from those of each sound. A play is one start, or one more time round of a
        loop; switching meanwhile is part of the same play, so where one can switch the plays belong to all
        sounds together."""
        if self.plays is None:
            return 0
        return (
            max(0, sum(plays) - self.plays * len(self.sounds))
            if self.switch
            else sum(max(0, n - self.plays) for n in plays)
        )

    def public(self) -> dict[str, Any]:
        """What a page may know; the addresses of the sounds are added by the server."""
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
        """Whether the answer is the right one; None where there is no right one."""
        return all(answer.get(name) == value for name, value in self.truth.items()) if self.truth else None

    def at(self, strength: float) -> "Screen":
        """With the open strengths of its effects set."""

        def heard(sound: Sound) -> Sound:
            effects = tuple(
                replace(e, strength=strength) if e.strength is None else e for e in sound.stimulus.effects
            )
            return replace(sound, stimulus=replace(sound.stimulus, effects=effects))

        return replace(
            self, sounds=tuple(map(heard, self.sounds)), facts={**self.facts, "strength": strength}
        )


@dataclass(frozen=True)
class Listener:
    """What a trial type may draw on: the items this listener is to hear, and chance of this listener's and
    this step's own."""

    number: int
    """Counts the listeners of the study from 0, within their cell: the row of a Latin square."""
    items: Sequence[Any]
    """Items (limen.listening.study.Item) of the listener's group, in the order of the study file."""
    random: random.Random
    """Seeded by study, listener and step: the same screens whenever they are made again."""


@lru_cache(maxsize=4096)
def _shown(widget: Widget) -> dict[str, Any]:
    """Made once: every listener of a study is asked the same."""
    return asdict(widget)


Maker = Callable[[Listener, Any], list[Screen]]
"""A trial type: `def abx(listener: Listener, options: Abx) -> list[Screen]`."""


def choices(*values: str) -> tuple[Choice, ...]:
    return tuple(Choice(v, v) for v in values)


def latin_row(n: int, row: int) -> list[int]:
    """Row of a Williams square (Williams 1949, https://doi.org/10.1071/CH9490149): over its rows, n if n is
    even, else 2 n, every number stands equally often in every place and follows every other equally often."""
    first = [(i + 1) // 2 if i % 2 else (n - i // 2) % n for i in range(n)]
    order = [(v + row) % n for v in first]
    return order[::-1] if n % 2 and (row // n) % 2 else order

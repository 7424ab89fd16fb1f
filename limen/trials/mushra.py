"""MUSHRA (ITU-R BS.1534-3, https://www.itu.int/rec/R-REC-BS.1534): all conditions of an item on one screen
beside an open reference, each rated from 0 to 100, with instant switching between them. Among them, unmarked,
are the reference itself and its low-passed versions at 3.5 and 7 kHz, made here.
"""

import string
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from limen.trials.base.options import ItemTrials, facts, session
from limen.trials.base.screen import Effect, Listener, Role, Screen, Sound, Stimulus, Widget

LETTERS = [letter for letter in string.ascii_uppercase if letter not in "LR"]
"""Names of the rated sounds; on the page L is the key of the loop and R that of the reference."""


class Mushra(ItemTrials):
    reference: str | None = None
    """Condition that is the reference; null: the first of each item."""
    conditions: list[str] | None = None
    """Conditions that are rated; null: all an item has beside the reference."""
    anchors_hz: list[float] = Field(default=[3500.0, 7000.0], max_length=4)
    """Cutoffs of the low-passed versions of the reference; one beyond half the clips' sample rate changes
    nothing. Empty: none."""
    question: str = Field(default="How good is each clip, compared with the reference?", max_length=500)
    """What is asked."""
    scale: list[str] = Field(default=["bad", "poor", "fair", "good", "excellent"])
    """Words along the scale, lowest first."""


def mushra(listener: Listener, options: Mushra) -> list[Screen]:
    widget = Widget("rating", "slide", options.question, anchors=tuple(options.scale), each_sound=True)

    def reference(item: Any) -> str:
        return options.reference or next(iter(item.files))

    def rated(item: Any) -> list[str]:
        others = [c for c in item.files if c != reference(item)]
        return [c for c in others if options.conditions is None or c in options.conditions]

    def cases(items: Sequence[Any]) -> list[Any]:
        return [i for i in items if reference(i) in i.files and rated(i)]

    def screen(item: Any, turn: int, role: Role) -> Screen:
        clean = item.files[reference(item)]
        hidden = [(reference(item), Stimulus(clean)), *((c, Stimulus(item.files[c])) for c in rated(item))]
        for cutoff in options.anchors_hz:
            effect = Effect({"name": "low_pass", "cutoff_hz": cutoff}, 100.0)
            hidden.append((f"low-pass {cutoff / 1000:g} kHz", Stimulus(clean, (effect,))))
        listener.random.shuffle(hidden)
        open_one = Sound("Reference", Stimulus(clean), reference(item), rated=False)
        sounds = (open_one, *(Sound(_letter(k), s, name) for k, (name, s) in enumerate(hidden)))
        return Screen(
            "mushra",
            role,
            options.title,
            options.text,
            sounds,
            (widget,),
            options.plays,
            switch=True,
            facts=facts(item, "", sounds, reference=reference(item)),
        )

    return session("mushra", listener, options, cases, screen)


def _letter(k: int) -> str:
    return LETTERS[k % len(LETTERS)] + (str(k // len(LETTERS)) if k >= len(LETTERS) else "")

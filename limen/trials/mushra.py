"""MUSHRA: all versions of a clip rated from 0 to 100 on one screen, with an open reference.

ITU-R BS.1534-3, https://www.itu.int/rec/R-REC-BS.1534. The listener switches between the versions at any
time. Among them, without being marked, are the reference itself and its low-pass versions at 3.5 and 7 kHz,
which Limen makes.
"""

import string
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field

from limen.trials.base.options import ItemTrials, facts, session
from limen.trials.base.screen import Effect, Listener, Role, Screen, Sound, Stimulus, Widget
from limen.trials.base.trial import HypothesisKind

LETTERS = [letter for letter in string.ascii_uppercase if letter not in "LR"]
"""Labels of the rated sounds; on the page the key L is for the loop and R for the reference."""


class Mushra(ItemTrials):
    results_title: ClassVar[str] = "MUSHRA"
    analyses: ClassVar[tuple[str, ...]] = ("sliders",)
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ("different",)
    hidden_reference: ClassVar[bool] = True

    reference: str | None = None
    """Condition used as the reference; null: the first of each item."""
    conditions: list[str] | None = None
    """Conditions that are rated; null: all conditions of an item except the reference."""
    anchors_hz: list[float] = Field(default=[3500.0, 7000.0], max_length=4)
    """Cutoffs of the low-pass versions of the reference; one above half the sample rate of the clips changes
    nothing. Empty: no anchors."""
    question: str = Field(default="How good is each clip, compared with the reference?", max_length=500)
    """The question."""
    scale: list[str] = Field(default=["bad", "poor", "fair", "good", "excellent"])
    """Words along the scale, lowest first."""

    def reference_of(self, item: Any) -> str:
        return self.reference or super().reference_of(item)


def mushra(listener: Listener, options: Mushra) -> list[Screen]:
    widget = Widget("rating", "slide", options.question, anchors=tuple(options.scale), each_sound=True)

    def rated(item: Any) -> list[str]:
        others = [c for c in item.files if c != options.reference_of(item)]
        return [c for c in others if options.conditions is None or c in options.conditions]

    def cases(items: Sequence[Any]) -> list[Any]:
        return [i for i in items if options.reference_of(i) in i.files and rated(i)]

    def screen(item: Any, turn: int, role: Role) -> Screen:
        reference = options.reference_of(item)
        clean = item.files[reference]
        hidden = [(reference, Stimulus(clean)), *((c, Stimulus(item.files[c])) for c in rated(item))]
        for cutoff in options.anchors_hz:
            effect = Effect({"name": "low_pass", "cutoff_hz": cutoff}, 100.0)
            hidden.append((f"low-pass {cutoff / 1000:g} kHz", Stimulus(clean, (effect,))))
        listener.random.shuffle(hidden)
        open_one = Sound("Reference", Stimulus(clean), reference, rated=False)
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
            facts=facts(item, "", sounds, reference=reference),
        )

    return session("mushra", listener, options, cases, screen)


def _letter(k: int) -> str:
    return LETTERS[k % len(LETTERS)] + (str(k // len(LETTERS)) if k >= len(LETTERS) else "")

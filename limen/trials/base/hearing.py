r"""Simulated listeners: models of how they hear and how they answer a widget.

The models are those of textbooks, so an analysis can be checked against the parameters:
  choice           right with probability p: with 2p - 1 the listener hears the answer, else guesses (ABX), or
                   hears it with probability p and otherwise gives a wrong answer
  same/different   P("different") = f + (1 - f - l) Phi((strength - t) / s), t drawn per listener and axis,
                   f false alarms, l lapses
  ratings          normal around the quality of the condition; the better of two wins by Bradley and
                   Terry's model
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp
from typing import Any

from pydantic import Field

from limen.core.options import Options
from limen.core.seeds import number
from limen.trials.base.screen import Screen, Sound, Widget

HIDDEN_REFERENCE = "reference"
"""Key of the hidden reference in `quality`, for any name of the condition."""


class Hearing(Options):
    """Parameters of simulated listeners. A mapping is looked up by axis, condition, group or value of a
    factor; its key "" is the default."""

    right: dict[str, float] = Field(default={"": 0.75})
    """Probability of a right answer in ABX."""
    threshold: dict[str, float] = Field(default={"": 40.0})
    """Mean threshold in same/different, in strengths from 0 to 100."""
    threshold_sd: float = Field(default=8.0, ge=0)
    """Standard deviation of thresholds between listeners."""
    slope: float = Field(default=6.0, gt=0)
    lapse: float = Field(default=0.02, ge=0, lt=1)
    false_alarm: float = Field(default=0.04, ge=0, lt=1)
    word: dict[str, float] = Field(default={"": 0.94})
    """Probability of the right word, or of a right answer to any other question that has one."""
    attention: float = Field(default=0.99, ge=0, le=1)
    """Probability of a right answer to a check or a sentinel."""
    quality: dict[str, float] = Field(default={"": 0.6, "reference": 0.97, "clean": 0.8})
    """Mean rating on a scale of quality from 0 (worst) to 1 (best); "reference" is the hidden reference."""
    quality_sd: float = Field(default=0.15, gt=0)
    reference_sd: float = Field(default=0.03, gt=0)
    """Standard deviation for a hidden reference, which most listeners recognise."""
    response_s: float = Field(default=4.0, gt=0)
    """Median time of an answer."""


@dataclass
class SimulatedListener:
    """A simulated listener and their true parameters."""

    seed: int
    hearing: Hearing
    thresholds: dict[str, float] = field(default_factory=dict)
    """The listener's own threshold on each axis that was played."""

    def threshold(self, axis: str) -> float:
        if axis not in self.thresholds:
            mean = entry(self.hearing.threshold, {"axis": axis})
            own = random.Random(number(self.seed, "threshold", axis)).gauss(mean, self.hearing.threshold_sd)
            self.thresholds[axis] = min(max(own, 0.0), 100.0)
        return self.thresholds[axis]

    def notices(self, screen: Screen) -> float:
        """Probability of calling a pair different."""
        from limen.perception.psychometric import probability

        strength, axis = screen.facts.get("strength", 0.0), str(screen.facts.get("axis", ""))
        hearing = self.hearing
        if not strength:
            return hearing.false_alarm
        threshold = self.threshold(axis)
        return float(probability(strength, threshold, hearing.slope, hearing.lapse, hearing.false_alarm))


def entry(table: Mapping[str, float], facts: Mapping[str, Any]) -> float:
    """The entry of a table for the axis, condition, group or any other fact of a screen."""
    first = [facts.get(name) for name in ("axis", "condition", "group")]
    values = [str(v) for v in [*first, *facts.values()] if isinstance(v, str | int | float)]
    return table.get(next((v for v in values if v in table), ""), 0.5)


def unguided_answer(
    listener: SimulatedListener, screen: Screen, widget: Widget, knows: bool, chance: random.Random
) -> Any:
    """Answer to a widget without a right answer: a rating, a preference, a text or any choice. None: it is
    left empty."""
    values = [choice.value for choice in widget.choices]
    if widget.each_sound:
        rated = [s for s in screen.sounds if s.rated]
        return {s.label: _rating(listener, widget, _facts_of(listener, screen, s), chance) for s in rated}
    if widget.kind == "slide" or (values and all(v.isdigit() for v in values)):
        return _rating(listener, widget, screen.facts, chance)
    pair = [s for s in screen.sounds if s.rated and s.label in values]
    if len(pair) == 2:
        quality = listener.hearing.quality
        first, second = (entry(quality, {**screen.facts, "condition": s.condition}) for s in pair)
        return pair[chance.random() >= 1 / (1 + exp((second - first) / listener.hearing.quality_sd))].label
    if values:
        return chance.choice(values)
    return (screen.facts.get("spoken") if knows else None) or (
        "nothing"[: widget.longest] if widget.required else None
    )


def confidence(values: list[str], knows: bool, chance: random.Random) -> str:
    """High confidence is then always right, low confidence half of the time."""
    typical = chance.random() < 0.8
    return values[-1 if knows else 0] if typical or len(values) < 3 else values[len(values) // 2]


def _facts_of(listener: SimulatedListener, screen: Screen, sound: Sound) -> dict[str, Any]:
    """Facts about one sound of a screen on which each is rated; the condition of the sound that is the same
    as the open reference is `HIDDEN_REFERENCE`."""
    quality = listener.hearing.quality
    hidden = sound.condition == screen.facts.get("reference") and HIDDEN_REFERENCE in quality
    # the fact `reference` is about another sound
    others = {name: value for name, value in screen.facts.items() if name != "reference"}
    return {**others, "condition": HIDDEN_REFERENCE if hidden else sound.condition}


def _rating(
    listener: SimulatedListener, widget: Widget, facts: Mapping[str, Any], chance: random.Random
) -> Any:
    """A value of the scale, or the nearest choice."""
    hearing = listener.hearing
    hidden = facts.get("condition") == HIDDEN_REFERENCE
    sd = hearing.reference_sd if hidden else hearing.quality_sd
    place = min(max(chance.gauss(entry(hearing.quality, facts), sd), 0.0), 1.0)
    if widget.choices:
        return widget.choices[round(place * (len(widget.choices) - 1))].value
    return widget.low + widget.step * round(place * (widget.high - widget.low) / widget.step)

"""ABX: X is the same clip as A or as B. Which one, and how sure is the listener?

Munson & Gardner 1950, https://doi.org/10.1121/1.1917190. A and B are two conditions of an item, X is one of
them again; which condition is A and which is X go through their four combinations over items and listeners. A
catch trial plays three equal clips: a listener who is sure of the answer is not listening. Vadillo & Santana
2022, https://arxiv.org/abs/2001.08444, section 5.1, has six trials, each clip at most twice, and one catch
trial at the end.
"""

import random
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from limen.trials.base.hearing import SimulatedListener, entry
from limen.trials.base.options import MOST_TRIALS, ComparedTrials, chosen, facts, session
from limen.trials.base.screen import Listener, Role, Screen, Sound, Stimulus, Widget, choices
from limen.trials.base.trial import HypothesisKind, Signal


class Abx(ComparedTrials):
    results_title: ClassVar[str] = "ABX"
    analyses: ClassVar[tuple[str, ...]] = ("choices",)
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ("above_chance", "equivalent", "different")
    signal: ClassVar[Signal | None] = Signal("A", "abx")

    conditions: tuple[str, str] | None = None
    """The two conditions: [clean, adversarial]; results name the second. null: the first two of each item."""
    question: str = Field(default="X is the same clip as A or as B. Which one is it?", max_length=500)
    """The question."""
    confidence: list[str] = Field(default=["low", "medium", "high"])
    """Answers to "How sure are you?", lowest first; empty: the question is left out."""
    catch: int = Field(default=0, ge=0, le=MOST_TRIALS)
    """Number of extra trials in which all three clips are equal."""
    catch_place: Literal["end", "random"] = "end"
    """Where catch trials are placed. At the end they cannot influence the other answers."""

    @field_validator("conditions")
    @classmethod
    def _different(cls, value: tuple[str, str] | None) -> tuple[str, str] | None:
        if value is not None and value[0] == value[1]:
            raise ValueError(
                f"expected two different conditions, got {value[0]} twice: A, B and X would be the same clip."
            )
        return value

    def confidences(self) -> list[str]:
        return self.confidence

    @classmethod
    def knows(cls, listener: SimulatedListener, screen: Screen, chance: random.Random) -> bool:
        """With the probability that makes p of the answers right if the others are guesses."""
        return bool(screen.truth) and chance.random() < 2 * entry(listener.hearing.right, screen.facts) - 1

    @classmethod
    def guess(cls, values: Sequence[str], right: str, chance: random.Random) -> str:
        return chance.choice(values)


def abx(listener: Listener, options: Abx) -> list[Screen]:
    widgets = [Widget("answer", "choose", options.question, choices("A", "B"))]
    if options.confidence:
        widgets.append(Widget("confidence", "choose", "How sure are you?", choices(*options.confidence)))

    def screen(
        files: dict[str, tuple[str, str]],
        item: Any,
        role: Role,
        condition: str,
        truth: dict[str, str],
        **more: Any,
    ) -> Screen:
        sounds = tuple(Sound(label, Stimulus(file), name) for label, (name, file) in files.items())
        return Screen(
            "abx",
            role,
            options.title,
            options.text,
            sounds,
            tuple(widgets),
            options.plays,
            options.switch,
            truth=truth,
            facts=facts(item, condition, sounds, **more),
        )

    def trial(item: Any, turn: int, role: Role) -> Screen:
        reference, test = _pair(item, options)
        a, b = (reference, test)[:: -1 if turn % 2 else 1]
        x = "AB"[turn // 2 % 2]
        files = {
            label: (name, item.files[name])
            for label, name in (("A", a), ("B", b), ("X", a if x == "A" else b))
        }
        return screen(files, item, role, test, {"answer": x}, reference=reference, x=x)

    screens = session("abx", listener, options, lambda items: _usable(items, options), trial)
    usable = _usable(chosen(listener.items, options.where), options)
    used = {s.facts["item"] for s in screens if s.sounds}
    for _ in range(options.catch):
        # an item that no trial is about, if there is one
        item = listener.random.choice([i for i in usable if i.id not in used] or usable)
        used.add(item.id)
        same = _pair(item, options)[0]
        one = screen(
            {label: (same, item.files[same]) for label in "ABX"},
            item,
            "catch",
            same,
            {},
            reference=same,
            x="",
        )
        first = sum(s.role == "teaching" for s in screens)
        screens.insert(
            len(screens) if options.catch_place == "end" else listener.random.randint(first, len(screens)),
            one,
        )
    return screens


def _pair(item: Any, options: Abx) -> tuple[str, str]:
    first, second, *_ = options.conditions or item.files
    return first, second


def _usable(items: Sequence[Any], options: Abx) -> list[Any]:
    return [
        i
        for i in items
        if (all(c in i.files for c in options.conditions) if options.conditions else len(i.files) >= 2)
    ]

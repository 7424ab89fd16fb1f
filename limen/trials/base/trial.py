"""Facts that every trial type declares about itself.

The server, the checks, the analysis, the simulation and the results page read them from here; none of them
knows a trial type by its name.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from limen.core.components import load, names
from limen.core.options import Options
from limen.trials.base.columns import ExportColumn
from limen.trials.base.findings import Answers, Findings
from limen.trials.base.hearing import SimulatedListener, confidence, entry, unguided_answer
from limen.trials.base.screen import Role, Screen, Widget

HypothesisKind = Literal["above_chance", "equivalent", "different"]


@dataclass(frozen=True)
class Signal:
    """A task of signal detection theory with two answers."""

    answer: str
    """A hit if it is right and a false alarm if it is not."""
    design: Literal["abx", "same-different"]
    needs_both: bool = False
    """Answers are counted as right or wrong only if each of the two was right in some trials."""


class TrialOptions(Options):
    """Options of a trial type, and the facts about it that others need."""

    results_title: ClassVar[str] = ""
    """Heading on the results page; empty: the name in words."""
    role: ClassVar[Role] = "page"
    """What its screens are for, besides teaching, sentinels, catch trials and breaks."""
    analyses: ClassVar[tuple[str, ...]] = ()
    """Analyses of its answers, by file name in limen/listening/analyses: choices (there is a right answer),
    ratings, sliders, preference, transcriptions, thresholds. One that finds no answers of its kind gives no
    result. An analysis of its own is the method `analyse`."""
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ()
    """Kinds of hypotheses that its answers can decide."""
    signal: ClassVar[Signal | None] = None
    """Its task of signal detection theory; None: it is none."""
    two_sided: ClassVar[bool] = False
    """No answer is right; either of two conditions may be favoured, so tests are two-sided."""
    hidden_reference: ClassVar[bool] = False
    """Conditions are rated against a reference, which is among them without being marked."""
    tracks_thresholds: ClassVar[bool] = False
    """Each screen compares a reference with a test, whose strength follows from the answers; its option
    `adaptive` (limen.perception.adaptive.Options) says how."""
    words_count_for: ClassVar[str] = ""
    """Trial type whose results include the words chosen together with its ratings; empty: there are none."""
    columns: ClassVar[Mapping[str, ExportColumn]] = {}
    """Columns that it adds to `limen listen export`: fact of its screens -> meaning."""
    personal: ClassVar[bool] = False
    """Its answers are personal data: kept apart from the others, and erased on request."""
    asks_consent: ClassVar[bool] = False
    """Listeners agree here to take part, or leave."""
    sets_level: ClassVar[bool] = False
    """Listeners set the volume here."""
    text_only: ClassVar[bool] = False
    """There is nothing to answer."""
    exclusion: ClassVar[str] = "{name: checks}"
    """For a check: the exclusion rule that uses it, as a study file writes it. A rule with the name of the
    trial type counts its screens alone."""

    def chance(self, items: Sequence[Any]) -> float:
        """Share of right answers that guessing gives; `items` are those of the study."""
        return 0.5

    def confidences(self) -> Sequence[str]:
        """Answers to "How sure are you?", lowest first; empty: the question is left out."""
        return ()

    def levels(self) -> tuple[float, ...]:
        """Steps of its rating scale; empty: they follow from the answers."""
        return ()

    def reference_of(self, item: Any) -> str:
        """Condition of an item that others are compared with."""
        return str(next(iter(item.files)))

    @classmethod
    def analyse(cls, answers: Answers) -> Findings | None:
        """Analysis of its own, besides those named in `analyses`; None: there is none."""
        return None

    @classmethod
    def knows(cls, listener: SimulatedListener, screen: Screen, chance: random.Random) -> bool:
        """Whether a simulated listener hears the right answer to a trial, rather than guesses."""
        return chance.random() < entry(listener.hearing.word, screen.facts)

    @classmethod
    def guess(cls, values: Sequence[str], right: str, chance: random.Random) -> str:
        """Choice of a simulated listener who does not hear the right one: another one."""
        return chance.choice([v for v in values if v != right] or list(values))

    @classmethod
    def simulated_answer(
        cls, listener: SimulatedListener, screen: Screen, widget: Widget, knows: bool, chance: random.Random
    ) -> Any:
        """Answer of a simulated listener to a widget; None: it is left empty."""
        values = [choice.value for choice in widget.choices]
        if widget.name == "confidence" and values:
            return confidence(values, knows, chance)
        if widget.name not in screen.truth:
            return unguided_answer(listener, screen, widget, knows, chance)
        right = screen.truth[widget.name]
        return right if knows or not values else cls.guess(values, right, chance)


def trial_type(name: str) -> type[TrialOptions]:
    """The options class of a trial type, which declares all facts about it."""
    options = load("trials", name).options
    if not issubclass(options, TrialOptions):
        raise TypeError(
            f"The options of the trial type {name} must extend TrialOptions (limen.trials.base.trial)."
        )
    return options


def title_of(name: str) -> str:
    """Heading of a trial type: "ABX", "Same or different"."""
    return trial_type(name).results_title or name.replace("_", " ").capitalize()


def trial_types(fact: str) -> list[str]:
    """Names of the trial types for which a declared fact is true."""
    return [name for name in names("trials") if getattr(trial_type(name), fact)]

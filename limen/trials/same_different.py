"""Same or different: are two clips exactly the same?

The strength of the difference follows from the answers, to find the just noticeable difference.

As in Manocha et al. 2020, https://arxiv.org/abs/2001.04460, sections 2.1 and 3.2: a track is one reference,
degraded at random beforehand, and one direction (an axis, or several applied one after the other in random
order), whose strength an adaptive method chooses. Their task is three tracks of eight trials with two
sentinels each and two teaching trials: `tracks: 3`, `adaptive: {max_trials: 8}`, `sentinels: 2`, `teaching:
2`. The sounds of a screen have the same power, so loudness does not reveal the difference.
"""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, field_validator

from limen.core.components import spec_of
from limen.core.errors import UserError
from limen.perception.adaptive import Options as Adaptive
from limen.trials.base.hearing import SimulatedListener
from limen.trials.base.options import MOST_TRIALS, Trials, chosen, facts, refuse_many, taught, with_pauses
from limen.trials.base.screen import Effect, Listener, Role, Screen, Sound, Stimulus, Widget, choices
from limen.trials.base.trial import HypothesisKind, Signal

Axis = Annotated[
    dict[str, Any],
    BeforeValidator(lambda v: {"name": v} if isinstance(v, str) else v),
    spec_of("degradations"),
]


class SameDifferent(Trials):
    results_title: ClassVar[str] = "Same or different"
    analyses: ClassVar[tuple[str, ...]] = ("thresholds", "choices")
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ("above_chance", "equivalent", "different")
    signal: ClassVar[Signal | None] = Signal("different", "same-different", needs_both=True)
    tracks_thresholds: ClassVar[bool] = True
    example: ClassVar[dict[str, Any]] = {"axes": ["noise", "mp3"], "sentinels": 1, "same": 1}

    axes: list[Axis | Annotated[list[Axis], Field(min_length=1)]] = Field(min_length=1)
    """Directions: specs of axes, {name: noise, colour: pink}. A list among them is a category, from which one
    is drawn for each track."""
    combine: int = Field(default=1, ge=1)
    """Number of axes applied together, in random order, all with the same strength."""
    tracks: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    """Number of measurements; directions alternate over tracks and listeners. null: one for each entry of
    `axes`."""
    adaptive: Adaptive = Adaptive(max_trials=8)
    """How strengths are chosen; its `max_trials` is the number of trials of a track."""
    condition: str | None = None
    """Condition of an item used as the reference; null: its first."""
    before: list[Axis] = Field(default_factory=list)
    """Axes applied to both clips first, each with a strength drawn for the track, which may be 0."""
    before_strength: tuple[float, float] = (0.0, 50.0)
    """Lowest and highest strength of those."""
    sentinels: int = Field(default=0, ge=0, le=MOST_TRIALS)
    """Extra trials of each track with an obvious difference."""
    obvious: Axis = Field(default={"name": "noise", "strongest_db": -5.0})
    """Axis of sentinels and teaching trials, at full strength."""
    same: int = Field(default=0, ge=0, le=MOST_TRIALS)
    """Extra trials of each track with two equal clips, which measure false alarms."""
    interleave: bool = True
    """Trials of the tracks are mixed; false: one track after the other."""
    question: str = Field(default="Are the two clips exactly the same, or different?", max_length=500)
    """The question."""

    @field_validator("adaptive")
    @classmethod
    def _strengths(cls, value: Adaptive) -> Adaptive:
        if value.prior.lowest < 0 or value.prior.highest > 100:
            raise ValueError(
                f"strengths go from 0 to 100, but the prior runs from {value.prior.lowest:g} to "
                f"{value.prior.highest:g}."
            )
        return value

    @field_validator("before_strength")
    @classmethod
    def _in_order(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= value[0] <= value[1] <= 100:
            raise ValueError(
                f"expected two strengths from 0 to 100, the lower first, got {value[0]:g} and {value[1]:g}."
            )
        return value

    @classmethod
    def simulated_answer(
        cls, listener: SimulatedListener, screen: Screen, widget: Widget, knows: bool, chance: random.Random
    ) -> Any:
        if screen.role == "trial":
            return "different" if chance.random() < listener.notices(screen) else "same"
        return super().simulated_answer(listener, screen, widget, knows, chance)


def same_different(listener: Listener, options: SameDifferent) -> list[Screen]:
    items = [
        i
        for i in chosen(listener.items, options.where)
        if options.condition is None or options.condition in i.files
    ]
    if not items:
        raise UserError(
            f"same_different: no item has a file of the condition {options.condition or '(any)'} and the "
            "given factors."
        )
    if options.combine > len(options.axes):
        raise UserError(
            f"same_different: combine is {options.combine}, but there are only {len(options.axes)} entries "
            "of axes."
        )
    n = options.tracks or len(options.axes)
    refuse_many(
        "same_different",
        n * (options.adaptive.max_trials + options.sentinels + options.same) + options.teaching,
    )
    turns = range(listener.number * n, (listener.number + 1) * n)
    # shifted by one after each round of both, or an axis would be applied only to some of the items
    round_of_both = math.lcm(len(items), len(options.axes))
    tracks = [
        _track(listener, options, items[(t + t // round_of_both) % len(items)], k, t)
        for k, t in enumerate(turns)
    ]
    if options.interleave:
        screens = _mixed(listener, tracks)
    else:
        screens = [screen for track in tracks for screen in track]
    example = [listener.random.choice(items) for _ in range(options.teaching)]
    # different and same pairs alternate
    teach = [
        _screen(listener, options, item, (), _obvious(options) if k % 2 == 0 else (), "teaching")
        for k, item in enumerate(example)
    ]
    return [*map(taught, teach), *with_pauses(screens, options)]


def _track(listener: Listener, options: SameDifferent, item: Any, k: int, turn: int) -> list[Screen]:
    """The trials of a track in order, with sentinels and equal pairs among them."""
    file = _reference(item, options)[1]
    before = tuple(
        Effect(axis, round(listener.random.uniform(*options.before_strength), 1)) for axis in options.before
    )
    first = turn % len(options.axes)
    entries = [options.axes[first]]
    entries += listener.random.sample(
        [e for i, e in enumerate(options.axes) if i != first], options.combine - 1
    )
    drawn = [listener.random.choice(e) if isinstance(e, list) else e for e in entries]
    listener.random.shuffle(drawn)
    axes = [_of_item(axis, item, file) for axis in drawn]
    about = {
        "axis": " + ".join(map(label, drawn)),
        "axes": axes,
        "file": file,
        "before": [[e.axis, e.strength] for e in before],
    }
    open_ended = tuple(Effect(axis, None) for axis in axes)

    def screen(effects: tuple[Effect, ...], role: Role, track: str | None = None, **more: Any) -> Screen:
        return _screen(listener, options, item, before, effects, role, track, {**about, **more})

    name, spec = f"track {k}", options.adaptive.model_dump(mode="json")
    screens = [screen(open_ended, "trial", name, adaptive=spec) for _ in range(options.adaptive.max_trials)]
    for _ in range(options.sentinels):
        screens.insert(
            listener.random.randint(0, len(screens)),
            screen(_obvious(options), "sentinel", axis=label(options.obvious)),
        )
    for _ in range(options.same):
        screens.insert(listener.random.randint(0, len(screens)), screen((), "trial"))
    return screens


def _screen(
    listener: Listener,
    options: SameDifferent,
    item: Any,
    before: tuple[Effect, ...],
    effects: tuple[Effect, ...],
    role: Role,
    track: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> Screen:
    condition, file = _reference(item, options)
    pair = [("reference", Stimulus(file, before)), ("test", Stimulus(file, before + effects))]
    listener.random.shuffle(pair)
    sounds = tuple(Sound(place, stimulus, name) for place, (name, stimulus) in zip("AB", pair, strict=True))
    # of an adaptive trial it is not known yet whether there is a difference at all
    truth = {} if track else {"answer": "different" if effects else "same"}
    known = {} if track else {"strength": 100.0 if effects else 0.0}
    return Screen(
        "same_different",
        role,
        options.title,
        options.text,
        sounds,
        (Widget("answer", "choose", options.question, choices("same", "different")),),
        options.plays,
        truth=truth,
        facts=facts(item, condition, sounds, **{**(more or {}), **known}),
        track=track,
    )


def label(axis: Mapping[str, Any]) -> str:
    """Name of an axis in the results: "noise", "noise colour=pink"."""
    return " ".join([axis["name"], *(f"{k}={v}" for k, v in axis.items() if k != "name")])


def _reference(item: Any, options: SameDifferent) -> tuple[str, str]:
    condition = options.condition or next(iter(item.files))
    return condition, item.files[condition]


def _of_item(axis: Mapping[str, Any], item: Any, clean: str) -> dict[str, Any]:
    """The axis `adversarial` scales the difference between two files of the item."""
    if axis["name"] != "adversarial" or axis.get("file"):
        return dict(axis)
    condition = axis.get("condition", "adversarial")
    if condition not in item.files:
        raise UserError(
            f"same_different: the axis adversarial needs a file of the condition {condition!r}, which item "
            f"{item.id!r} lacks."
        )
    return {**axis, "file": item.files[condition], "clean_file": clean}


def _obvious(options: SameDifferent) -> tuple[Effect, ...]:
    return (Effect(options.obvious, 100.0),)


def _mixed(listener: Listener, tracks: Sequence[list[Screen]]) -> list[Screen]:
    """Tracks shuffled together; the order within each is kept."""
    turns = [k for k, track in enumerate(tracks) for _ in track]
    listener.random.shuffle(turns)
    queues = [iter(track) for track in tracks]
    return [next(queues[k]) for k in turns]

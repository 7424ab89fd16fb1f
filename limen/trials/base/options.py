"""Options that trial types share, and the order of their screens for each listener."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import Field

from limen.core.errors import UserError
from limen.trials.base.screen import Listener, Role, Screen, Sound, latin_row
from limen.trials.base.trial import TrialOptions

Case = TypeVar("Case")
Factor = str | float | int | bool
MOST_TRIALS = 1000
"""In one step of a study."""
MOST_SCREENS = 2000
"""For one listener: four hours, at seven seconds a screen."""


class Page(TrialOptions):
    """Heading and text of a page."""

    title: str = Field(default="", max_length=200)
    """Heading of the screen; empty: that of the study."""
    text: str = Field(default="", max_length=20_000)
    """Text of the screen: plain paragraphs, separated by empty lines."""


class Trials(Page):
    """Options of the trial types about sounds."""

    role: ClassVar[Role] = "trial"

    where: dict[str, Factor] = Field(default_factory=dict)
    """Only items with these factors: {part: 1}."""
    plays: int | None = Field(default=None, ge=1)
    """How often each sound may be played; null: without limit. A play is one start, or one repetition of a
    loop. If the listener can switch between k sounds, the limit is k times as many plays for all of them
    together, and switching does not count as a play."""
    teaching: int = Field(default=0, ge=0, le=MOST_TRIALS)
    """Number of training trials first, with the right answer shown afterwards; they are not analysed."""
    pause_every: int | None = Field(default=None, ge=1)
    """Number of trials between breaks; null: no breaks."""


class ItemTrials(Trials):
    """Options of the trial types that go through a list of items."""

    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    """Number of trials for each listener; the next listener continues where the last one ended, so all items
    are used equally often. null: all items."""
    order: Literal["random", "latin", "file"] = "random"
    """random: a different order for each listener. latin: rows of a balanced Latin square, one after another.
    file: as in the study file."""
    sentinels: dict[str, Factor] = Field(default_factory=dict)
    """Items with these factors are mixed in as sentinels, whose right answer is obvious: {part: sentinel}.
    Default: none."""


class ComparedTrials(ItemTrials):
    """Options of the trial types that compare versions of one clip."""

    switch: bool = True
    """While a sound plays, the listener can switch to another one at the same position. false: each starts
    from its beginning."""


def refuse_many(who: str, count: int) -> None:
    """Raise a UserError for more screens than a listener can go through, before they are made."""
    if count > MOST_SCREENS:
        raise UserError(
            f"{who}: a listener would see {count:,} screens; at most {MOST_SCREENS:,} are allowed. Reduce "
            "the number of trials."
        )


def chosen(items: Sequence[Any], where: Mapping[str, Factor]) -> list[Any]:
    """Items with these factors. A table of items holds text only: 1 and "1" are the same."""
    return [i for i in items if all(str(i.factors.get(k)) == str(v) for k, v in where.items())]


def session(
    who: str,
    listener: Listener,
    options: ItemTrials,
    cases: Callable[[Sequence[Any]], list[Case]],
    make: Callable[[Case, int, Role], Screen],
) -> list[Screen]:
    """Screens of one step for one listener: training trials, then trials in the given order with sentinels
    among them, and breaks.

    `cases` turns items into what trials are about. `make(case, turn, role)` gives a screen; `turn` increases
    from case to case and from listener to listener, so anything chosen by it modulo a number (the condition,
    what X is) is balanced over both.
    """
    sentinels = cases(chosen(listener.items, options.sentinels)) if options.sentinels else []
    every = [c for c in cases(chosen(listener.items, options.where)) if c not in sentinels]
    if not every:
        raise UserError(f"{who}: no item of this study can be used. It needs {_needed(options)}.")
    n = options.trials or len(every)
    refuse_many(who, n + len(sentinels) + options.teaching)
    first = listener.number * n
    turns = [(k % len(every), k // len(every)) for k in range(first, first + n)]
    if options.order == "latin":
        back = _back(n, len(every), listener.number)
        turns = [(turns[k][0], turns[k][1] - back) for k in latin_row(n, listener.number)]
    elif options.order == "random":
        listener.random.shuffle(turns)
    screens = [make(every[at], at + again, "trial") for at, again in turns]
    for case in sentinels:
        screens.insert(
            listener.random.randint(0, len(screens)),
            make(case, listener.random.randrange(1 << 30), "sentinel"),
        )
    # training trials use items that no trial is about, if there are enough
    fresh = [c for k, c in enumerate(every) if k not in {at for at, _ in turns}]
    pool = fresh if len(fresh) >= options.teaching else every
    teach = [
        make(pool[k % len(pool)], listener.random.randrange(1 << 30), "teaching")
        for k in _drawn(listener, options.teaching, len(pool))
    ]
    return [*map(taught, teach), *with_pauses(screens, options)]


def _back(n: int, cases: int, row: int) -> int:
    """What a row of the Latin square subtracts from the turns of its trials.

    Rows shift cases by one place per listener, and turns increase too: added up, a place would have the same
    turn modulo 2 for all listeners, and thus the same condition. Subtracting half as much per row, each place
    and each case still get all turns equally often, modulo any number. If neither of n and `cases` divides
    the other, there is nothing to correct."""
    if n % cases and cases % n:
        return 0
    rounds = row * n // cases
    return rounds + min(rounds, row) // 2


def taught(screen: Screen) -> Screen:
    return replace(screen, role="teaching", feedback=True)


def with_pauses(screens: Sequence[Screen], options: Trials) -> list[Screen]:
    out: list[Screen] = []
    for k, screen in enumerate(screens):
        if options.pause_every and k and k % options.pause_every == 0:
            out.append(pause_screen(f"{k} of {len(screens)} are done. Continue when you are ready."))
        out.append(screen)
    return out


def pause_screen(text: str, title: str = "A break") -> Screen:
    return Screen("pause", "page", title=title, text=text)


def facts(item: Any, condition: str, sounds: Sequence[Sound], **more: Any) -> dict[str, Any]:
    """Keys that the results are grouped by: the item's factors, then those of every screen."""
    return {
        **item.factors,
        "item": item.id,
        "condition": condition,
        "sounds": {s.label: s.condition for s in sounds},
        **more,
    }


def _drawn(listener: Listener, n: int, size: int) -> list[int]:
    """n different numbers below `size` in random order, repeated if there are fewer."""
    order = listener.random.sample(range(size), size) if n else []
    return [order[k % size] for k in range(n)]


def _needed(options: ItemTrials) -> str:
    conditions = getattr(options, "conditions", None)
    wanted = (
        f"files of the conditions {', '.join(conditions)}"
        if conditions
        else "items with files of enough conditions"
    )
    return wanted + (f" and the factors {dict(options.where)}" if options.where else "")

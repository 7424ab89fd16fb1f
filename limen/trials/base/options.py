"""Options that the trial types share, and the order in which a listener meets their screens."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from pydantic import Field

from limen.core.errors import UserError
from limen.core.options import Options
from limen.trials.base.screen import Listener, Role, Screen, Sound, latin_row

Case = TypeVar("Case")
Factor = str | float | int | bool
MOST_TRIALS = 1000
"""Of a kind in one step."""
MOST_SCREENS = 2000
"""Of one listener: four hours, at seven seconds a screen."""


class Page(Options):
    """Words of a page."""

    title: str = Field(default="", max_length=200)
    """Heading of the screen; empty: that of the study."""
    text: str = Field(default="", max_length=20_000)
    """What the screen says: plain paragraphs, parted by empty lines."""


class Trials(Page):
    """What the trial types about sounds share."""

    where: dict[str, Factor] = Field(default_factory=dict)
    """Only items with these factors: {part: 1}."""
    plays: int | None = Field(default=None, ge=1)
    """How often each sound may be played; null: as often as one likes. A play is one start, or one more time
    round of a loop. Where one can switch between k sounds, that makes k times as many plays for all together,
    and switching uses up none."""
    teaching: int = Field(default=0, ge=0, le=MOST_TRIALS)
    """So many trials first, with the right answer told afterwards; they do not count."""
    pause_every: int | None = Field(default=None, ge=1)
    """A break after every so many trials; null: none."""


class ItemTrials(Trials):
    """What the trial types share that go through a list of items."""

    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    """How many each listener gets; the next one goes on where the last one ended, so all come up equally
    often. null: all there are."""
    order: Literal["random", "latin", "file"] = "random"
    """random: each listener's own. latin: rows of a balanced Latin square, one after another. file: as in the
    study file."""
    sentinels: dict[str, Factor] = Field(default_factory=dict)
    """Items with these factors are mixed in as sentinels, whose right answer nobody should miss: {part:
    sentinel}. Default: none are."""


class ComparedTrials(ItemTrials):
    """What the trial types share that compare versions of one clip."""

    switch: bool = True
    """While a sound plays, another one can be switched to at the same place. false: each starts from its
    beginning."""


def refuse_many(who: str, count: int) -> None:
    """A UserError instead of more screens than a listener can go through; asked before they are made."""
    if count > MOST_SCREENS:
        raise UserError(
            f"{who}: a listener would meet {count:,} screens, and at most {MOST_SCREENS:,} are made. Give "
            "fewer trials."
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
    """Teaching trials, then trials in the order asked for with sentinels among them, and breaks.

    `cases` turns items into things to ask about. `make(case, turn, role)` gives a screen; turn counts on from
    case to case and from listener to listener, so what is taken from it modulo something (which condition,
    what X is) is balanced over both.
    """
    sentinels = cases(chosen(listener.items, options.sentinels)) if options.sentinels else []
    every = [c for c in cases(chosen(listener.items, options.where)) if c not in sentinels]
    if not every:
        raise UserError(f"{who}: no item of this study serves it. It needs {_needed(options)}.")
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
    # what a listener is taught with should not come again, if there is enough
    fresh = [c for k, c in enumerate(every) if k not in {at for at, _ in turns}]
    pool = fresh if len(fresh) >= options.teaching else every
    teach = [
        make(pool[k % len(pool)], listener.random.randrange(1 << 30), "teaching")
        for k in _drawn(listener, options.teaching, len(pool))
    ]
    return [*map(taught, teach), *with_pauses(screens, options)]


def _back(n: int, cases: int, row: int) -> int:
    """What a row of the Latin square takes from the turns of its trials. Rows move cases on by one place a
    listener, and turns move on too: added up, a place would have one turn modulo 2 for all listeners, and
    with it one condition. Half as fast backwards, each place and each case still get all turns equally often,
    whatever they are taken modulo. If n and cases do not divide, neither is tied."""
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
            out.append(pause_screen(f"{k} of {len(screens)} are done. Go on when you are ready."))
        out.append(screen)
    return out


def pause_screen(text: str, title: str = "A break") -> Screen:
    return Screen("pause", "page", title=title, text=text)


def facts(item: Any, condition: str, sounds: Sequence[Sound], **more: Any) -> dict[str, Any]:
    """What the results are sorted by: the item's factors, then what every screen has."""
    return {
        **item.factors,
        "item": item.id,
        "condition": condition,
        "sounds": {s.label: s.condition for s in sounds},
        **more,
    }


def _drawn(listener: Listener, n: int, size: int) -> list[int]:
    """n different numbers below size, in random order; starting again when they are used up."""
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

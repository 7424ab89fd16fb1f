"""Whether a property of a clip reveals what is asked about it: the word, a factor, the step; over all
listeners and within each one."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from limen.listening.checks.all_trials import Trial, quarters
from limen.listening.checks.check import Finding
from limen.listening.statistics.guessing import Floats, Guessed, Rows, coded, from_items

Level = Literal["error", "warning"]

SPEAKER = ("speaker", "speaker_id", "talker", "voice", "reader", "sex", "gender", "accent")
"""Names of factors that identify the speaker."""
FEW = 8
"""Number of clips of a condition below which a word that belongs to one clip is tied to the condition."""
MANY_VALUES = 8
"""Numeric factors with more different values than this are also tested by quartiles, unless they are
names."""
WITHIN = 60
"""Listeners whose trials are tested one by one; more listeners repeat the same designs."""

_ORDERS = "Use another number of items or listeners, or another order of items."
_REMEDY = {
    "condition": "Let every word and every speaker be heard in all conditions: items with files of each, "
    "and `each: one` or `all`.",
    "right answer": _ORDERS,
    "first sound": _ORDERS,
    "axis": "Use another number of items, axes or listeners.",
}
_TURNS = (
    "Each listener should hear every word and every speaker in all conditions. With `each: one` every second "
    "item of the table has another condition: put items of a word, and of a speaker, at odd and even places "
    "in turn."
)


def from_properties(trials: Sequence[Trial], asked: str, where: str, said: str) -> Iterator[Finding]:
    """Findings for the word and for each factor of the items."""
    clips, counts, _ = _counted(trials, asked, within=False)
    within = _counted(trials, asked, within=True) if asked == "condition" else None
    for name in dict.fromkeys(name for t in trials for name in t.known):
        of = {t.clip: t.known.get(name, "") for t in trials}
        what = "the word (`answer`)" if name == "word" else f"the factor {name}"
        overall = _worst(name, [of[clip] for clip in clips], asked, counts)
        # an assignment that is reversed from listener to listener is balanced over all, tied for each
        if within and (overall is None or overall[0] == "warning"):
            own = _worst(name, [of[clip] for clip in within[0]], asked, *within[1:])
            if own and (overall is None or own[0] == "error"):
                n = round(len(within[2].items) / len(np.unique(within[2].listeners)))
                yield Finding(
                    own[0],
                    f"{where}: within a listener, {said} {what}: {own[1].describe(n, 'clip')}. {_TURNS}",
                )
                continue
        if overall:
            yield Finding(
                overall[0],
                f"{where}: {said} {what}: {overall[1].describe(len(clips), 'clip')}. {_REMEDY[asked]}",
            )


def _counted(trials: Sequence[Trial], asked: str, within: bool) -> tuple[list[str], Floats, Rows]:
    """Clips; number of trials of each clip (or of each clip of each listener) by what is asked; the clip and
    the listener of each row."""
    if within:
        last = max(WITHIN, len({t.group for t in trials}))
        trials = [t for t in trials if t.listener < last]
    groups: dict[str, set[str]] = {}
    for t in trials:
        groups.setdefault(t.clip, set()).add(t.group)
    clips = {clip: k for k, clip in enumerate(groups)}
    rows, counts = _table(
        [(t.listener if within else 0, clips[t.clip]) for t in trials], [t.asked[asked] for t in trials]
    )
    listeners, items = np.array(rows).T
    return (
        list(clips),
        counts,
        Rows(items, listeners, coded([" ".join(sorted(g)) if within else "" for g in groups.values()])),
    )


def _table(of: Sequence[tuple[Any, Any]], asked: Sequence[str]) -> tuple[list[tuple[Any, Any]], Floats]:
    """The distinct rows, and how often each answer occurs in each."""
    rows = {row: k for k, row in enumerate(dict.fromkeys(of))}
    columns = {value: k for k, value in enumerate(sorted(set(asked)))}
    counts = np.zeros((len(rows), len(columns)))
    np.add.at(counts, ([rows[row] for row in of], [columns[value] for value in asked]), 1)
    return list(rows), counts


def _worst(
    name: str, known: Sequence[str], asked: str, counts: Floats, rows: Rows | None = None
) -> tuple[Level, Guessed] | None:
    """The worse finding of the values themselves and, for numbers that are not names, of their quartiles."""
    plain = _is_name(name) or len(set(known)) <= MANY_VALUES
    found = []
    for values in [known] if plain else [known, _numbers_by_quarters(known)]:
        guessed = from_items(values, counts, rows)
        if level := _level(name, asked, guessed, values, counts, rows):
            found.append((level, guessed))
    return min(found, key=lambda f: f[0], default=None)  # "error" comes before "warning"


def _is_name(name: str) -> bool:
    return name == "word" or name.lower() in SPEAKER


def _level(
    name: str, asked: str, guessed: Guessed, known: Sequence[str], counts: Floats, rows: Rows | None
) -> Level | None:
    if guessed.certain and asked == "condition":
        tied = guessed.p <= 0.05 or _all_repeat(known, counts, rows)
        few = rows is None and int((counts > 0).sum(0).min()) < FEW
        if _is_name(name):
            return "error" if tied or few else None
        return "warning" if tied else None  # the factor may be another name of the condition
    if guessed.certain and guessed.p <= 0.01 and asked == "right answer":
        return "error"
    return "warning" if guessed.more_than_chance else None


def _all_repeat(known: Sequence[str], counts: Floats, rows: Rows | None) -> bool:
    """Whether every value occurs more than once: for several clips, or in several trials of each listener."""
    codes = coded(known)
    if rows is None:
        return int(np.bincount(codes).min()) > 1
    times = np.bincount(rows.listeners * (int(codes.max()) + 1) + codes[rows.items], counts.sum(1))
    return bool((times[times > 0] > 1).all())


def _numbers_by_quarters(values: Sequence[str]) -> list[str]:
    try:
        return [str(q) for q in quarters([float(v) for v in values])]
    except ValueError:
        return list(values)


def by_step(trials: Sequence[Trial], where: str, said: str) -> Iterator[Finding]:
    """Whether the step reveals the condition, for steps of one trial type, whose results are combined."""
    if len({t.step for t in trials}) == 1:
        return
    heard, counts = _table([(t.clip, t.step) for t in trials], [t.asked["condition"] for t in trials])
    guessed = from_items([str(step) for _, step in heard], counts)
    if guessed.certain or guessed.more_than_chance:
        # in a comparison the answer is within the trial
        level: Level = "error" if guessed.certain and all(t.played is not None for t in trials) else "warning"
        yield Finding(
            level,
            f"{where}: {said} the step: {guessed.describe(len(heard), 'clip')}. Put all conditions "
            "into one step, or all of them into each step.",
        )


def single_value(trials: Sequence[Trial], where: str) -> Iterator[Finding]:
    """A condition with several clips but a single word or speaker, if other conditions have more."""
    for name in dict.fromkeys(name for t in trials for name in t.known if _is_name(name)):
        values: dict[str, set[str]] = {}
        clips: dict[str, set[str]] = {}
        for t in trials:
            values.setdefault(t.asked["condition"], set()).add(t.known.get(name, ""))
            clips.setdefault(t.asked["condition"], set()).add(t.clip)
        alone = [c for c, found in values.items() if len(found) == 1 < len(clips[c])]
        if alone and len(alone) < len(values):
            each = "; ".join(f"{c} with {next(iter(values[c]))}" for c in alone)
            what = "word (`answer`)" if name == "word" else name
            yield Finding(
                "warning",
                f"{where}: a condition is heard with a single {what}, others with more ({each}): its results "
                "apply to no other. Add files of this condition to other items.",
            )

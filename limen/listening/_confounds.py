"""Conditions that something else gives away: word, speaker, loudness, length, place, the trial before, or a single clip.

The screens of all listeners are made as the server makes them. Then: how well can the condition of a trial, its right answer, or which
sound comes first be guessed from each of these alone? A condition that is fully tied is an error, one that is told more often than
chance explains with so many clips a warning. So is a pair that comes back for the same listener."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from limen.listening._guessing import Guessed, Ints, coded, from_items, from_places
from limen.listening._observed import Met, Trial, content, everybody
from limen.listening.check import Finding, Heard
from limen.listening.study import Study

Floats = NDArray[np.float64]
Level = Literal["error", "warning"]

SPEAKER = ("speaker", "speaker_id", "talker", "voice", "reader", "sex", "gender", "accent")
"""Names of factors that say who speaks."""
FEW = 8
"""Clips of a condition below which each of them matters: a word tied to one clip is then tied to the condition."""
LOUDNESS_DB, LENGTH_MS = 0.5, 5.0
"""Conditions of one item that differ by more can be told apart by loudness or length alone."""
LOUDER_DB, LONGER = 1.0, 0.05
"""Differences that can be heard: in level, and as a share of the length."""
MANY_VALUES = 8
"""Numbers of more different values than this are taken by quarters of their range."""


def confounds(study: Study, heard: Mapping[str, Heard]) -> Iterator[Finding]:
    """Findings about the whole design; `heard` are the files of the study."""
    yield from _same_audio(study, heard)
    yield from _apart(study, heard)
    trials, meetings = everybody(study, heard)
    yield from _repeated(meetings)
    for step in sorted({t.step for t in trials}):
        mine = [t for t in trials if t.step == step]
        where = f"step {step + 1} ({mine[0].kind})"
        yield from _single(mine, where)
        for asked in dict.fromkeys(name for t in mine for name in t.asked):
            about = [t for t in mine if asked in t.asked]
            if len({t.asked[asked] for t in about}) > 1:
                yield from _told(about, asked, where, levelled=study.power_dbfs is not None)


def _same_audio(study: Study, heard: Mapping[str, Heard]) -> Iterator[Finding]:
    same = [i.id for i in study.items if len({content(f, heard) for f in i.files.values()}) < len(i.files)]
    if same:
        yield Finding(
            "warning", f"{len(same)} items ({_listed(same)}): two conditions are the very same samples, which nobody tells apart."
        )


def _apart(study: Study, heard: Mapping[str, Heard]) -> Iterator[Finding]:
    """Versions of a clip that are told apart by length or level."""
    yield from _differing(study, heard, lambda s: 1000 * s.seconds, LENGTH_MS, "length", "{:.0f} ms", "longest", "")
    if study.power_dbfs is None:
        yield from _differing(study, heard, lambda s: s.power_dbfs, LOUDNESS_DB, "loudness", "{:.1f} dB", "loudest", "; set `power_dbfs`")


def _differing(study: Study, heard: Mapping[str, Heard], measured: Callable[[Heard], float], least: float, what: str, unit: str, most: str,
               remedy: str) -> Iterator[Finding]:  # fmt: skip
    by: dict[str, dict[str, float]] = {}
    for item in study.items:
        values = {condition: measured(heard[file]) for condition, file in item.files.items()}
        if max(values.values()) - min(values.values()) > least:
            by[item.id] = values
    if not by:
        return
    apart = unit.format(max(max(values.values()) - min(values.values()) for values in by.values()))
    if len(by) == 1:
        yield Finding("warning", f"item {next(iter(by))}: conditions differ in {what} by {apart}, which tells them apart{remedy}.")
        return
    first, n = Counter(max(values, key=lambda c: values[c]) for values in by.values()).most_common(1)[0]
    yield Finding("warning", f"{len(by)} items ({_listed(list(by))}): conditions differ in {what} by up to {apart}, which "
                  f"tells them apart; {first} is the {most} in {n} of {len(by)}{remedy}.")  # fmt: skip


def _repeated(meetings: Sequence[Met]) -> Iterator[Finding]:
    for kind in dict.fromkeys(k for met in meetings for k, _, _ in met):
        again = [{clip: n for (k, _, clip), n in met.items() if k == kind and n > 1} for met in meetings]
        hit = [repeats for repeats in again if repeats]
        if hit:
            clip, most = max((pair for repeats in hit for pair in repeats.items()), key=lambda pair: pair[1])
            yield Finding("warning",
                          f"{kind}: the same sounds come again for the same listener, who then answers from memory: for {len(hit)} of "
                          f"{len(meetings)} listeners, up to {most} times (item {clip}). Take more items, or fewer `trials`.")  # fmt: skip


def _single(trials: Sequence[Trial], where: str) -> Iterator[Finding]:
    """One clip that stands for a whole condition, in the study or for the listeners of a group."""
    groups: dict[str, list[Trial]] = {"": list(trials)}
    for trial in trials:
        if trial.group:
            groups.setdefault(trial.group, []).append(trial)
    tied: dict[str, list[str]] = defaultdict(list)
    alone: dict[str, list[str]] = defaultdict(list)
    for group, mine in groups.items():
        each = len(mine) / len({t.listener for t in mine})
        by = {c: {t.clip for t in mine if t.asked.get("condition") == c} for c in {t.asked.get("condition", "") for t in mine}}
        clips = {t.clip for t in mine}
        if len(clips) == 1 and each > 1:
            alone[next(iter(clips))].append(group)
        for condition, heard in by.items():
            # for one group, a clip that comes once is only one of its trials
            once = group and sum(t.asked.get("condition") == condition for t in mine) <= len({t.listener for t in mine})
            if len(heard) == 1 < len(clips) and not once and any(other != heard for other in by.values()):
                tied[condition].append(group)
    for condition, found in tied.items():
        yield Finding("error", f"{where}: condition {condition} is heard on a single clip{_of(found)}, other conditions on other clips: "
                      f"nothing tells the clip from the condition. Take more clips, each in every condition.")  # fmt: skip
    for clip, found in alone.items():
        yield Finding("warning", f"{where}: every trial is about one clip ({clip}){_of(found)}: the results hold for no other. "
                      "Take more items.")  # fmt: skip


def _of(groups: Sequence[str]) -> str:
    named = [g for g in groups if g]
    return f" for listeners of {_listed(named)}" if named and "" not in groups else ""


def _told(trials: Sequence[Trial], asked: str, where: str, levelled: bool) -> Iterator[Finding]:
    values = sorted({t.asked[asked] for t in trials})
    about = {"condition": "the condition", "right answer": "the right answer", "axis": "the axis", "first sound": "which sound comes first"}
    said = f"{where}: {about[asked]} can be told from"
    clips = list(dict.fromkeys(t.clip for t in trials))
    rows, columns = ({name: k for k, name in enumerate(names)} for names in (clips, values))
    counts = np.zeros((len(clips), len(values)))
    np.add.at(counts, ([rows[t.clip] for t in trials], [columns[t.asked[asked]] for t in trials]), 1)
    if asked == "condition":
        yield from _between(trials, counts, where)
    for name in dict.fromkeys(name for t in trials for name in t.known):
        of = {t.clip: t.known.get(name, "") for t in trials}
        known = _quarters([of[clip] for clip in clips])
        guessed = from_items(known, counts)
        if level := _level(name, asked, guessed, len(set(known)), counts):
            what = "the word (`answer`)" if name == "word" else f"the factor {name}"
            yield Finding(level, f"{said} {what}: {_right(guessed, len(clips), 'clip')}. {_REMEDY[asked]}")
    if asked == "condition":
        yield from _measured(trials, said, levelled)
    if asked != "axis":
        yield from _ordered(trials, asked, said)


_ORDERS = "Take another number of items or listeners, or another order of items."
_REMEDY = {
    "condition": "Let every word and every speaker be heard in all conditions: items with files of each, and `each: one` or `all`.",
    "right answer": _ORDERS,
    "first sound": _ORDERS,
    "axis": "Take another number of items, axes or listeners.",
}


def _level(name: str, asked: str, guessed: Guessed, values: int, counts: Floats) -> Level | None:
    if guessed.whole and asked == "condition":
        clips = counts.shape[0]
        if name == "word" or name.lower() in SPEAKER:
            return "error" if values < clips or int((counts > 0).sum(0).min()) < FEW else None
        return "warning" if values < clips else None  # it may be another name of the condition
    if guessed.whole and guessed.p <= 0.01 and asked == "right answer":
        return "error"
    return "warning" if guessed.more_than_chance else None


def _between(trials: Sequence[Trial], counts: Floats, where: str) -> Iterator[Finding]:
    """Conditions on other clips, or for other listeners: what differs between these counts as a difference between conditions."""
    if bool(((counts > 0).sum(1) == 1).all()) and bool(((counts > 0).sum(0) > 1).all()):
        yield Finding("warning", f"{where}: every clip is heard in one condition only, so what differs between clips counts "
                      "as a difference between conditions. Give items files of all conditions, and `each: one` or `all`.")  # fmt: skip
    heard = {group: {t.asked["condition"] for t in trials if t.group == group} for group in {t.group for t in trials}}
    if len(heard) > 1 and all(len(conditions) == 1 for conditions in heard.values()):
        yield Finding("warning", f"{where}: every group of listeners hears one condition only, so what differs between groups counts as a "
                      "difference between conditions.")  # fmt: skip


def _measured(trials: Sequence[Trial], said: str, levelled: bool) -> Iterator[Finding]:
    """By level and length, of trials that play one clip. Those of a pair are compared by `check` itself."""
    sounds = {(t.clip, t.asked["condition"]): t.played for t in trials if t.played is not None}
    names = sorted({condition for _, condition in sounds})
    if len(names) < 2:
        return
    counts = np.array([[float(condition == name) for name in names] for _, condition in sounds])
    for what, unit, by in (
        ("loudness", "dB", [s.power_dbfs for s in sounds.values()]),
        ("length", "s", [s.seconds for s in sounds.values()]),
    ):
        middles = {name: median(v for v, (_, c) in zip(by, sounds, strict=True) if c == name) for name in names}
        apart = max(middles.values()) - min(middles.values())
        if (what == "loudness" and levelled) or apart < (LOUDER_DB if what == "loudness" else LONGER * median(by)):
            continue
        guessed = from_items(_quarters([repr(v) for v in by], many=0), counts)
        if (guessed.whole and guessed.p <= 0.03) or guessed.more_than_chance:
            each = ", ".join(f"{name} {v:.3g} {unit}" for name, v in middles.items())
            do = "set `power_dbfs`" if what == "loudness" else "take versions of the same clips"
            yield Finding("error" if guessed.whole else "warning",
                          f"{said} the {what} (medians: {each}): {_right(guessed, len(sounds), 'sound')}. To mend it, {do}.")  # fmt: skip


def _ordered(trials: Sequence[Trial], asked: str, said: str) -> Iterator[Finding]:
    """By the place in the step, exactly or by halves, and by the trial before."""
    answers, listeners = coded([t.asked[asked] for t in trials]), np.array([t.listener for t in trials])
    fresh = np.concatenate([[True], listeners[1:] != listeners[:-1]])
    starts = np.flatnonzero(fresh)
    each = np.diff(np.append(starts, len(trials)))
    place, lengths = np.arange(len(trials)) - np.repeat(starts, each), np.repeat(each, each)
    half = 2 * place // lengths

    def before(values: Ints) -> Ints:
        return np.where(fresh, -1, np.roll(values, 1))

    for what, known in (("place of the trial", lambda _: place), ("half of the step", lambda _: half), ("trial before it", before)):
        guessed = from_places(known, answers, listeners)
        tied = guessed.whole and guessed.p <= 0.01
        if tied or guessed.more_than_chance:
            error = tied and asked in ("condition", "right answer")
            yield Finding("error" if error else "warning",
                          f"{said} the {what}: {_right(guessed, len(trials), 'trial')}. Give the step `order: random`, or the "
                          "study another `seed`.")  # fmt: skip
            return


def _quarters(values: Sequence[str], many: int = MANY_VALUES) -> list[str]:
    """Numbers of many values by quarters of their range; words as they are."""
    try:
        numbers = np.array([float(v) for v in values])
    except ValueError:
        return list(values)
    if len(set(values)) <= many or not np.isfinite(numbers).all():
        return list(values)
    return [str(q) for q in np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers, side="left")]


def _right(guessed: Guessed, n: int, what: str) -> str:
    by_chance = f"{100 * guessed.chance:.0f} % by chance with {n} {what}s"
    return f"the best guess is right in {100 * guessed.accuracy:.0f} % ({by_chance})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

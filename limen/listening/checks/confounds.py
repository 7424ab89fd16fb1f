"""Conditions that can be guessed from another property: word, speaker, loudness, length, position, step, the
previous trial, or a single clip.

The screens of all listeners are computed as the server computes them. Then the best guess of the condition of
a trial, of its correct answer and of its first sound is evaluated from each of these properties alone, over
all listeners and within each one. Steps of one trial type are combined, as in the results. A condition that
is fully determined is an error, one that is guessed better than chance explains is a warning, and so is a
pair that the same listener gets again.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from limen.listening.checks.all_trials import Encounters, Trial, all_trials, listed
from limen.listening.checks.check import ClipStats, Finding
from limen.listening.checks.item_properties import by_step, from_properties, single_value
from limen.listening.checks.sound_differences import apart, measured, same_audio
from limen.listening.statistics.guessing import Ints, coded, from_places
from limen.listening.study import Study

_ASKED = {
    "condition": "the condition",
    "right answer": "the correct answer",
    "axis": "the axis",
    "first sound": "which sound comes first",
}


def confounds(study: Study, heard: Mapping[str, ClipStats]) -> Iterator[Finding]:
    """Findings about the design; `heard` are the properties of each file of the study."""
    yield from same_audio(study, heard)
    yield from apart(study, heard)
    trials, encounters = all_trials(study, heard)
    yield from _repeated(encounters)
    for kind in dict.fromkeys(t.kind for t in sorted(trials, key=lambda t: t.step)):
        of_kind = [t for t in trials if t.kind == kind]
        steps = sorted({t.step for t in of_kind})
        where = f"step{'s' if len(steps) > 1 else ''} {', '.join(str(s + 1) for s in steps)} ({kind})"
        yield from _single(of_kind, where)
        for asked in dict.fromkeys(name for t in of_kind for name in t.asked):
            about = [t for t in of_kind if asked in t.asked]
            if len({t.asked[asked] for t in about}) == 1:
                continue
            claim = f"{_ASKED[asked]} can be guessed from"
            yield from from_properties(about, asked, where, claim)
            if asked == "condition":
                yield from _between(about, where)
                yield from single_value(about, where)
                yield from by_step(about, where, claim)
                yield from measured(about, f"{where}: {claim}", levelled=study.power_dbfs is not None)
            if asked != "axis":
                for step in steps:
                    order = str(study.steps[step].get("order", "random"))
                    yield from _ordered(
                        [t for t in about if t.step == step],
                        asked,
                        f"step {step + 1} ({kind}): {claim}",
                        order,
                    )


def _repeated(encounters: Sequence[Encounters]) -> Iterator[Finding]:
    for kind in dict.fromkeys(k for met in encounters for k, _, _ in met):
        again = [{clip: n for (k, _, clip), n in met.items() if k == kind and n > 1} for met in encounters]
        hit = [repeats for repeats in again if repeats]
        if hit:
            clip, most = max((pair for repeats in hit for pair in repeats.items()), key=lambda pair: pair[1])
            yield Finding(
                "warning",
                f"{kind}: the same listener gets the same sounds more than once and may answer from memory: "
                f"for {len(hit)} of {len(encounters)} listeners, up to {most} times (item {clip}). Take more "
                "items, or fewer `trials`.",
            )
    both = Counter(kinds for met in encounters for kinds in _shared(met))
    for kinds, n in both.items():
        yield Finding(
            "warning",
            f"{' and '.join(kinds)}: the same listener compares the same sounds in both and may "
            f"answer from memory: for {n} of {len(encounters)} listeners. Give each step its own items "
            "with `where`.",
        )


def _shared(met: Encounters) -> set[tuple[str, ...]]:
    """Trial types that compare the same sounds."""
    kinds: dict[frozenset[str], list[str]] = defaultdict(list)
    for kind, sounds, _ in met:
        if len(sounds) > 1:
            kinds[sounds].append(kind)
    return {tuple(found) for found in kinds.values() if len(found) > 1}


def _single(trials: Sequence[Trial], where: str) -> Iterator[Finding]:
    """A single clip in a condition, in the study or for the listeners of a group."""
    groups: dict[str, list[Trial]] = {"": list(trials)}
    for trial in trials:
        if trial.group:
            groups.setdefault(trial.group, []).append(trial)
    tied: dict[str, list[str]] = defaultdict(list)
    alone: dict[str, list[str]] = defaultdict(list)
    for group, of_kind in groups.items():
        each = len(of_kind) / len({t.listener for t in of_kind})
        by = {
            c: {t.clip for t in of_kind if t.asked.get("condition") == c}
            for c in {t.asked.get("condition", "") for t in of_kind}
        }
        clips = {t.clip for t in of_kind}
        if len(clips) == 1 and each > 1:
            alone[next(iter(clips))].append(group)
        for condition, heard in by.items():
            # within one group, a clip that occurs once is only one of its trials
            once = group and sum(t.asked.get("condition") == condition for t in of_kind) <= len(
                {t.listener for t in of_kind}
            )
            if len(heard) == 1 < len(clips) and not once and any(other != heard for other in by.values()):
                tied[condition].append(group)
    for condition, found in tied.items():
        yield Finding(
            "error",
            f"{where}: condition {condition} has a single clip{_of(found)} and other conditions have "
            "other clips: clip and condition cannot be separated. Use more clips, each in every "
            "condition.",
        )
    for clip, found in alone.items():
        yield Finding(
            "warning",
            f"{where}: every trial is about one clip ({clip}){_of(found)}: the results apply to no other. "
            "Use more items.",
        )


def _of(groups: Sequence[str]) -> str:
    named = [g for g in groups if g]
    return f" for listeners of {listed(named)}" if named and "" not in groups else ""


def _between(trials: Sequence[Trial], where: str) -> Iterator[Finding]:
    """Conditions with different clips, or for different listeners, whose differences then count as
    differences between conditions."""
    pairs = {(t.clip, t.asked["condition"]) for t in trials}
    clips, conditions = Counter(clip for clip, _ in pairs), Counter(condition for _, condition in pairs)
    if max(clips.values()) == 1 and min(conditions.values()) > 1:
        yield Finding(
            "warning",
            f"{where}: every clip is heard in one condition only, so differences between clips count "
            "as a difference between conditions. Give items files of all conditions, and `each: one` or "
            "`all`.",
        )
    heard = {
        group: {t.asked["condition"] for t in trials if t.group == group}
        for group in {t.group for t in trials}
    }
    if len(heard) > 1 and all(len(conditions) == 1 for conditions in heard.values()):
        yield Finding(
            "warning",
            f"{where}: every group of listeners hears one condition only, so differences between groups "
            "count as a difference between conditions.",
        )


def _ordered(trials: Sequence[Trial], asked: str, claim: str, order: str) -> Iterator[Finding]:
    """Whether the position in the step, exactly or by halves, or the previous trial reveals what is asked."""
    if len({t.asked[asked] for t in trials}) < 2:
        return
    answers, listeners = coded([t.asked[asked] for t in trials]), np.array([t.listener for t in trials])
    fresh = np.concatenate([[True], listeners[1:] != listeners[:-1]])
    starts = np.flatnonzero(fresh)
    each = np.diff(np.append(starts, len(trials)))
    place, lengths = np.arange(len(trials)) - np.repeat(starts, each), np.repeat(each, each)
    half = 2 * place // lengths

    def before(values: Ints) -> Ints:
        return np.where(fresh, -1, np.roll(values, 1))

    do = "Give the step `order: random`" if order != "random" else "Give the study another `seed`"
    for what, known in (
        ("position of the trial", lambda _: place),
        ("half of the step", lambda _: half),
        ("trial before it", before),
    ):
        guessed = from_places(known, answers, listeners)
        tied = guessed.certain and guessed.p <= 0.01
        if tied or guessed.more_than_chance:
            error = tied and asked in ("condition", "right answer")
            yield Finding(
                "error" if error else "warning",
                f"{claim} the {what}: {guessed.describe(len(trials), 'trial')}. {do}.",
            )
            return

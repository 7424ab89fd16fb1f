"""All trials of all listeners, as the server will compute them: what is asked in each, the properties of its
clip, and what it plays."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limen.listening.checks.check import ClipStats
from limen.listening.study import Item, Study, clips_of
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type

MOST_LISTENERS, MOST_TRIALS = 240, 20_000
"""Limits for larger studies; the same number of listeners of each group is used."""
Encounters = Counter[tuple[str, frozenset[str], str]]
"""How often a listener gets each set of sounds: (trial type, sounds, clip)."""


@dataclass(frozen=True)
class Trial:
    listener: int
    group: str
    step: int
    kind: str
    clip: str
    """The same for items that share audio."""
    asked: Mapping[str, str]
    """What no other property may reveal: condition, right answer, first sound, axis."""
    known: Mapping[str, str]
    """Properties of the clip: word, and every factor."""
    sounds: frozenset[str]
    """The sounds, by content."""
    played: ClipStats | None
    """The sound of a trial with one sound."""


def all_trials(study: Study, heard: Mapping[str, ClipStats]) -> tuple[list[Trial], list[Encounters]]:
    """Trials of all listeners, listener by listener, and the sounds that each of them gets."""
    from limen.listening.design import screens

    clips, items = (
        clips_of(study.items, {file: sound.content for file, sound in heard.items()}),
        {item.id: item for item in study.items},
    )
    each = max(1, min(-(-study.listeners // len(study.cells)), MOST_LISTENERS // len(study.cells)))
    trials: list[Trial] = []
    encounters: list[Encounters] = []
    for number in range(each):
        if len(trials) > MOST_TRIALS:
            break
        for group in study.cells:
            met: Encounters = Counter()
            tracks: set[str] = set()
            for screen in screens(study, group, number):
                if (
                    screen.role not in ("trial", "teaching", "sentinel")
                    or (item := items.get(str(screen.facts.get("item")))) is None
                ):
                    continue
                sounds = frozenset(
                    content(s.stimulus.file, heard) + str(s.stimulus.effects or "") for s in screen.sounds
                )
                # an adaptive track repeats the same pair with other strengths
                if not trial_type(screen.kind).tracks_thresholds:
                    met[screen.kind, sounds, clips[item.id]] += 1
                # all trials of an adaptive track are one measurement
                if screen.role == "trial" and screen.track not in tracks:
                    trials.append(_trial(screen, item, clips, heard, (len(encounters), group), sounds))
                    tracks |= {screen.track} if screen.track else set()
            encounters.append(met)
    return trials, encounters


def _trial(
    screen: Screen,
    item: Item,
    clips: Mapping[str, str],
    heard: Mapping[str, ClipStats],
    who: tuple[int, str],
    sounds: frozenset[str],
) -> Trial:
    known = {name: str(value) for name, value in item.factors.items()} | (
        {} if item.answer is None else {"word": item.answer}
    )
    only = heard.get(screen.sounds[0].stimulus.file) if len(screen.sounds) == 1 else None
    return Trial(*who, screen.step, screen.kind, clips[item.id], _asked(screen), known, sounds, only)


def _asked(screen: Screen) -> dict[str, str]:
    if trial_type(screen.kind).tracks_thresholds:
        return {"axis": str(screen.facts["axis"])} if screen.track else {}
    out = {"condition": str(screen.facts["condition"])} if screen.facts.get("condition") else {}
    labels, rated = {s.label for s in screen.sounds}, [s for s in screen.sounds if s.rated]
    if right := next((str(value) for value in screen.truth.values() if value in labels), ""):
        out["right answer"] = right
    return out | ({"first sound": rated[0].condition} if len(rated) > 1 else {})


def content(file: str, heard: Mapping[str, ClipStats]) -> str:
    return heard[file].content if file in heard else file


def quarters(values: Sequence[float]) -> list[int]:
    """The quartile of each value, 0 to 3; all 0 if one of them is not finite."""
    numbers = np.array(values, float)
    if not np.isfinite(numbers).all():
        return [0] * len(values)
    return [int(q) for q in np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers, side="left")]


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

"""All trials of all listeners, as the server will make them: what is asked in each, what is known of its
clip, what it plays."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limen.listening.checks.check import Heard
from limen.listening.study import Item, Study, clips_of
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type

MOST_LISTENERS, MOST_TRIALS = 240, 20_000
"""Of a larger study the trials of so many are made: whole rounds of its groups."""
Met = Counter[tuple[str, frozenset[str], str]]
"""How often a listener meets each set of sounds: (trial type, sounds, clip)."""


@dataclass(frozen=True)
class Trial:
    listener: int
    group: str
    step: int
    kind: str
    clip: str
    """The same for items that share audio."""
    asked: Mapping[str, str]
    """What must not be told by anything else: condition, right answer, first sound, axis."""
    known: Mapping[str, str]
    """What is known of the clip: word, and every factor."""
    sounds: frozenset[str]
    """What they are, by content."""
    played: Heard | None
    """Of a trial with one sound."""


def everybody(study: Study, heard: Mapping[str, Heard]) -> tuple[list[Trial], list[Met]]:
    """Trials of all listeners, those of a listener one after another, and what each of them meets."""
    from limen.listening.design import screens

    clips, items = (
        clips_of(study.items, {file: sound.content for file, sound in heard.items()}),
        {item.id: item for item in study.items},
    )
    each = max(1, min(-(-study.listeners // len(study.cells)), MOST_LISTENERS // len(study.cells)))
    trials: list[Trial] = []
    meetings: list[Met] = []
    for number in range(each):
        if len(trials) > MOST_TRIALS:
            break
        for group in study.cells:
            met: Met = Counter()
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
                    trials.append(_trial(screen, item, clips, heard, (len(meetings), group), sounds))
                    tracks |= {screen.track} if screen.track else set()
            meetings.append(met)
    return trials, meetings


def _trial(
    screen: Screen,
    item: Item,
    clips: Mapping[str, str],
    heard: Mapping[str, Heard],
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


def content(file: str, heard: Mapping[str, Heard]) -> str:
    return heard[file].content if file in heard else file


def quarters(values: Sequence[float]) -> list[int]:
    """Which quarter of their range, by number of values, each is in; all are in the same if one is no
    number."""
    numbers = np.array(values, float)
    if not np.isfinite(numbers).all():
        return [0] * len(values)
    return [int(q) for q in np.searchsorted(np.quantile(numbers, [0.25, 0.5, 0.75]), numbers, side="left")]


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")

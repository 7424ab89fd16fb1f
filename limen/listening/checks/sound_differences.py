"""Conditions that can be distinguished by an unintended property of their sounds: equal samples, different
lengths, different levels."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

import numpy as np

from limen.listening.checks.all_trials import Trial, content, listed, quarters
from limen.listening.checks.check import ClipStats, Finding
from limen.listening.statistics.guessing import from_items
from limen.listening.study import Study

LOUDNESS_DB, LENGTH_MS = 0.5, 5.0
"""Conditions of one item that differ by more can be distinguished by loudness or length alone."""
LOUDER_DB, LONGER = 1.0, 0.05
"""Differences that can be heard: in level, and as a share of the length."""


def same_audio(study: Study, heard: Mapping[str, ClipStats]) -> Iterator[Finding]:
    same = [i.id for i in study.items if len({content(f, heard) for f in i.files.values()}) < len(i.files)]
    if same:
        yield Finding(
            "warning",
            f"{len(same)} items ({listed(same)}): two conditions have the same samples, which no "
            "listener can distinguish.",
        )


def apart(study: Study, heard: Mapping[str, ClipStats]) -> Iterator[Finding]:
    """Versions of a clip that differ in length or level."""
    yield from _differing(
        study, heard, lambda s: 1000 * s.seconds, LENGTH_MS, "length", "{:.0f} ms", "longest", ""
    )
    if study.power_dbfs is None:
        yield from _differing(
            study,
            heard,
            lambda s: s.power_dbfs,
            LOUDNESS_DB,
            "loudness",
            "{:.1f} dB",
            "loudest",
            "; set `power_dbfs`",
        )


def _differing(
    study: Study,
    heard: Mapping[str, ClipStats],
    measured: Callable[[ClipStats], float],
    least: float,
    what: str,
    unit: str,
    most: str,
    remedy: str,
) -> Iterator[Finding]:
    by: dict[str, dict[str, float]] = {}
    for item in study.items:
        values = {condition: measured(heard[file]) for condition, file in item.files.items()}
        if max(values.values()) - min(values.values()) > least:
            by[item.id] = values
    if not by:
        return
    apart = unit.format(max(max(values.values()) - min(values.values()) for values in by.values()))
    if len(by) == 1:
        yield Finding(
            "warning",
            f"item {next(iter(by))}: conditions differ in {what} by {apart}, which "
            f"distinguishes them{remedy}.",
        )
        return
    first, n = Counter(max(values, key=lambda c: values[c]) for values in by.values()).most_common(1)[0]
    yield Finding(
        "warning",
        f"{len(by)} items ({listed(list(by))}): conditions differ in {what} by up to {apart}, which "
        f"distinguishes them; {first} is the {most} in {n} of {len(by)}{remedy}.",
    )


def measured(trials: Sequence[Trial], claim: str, levelled: bool) -> Iterator[Finding]:
    """Whether level or length reveals the condition of trials that play one clip. Pairs are compared in
    `apart`."""
    sounds = {(t.clip, t.asked["condition"]): t.played for t in trials if t.played is not None}
    names = sorted({condition for _, condition in sounds})
    if len(names) < 2:
        return
    counts = np.array([[float(condition == name) for name in names] for _, condition in sounds])
    for what, unit, by in (
        ("loudness", "dB", [s.power_dbfs for s in sounds.values()]),
        ("length", "s", [s.seconds for s in sounds.values()]),
    ):
        if what == "loudness" and levelled:
            continue
        known = _heard_apart(by, LOUDER_DB if what == "loudness" else LONGER * median(by))
        guessed = from_items(known, counts)
        if (guessed.certain and guessed.p <= 0.03) or guessed.more_than_chance:
            middles = {
                name: median(v for v, (_, c) in zip(by, sounds, strict=True) if c == name) for name in names
            }
            each = ", ".join(f"{name} {v:.3g} {unit}" for name, v in middles.items())
            do = "set `power_dbfs`" if what == "loudness" else "take versions of the same clips"
            yield Finding(
                "error" if guessed.certain else "warning",
                f"{claim} the {what} (medians: {each}): {guessed.describe(len(sounds), 'sound')}. To fix it, "
                f"{do}.",
            )


def _heard_apart(values: Sequence[float], least: float) -> list[str]:
    """Quartiles of the values; quartiles whose medians differ by less than `least` are merged."""
    of = quarters(values)
    middles = {
        q: median(v for v, quartile in zip(values, of, strict=True) if quartile == q) for q in sorted(set(of))
    }
    first, out = min(middles.values()), dict[int, float]()
    for q, middle in middles.items():
        first = middle if middle - first >= least else first
        out[q] = first
    return [str(out[q]) for q in of]

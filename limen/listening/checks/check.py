"""Problems of a study, found before the first listener: files, rates, loudness, clipping, balance, conditions
that can be guessed (confounds.py), duration, number of listeners."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from limen.core.errors import UserError
from limen.listening.statistics.assumptions import ICC, ITEM_SD
from limen.listening.study import Item, Study, read_study
from limen.trials.base.screen import Screen
from limen.trials.base.trial import trial_type

READING_S, ANSWERING_S = 4.0, 4.0
"""Seconds that a screen takes in addition to its sounds, for reading and for each answer."""
LONGEST_MIN = 30.0
"""In longer studies listeners get tired: ITU-R BS.1534-3 requires breaks, and crowd workers leave."""
QUIET_DBFS = -60.0


@dataclass(frozen=True)
class Finding:
    level: Literal["error", "warning", "note"]
    text: str


@dataclass(frozen=True)
class ClipStats:
    """Properties of an audio file."""

    rate_hz: int
    channels: int
    seconds: float
    power_dbfs: float
    clipped: int
    """Longest run of samples at full scale."""
    content: str = ""
    """Hash of the samples: the same for two files with the same audio."""


def check_study(path: Path, icc: float = ICC, item_sd: float = ITEM_SD) -> list[Finding]:
    """Errors, then warnings, then notes; a UserError if the study file cannot be read. `icc` and `item_sd`
    are assumptions for the number of listeners: the correlation of two answers of one listener, and the
    standard deviation between items."""
    from limen.listening.checks.rules import conditions

    study = read_study(path)
    heard, findings = _files(study, path.parent)
    findings += [f for item in study.items for f in _item(study, item, heard)]
    findings += [*_whole(study, heard), *conditions(study)]
    if not any(f.level == "error" for f in findings):
        try:
            findings += _design(study, heard, icc, item_sd)
            findings += _shifts(study, path.parent)
        except UserError as error:
            findings.append(Finding("error", str(error)))
    order = ("error", "warning", "note")
    return sorted(findings, key=lambda f: order.index(f.level))


def _files(study: Study, folder: Path) -> tuple[dict[str, ClipStats], list[Finding]]:
    from limen.listening.stimuli import inside

    heard: dict[str, ClipStats] = {}
    findings = []
    for name in dict.fromkeys(file for item in study.items for file in item.files.values()):
        try:
            heard[name] = _listen(inside(folder, name))
        except UserError as error:
            findings.append(Finding("error", str(error)))
    return heard, findings


def _listen(path: Path) -> ClipStats:
    from limen.audio.files import clip_header, read_clip

    rate_hz, channels = clip_header(path)
    x = read_clip(path, rate_hz)
    below = (x.abs() < 32767 / 32768).nonzero()[:, 0]
    between = torch.cat([below.new_tensor([-1]), below, below.new_tensor([len(x)])])
    power = float(x.square().mean().clamp(min=1e-12))
    return ClipStats(
        rate_hz,
        channels,
        len(x) / rate_hz,
        10 * float(torch.log10(torch.tensor(power))),
        int(between.diff().max()) - 1,
        hashlib.sha256(x.numpy().tobytes()).hexdigest(),
    )


def _item(study: Study, item: Item, heard: dict[str, ClipStats]) -> Iterator[Finding]:
    there = {condition: heard[file] for condition, file in item.files.items() if file in heard}
    for condition, sound in there.items():
        who = f"{item.files[condition]} (item {item.id}, {condition})"
        if sound.clipped >= 4:
            yield Finding("warning", f"{who}: clipped, {sound.clipped} samples in a row at full scale.")
        if sound.power_dbfs < QUIET_DBFS:
            yield Finding("warning", f"{who}: almost silent ({sound.power_dbfs:.0f} dB of full scale).")
        if sound.channels > 1:
            yield Finding("note", f"{who}: has {sound.channels} channels; listeners hear their mean.")
    if len({s.rate_hz for s in there.values()}) > 1:
        rates = ", ".join(f"{c} {s.rate_hz} Hz" for c, s in there.items())
        yield Finding(
            "error",
            f"item {item.id}: conditions have different sample rates ({rates}), which can be heard. Resample "
            "them to one rate.",
        )


def _whole(study: Study, heard: dict[str, ClipStats]) -> Iterator[Finding]:
    rates = Counter(s.rate_hz for s in heard.values())
    if len(rates) > 1:
        each = ", ".join(f"{n} at {rate} Hz" for rate, n in sorted(rates.items()))
        yield Finding(
            "warning", f"files have different sample rates ({each}): the bandwidth differs between items."
        )
    names = [step["name"] for step in study.steps]
    consent = next((k for k, name in enumerate(names) if trial_type(name).asks_consent), None)
    if consent is None:
        yield Finding("warning", "no step asks for consent.")
    elif asked := [name for name in names[:consent] if not trial_type(name).text_only]:
        yield Finding(
            "warning",
            f"consent comes after {', '.join(asked)}: answers given before it stay if a listener does not "
            "agree.",
        )
    if not any(trial_type(name).sets_level for name in names):
        yield Finding("warning", "no step lets the listener set the level.")
    if study.seed == 0:
        yield Finding(
            "note",
            "seed is 0, the default: anyone with Limen can compute the correct answers. Choose another "
            "number.",
        )
    redirect = study.recruitment.redirect
    if redirect and "{code}" not in redirect and (study.recruitment.code or "{code}") not in redirect:
        yield Finding(
            "warning",
            "recruitment.redirect does not contain {code}: the recruitment site cannot know who finished.",
        )
    if not study.contact:
        yield Finding("note", "contact is empty: listeners do not know whom to ask.")


def _design(study: Study, heard: dict[str, ClipStats], icc: float, item_sd: float) -> Iterator[Finding]:
    from limen.listening.checks.confounds import confounds
    from limen.listening.checks.planning import plan_findings
    from limen.listening.checks.rules import questions, rules
    from limen.listening.design import screens

    planned = {group: screens(study, group, 0) for group in study.cells}
    trials = {group: [s for s in found if s.role == "trial"] for group, found in planned.items()}
    for group, found in planned.items():
        of = f"group {group}: " if group else ""
        minutes = sum(_seconds(s, heard) for s in found) / 60
        yield Finding(
            "warning" if minutes > LONGEST_MIN else "note",
            f"{of}{len(trials[group])} trials in {len(found)} screens, about {minutes:.0f} minutes per "
            "listener.",
        )
        if not trials[group]:
            yield Finding("error", f"{of}there are no trials, because no item belongs to it.")
    yield from _balance(planned)
    yield from confounds(study, heard)
    yield from rules(study, planned)
    yield from questions(study)
    yield from (Finding(*found) for found in plan_findings(study, planned, icc, item_sd))


def _shifts(study: Study, folder: Path) -> Iterator[Finding]:
    """Versions of a clip that switching reveals by a time shift."""
    from limen.listening.checks.alignment import shifted
    from limen.listening.design import screens

    if any(screen.switch for group in study.cells for screen in screens(study, group, 0)):
        yield from (Finding("warning", text) for text in shifted(study, folder))


def _seconds(screen: Screen, heard: dict[str, ClipStats]) -> float:
    lengths = [heard[s.stimulus.file].seconds if s.stimulus.file in heard else 2.0 for s in screen.sounds]
    return READING_S + 1.5 * sum(lengths) + ANSWERING_S * len(screen.widgets)


def _balance(planned: dict[str, list[Screen]]) -> Iterator[Finding]:
    """Unequal numbers of trials per condition, for every trial type of every group."""
    for group, found in planned.items():
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for screen in found:
            if screen.role == "trial" and screen.facts.get("condition"):
                counts[screen.kind][str(screen.facts["condition"])] += 1
        for kind, count in counts.items():
            if max(count.values()) > min(count.values()) + 1:
                each = ", ".join(f"{n} {condition}" for condition, n in sorted(count.items()))
                where = f"group {group}, {kind}" if group else kind
                yield Finding("warning", f"{where}: conditions occur unequally often ({each}).")

"""What the answers of a study say. `analyse` applies the study's rules, then each trial type's statistics,
then answers its questions.

Only trials of listeners who are not left out count. Every number carries how many answers it comes from; what
could not be analysed is said in `notes`. The statistics are those of limen.listening.statistics and
limen.perception.psychometric.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from limen.listening.analysis.breakdowns import MOST, too_many
from limen.listening.analysis.choices import LARGEST_MODEL, choices
from limen.listening.analysis.exclusions import Exclusions, by_listener, exclusions
from limen.listening.analysis.hypotheses import answered
from limen.listening.analysis.ratings import ratings, sliders
from limen.listening.analysis.results import Person, Playback, Results, Times
from limen.listening.analysis.thresholds import thresholds
from limen.listening.analysis.words import preference, transcriptions
from limen.listening.study import Study, clips_of

Row = Mapping[str, Any]
IDENTIFIED = {"naturalness": "identification"}
"""Trial types that may ask for a word beside a rating, and the type that its right answers count for."""
BOUND = 0.1
"""Of equivalence with chance, where no hypothesis of the trial type names another."""


def analyse(study: Study, rows: Sequence[Row], seed: int = 0, recorded: str | None = None) -> Results:
    """Results of a study. `rows` are those of limen.listening.analysis.export; `recorded` is the fingerprint
    that the store recorded before the first answer; `seed` is that of resampling."""
    out = exclusions(study, rows, recorded)
    left_out = out.reasons()
    # what items are drawn from are clips: copies of one under several names are no further clips
    clips = clips_of(study.items)
    counted = [
        {**row, "item": clips.get(row["item"], row["item"])}
        for row in rows
        if row["role"] == "trial" and row["listener"] not in left_out
    ]
    by_kind = kinds(counted)
    notes = [
        f"Results are not sorted by {key}: it has more than {MOST} values."
        for key in too_many(study, counted)
    ]
    found: dict[str, list[Any]] = {
        "choices": [],
        "rated": [],
        "preference": [],
        "transcriptions": [],
        "thresholds": [],
    }
    for kind, mine in by_kind.items():
        _analyse_kind(study, kind, mine, seed, found, notes)
    stamps = sorted(row["received_at"] for row in rows)
    return Results(
        study=study.name,
        title=study.title,
        fingerprint=study.fingerprint(),
        seed=seed,
        wanted=study.listeners,
        listeners=out.listeners,
        finished=sum(bool(mine[0]["finished"]) for mine in by_listener(rows).values()),
        answers=len({(row["listener"], row["position"]) for row in counted}),
        first=stamps[0] if stamps else "",
        last=stamps[-1] if stamps else "",
        simulated=sum(bool(mine[0].get("simulated")) for mine in by_listener(rows).values()),
        exclusions=out,
        choices=tuple(found["choices"]),
        rated=tuple(found["rated"]),
        preference=tuple(found["preference"]),
        transcriptions=tuple(found["transcriptions"]),
        thresholds=tuple(found["thresholds"]),
        hypotheses=answered(study, by_kind, found["rated"], seed),
        times=_times(by_kind),
        playback=_playback(counted),
        people=_people(rows, out),
        notes=tuple(notes),
    )


def kinds(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Trials by type. A screen that asks for a word beside a rating belongs to both: its words are
    identification."""
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row["kind"], []).append(row)
        if row["kind"] in IDENTIFIED and row["choice"] is not None:
            out.setdefault(IDENTIFIED[row["kind"]], []).append({**row, "rating": None})
    return {
        kind: [{**row, "correct": None} if kind in IDENTIFIED else row for row in mine]
        for kind, mine in out.items()
    }


def _analyse_kind(
    study: Study, kind: str, rows: Sequence[Row], seed: int, found: dict[str, list[Any]], notes: list[str]
) -> None:
    bound = next((h.bound for h in study.hypotheses if h.trial == kind and h.kind == "equivalent"), BOUND)
    judged = [row for row in rows if row["correct"] is not None and row["choice"] is not None]
    rated = [row for row in rows if row["rating"] is not None]
    if kind == "same_different":
        if part := thresholds(study, kind, rows):
            found["thresholds"].append(part)
        # right and wrong only mean something where both kinds of pairs were asked about
        judged = judged if len({row["truth"] for row in judged}) > 1 else []
    if judged:
        part_ = choices(study, kind, judged, bound, seed)
        found["choices"].append(part_)
        if part_.mixed is None and part_.shares[0].listeners + part_.shares[0].items > LARGEST_MODEL:
            notes.append(
                f"{kind}: no mixed model, because listeners and items together are more than {LARGEST_MODEL}."
            )
    if rated and any(row["sound"] is not None for row in rated):
        part_of_sliders, remarks = sliders(study, kind, rated, seed)
        found["rated"].append(part_of_sliders)
        notes += remarks
    elif rated:
        found["rated"].append(ratings(study, kind, rated, seed))
    if kind == "preference":
        found["preference"].append(preference(study, kind, rows, seed))
    if kind == "transcription" and (typed := [row for row in rows if row["truth"] is not None]):
        found["transcriptions"].append(transcriptions(study, kind, typed))
    if unjudged := len(
        [
            row
            for row in rows
            if row["choice"] is not None and row["truth"] is None and kind == "identification"
        ]
    ):
        notes.append(f"{kind}: {unjudged} answers to items without `answer` have no right or wrong.")


def _times(by_kind: Mapping[str, Sequence[Row]]) -> tuple[Times, ...]:
    out = []
    for kind, rows in by_kind.items():
        screens = {
            (row["listener"], row["position"]): row["response_ms"]
            for row in rows
            if row["response_ms"] is not None
        }
        if screens:
            q = np.quantile(np.asarray(list(screens.values()), float) / 1000, [0.25, 0.5, 0.75])
            out.append(Times(kind, len(screens), float(q[1]), (float(q[0]), float(q[2]))))
    return tuple(out)


def _playback(rows: Sequence[Row]) -> Playback:
    screens = list(
        {(row["listener"], row["position"]): row for row in rows if row["heard"] is not None}.values()
    )
    rates = Counter({row["listener"]: f"{row['rate_hz']:g}" for row in screens if row["rate_hz"]}.values())
    plays = float(np.mean([row["plays"] for row in screens])) if screens else 0.0
    return Playback(
        len(screens), sum(bool(row["heard"]) for row in screens), plays, tuple(rates.most_common())
    )


def _people(rows: Sequence[Row], out: Exclusions) -> tuple[Person, ...]:
    why = {e.listener: e for e in out.excluded}
    people = []
    for listener, mine in by_listener(rows).items():
        trials = list({row["position"]: row for row in mine if row["role"] == "trial"}.values())
        asked = [
            (IDENTIFIED.get(str(row["kind"]), str(row["kind"])), row["correct"])
            for row in trials
            if row["correct"] is not None
        ]
        judged, right = (
            Counter(kind for kind, _ in asked),
            Counter(kind for kind, correct in asked if correct),
        )
        times = [row["response_ms"] / 1000 for row in trials if row["response_ms"] is not None]
        stamps = sorted(datetime.fromisoformat(row["received_at"]) for row in mine)
        sounded = [row for row in trials if row["heard"] is not None]
        people.append(
            Person(
                listener=listener,
                group=str(mine[0]["group"]),
                trials=len(trials),
                right=tuple((kind, right[kind], n) for kind, n in judged.items()),
                median_s=float(np.median(times)) if times else None,
                minutes=(stamps[-1] - stamps[0]).total_seconds() / 60 if stamps else None,
                heard=sum(bool(row["heard"]) for row in sounded),
                with_sounds=len(sounded),
                excluded=why[listener].reason if listener in why else "",
                evidence=why[listener].evidence if listener in why else "",
                implausible=str(mine[0].get("implausible") or ""),
            )
        )
    return tuple(people)

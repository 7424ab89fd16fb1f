"""Analysis of a study: exclusion rules, then the analyses of each trial type, then the hypotheses.

Only trials of listeners who are not excluded are analysed. Each number comes with its number of answers;
`notes` lists what could not be analysed. The statistics are those of limen.listening.statistics and
limen.perception.psychometric.
"""

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import numpy as np

from limen.listening.analysis.answers import TrialAnswers
from limen.listening.analysis.breakdowns import MOST, too_many
from limen.listening.analysis.exclusions import Exclusions, by_listener, exclusions
from limen.listening.analysis.hypotheses import answered
from limen.listening.analysis.result_types import Own, TrialResult
from limen.listening.analysis.results import Person, Playback, Results, Times
from limen.listening.study import Study, clips_of
from limen.trials.base.findings import Row
from limen.trials.base.trial import trial_type, trial_types

BOUND = 0.1
"""Largest difference from chance that counts as equivalent, unless a hypothesis about the trial type gives
another."""


def analyse(study: Study, rows: Sequence[Row], seed: int = 0, recorded: str | None = None) -> Results:
    """Results of a study. `rows` are those of limen.listening.analysis.export; `recorded` is the fingerprint
    of the study file stored before the first answer; `seed` is that of resampling."""
    out = exclusions(study, rows, recorded)
    excluded = out.reasons()
    # intervals generalise over clips: items that share audio are the same clip
    clips = clips_of(study.items)
    counted = [
        {**row, "item": clips.get(row["item"], row["item"])}
        for row in rows
        if row["role"] == "trial" and row["listener"] not in excluded
    ]
    by_trial = by_trial_type(counted)
    notes = [
        f"Results are not grouped by {key}: it has more than {MOST} values."
        for key in too_many(study, counted)
    ]
    results: list[TrialResult] = []
    for trial, mine in by_trial.items():
        found, remarks = analyse_trial(study, trial, mine, seed)
        results += found
        notes += remarks
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
        trials=tuple(results),
        hypotheses=answered(study, by_trial, results, seed),
        times=_times(by_trial),
        playback=_playback(counted),
        people=_people(rows, out),
        notes=tuple(notes),
    )


def by_trial_type(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by trial type. A screen with a rating and a word belongs to two types: its words count for the
    type that its trial type declares."""
    words = {name: trial_type(name).words_count_for for name in trial_types("words_count_for")}
    out: dict[str, list[Row]] = {}
    for row in rows:
        out.setdefault(row["kind"], []).append(row)
        if row["kind"] in words and row["choice"] is not None:
            out.setdefault(words[row["kind"]], []).append({**row, "rating": None})
    return {
        trial: [{**row, "correct": None} for row in mine] if trial in words else mine
        for trial, mine in out.items()
    }


def analyse_trial(
    study: Study, trial: str, rows: Sequence[Row], seed: int
) -> tuple[list[TrialResult], list[str]]:
    """Results of all analyses that a trial type declares, and notes."""
    declared = trial_type(trial)
    bounds = [h.bound for h in study.hypotheses if h.trial == trial and h.kind == "equivalent"]
    answers = TrialAnswers(study, trial, rows, bounds[0] if bounds else BOUND, seed)
    results: list[TrialResult] = []
    notes: list[str] = []
    for name in declared.analyses:
        result, remarks = load_analysis(name)(answers)
        results += [result] if result else []
        notes += remarks
    if findings := declared.analyse(answers):
        results.append(Own(trial, findings))
    return results, notes


def load_analysis(name: str) -> Callable[[TrialAnswers], tuple[TrialResult | None, list[str]]]:
    """The function of limen/listening/analyses/NAME.py."""
    analysis: Callable[[TrialAnswers], tuple[TrialResult | None, list[str]]] = getattr(
        importlib.import_module(f"limen.listening.analyses.{name}"), name
    )
    return analysis


def _times(by_trial: Mapping[str, Sequence[Row]]) -> tuple[Times, ...]:
    out = []
    for trial, rows in by_trial.items():
        screens = {
            (row["listener"], row["position"]): row["response_ms"]
            for row in rows
            if row["response_ms"] is not None
        }
        if screens:
            q = np.quantile(np.asarray(list(screens.values()), float) / 1000, [0.25, 0.5, 0.75])
            out.append(Times(trial, len(screens), float(q[1]), (float(q[0]), float(q[2]))))
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
        judged, right = _judged(trials)
        times = [row["response_ms"] / 1000 for row in trials if row["response_ms"] is not None]
        stamps = sorted(datetime.fromisoformat(row["received_at"]) for row in mine)
        with_sounds = [row for row in trials if row["heard"] is not None]
        people.append(
            Person(
                listener=listener,
                group=str(mine[0]["group"]),
                trials=len(trials),
                right=tuple((trial, right[trial], n) for trial, n in judged.items()),
                median_s=float(np.median(times)) if times else None,
                minutes=(stamps[-1] - stamps[0]).total_seconds() / 60 if stamps else None,
                heard=sum(bool(row["heard"]) for row in with_sounds),
                with_sounds=len(with_sounds),
                excluded=why[listener].reason if listener in why else "",
                evidence=why[listener].evidence if listener in why else "",
                implausible=str(mine[0].get("implausible") or ""),
            )
        )
    return tuple(people)


def _judged(trials: Sequence[Row]) -> tuple[Counter[str], Counter[str]]:
    """By trial type: answers that are right or wrong, and right answers."""
    judged, right = Counter[str](), Counter[str]()
    for row in trials:
        if row["correct"] is not None:
            trial = trial_type(row["kind"]).words_count_for or str(row["kind"])
            judged[trial] += 1
            right[trial] += bool(row["correct"])
    return judged, right

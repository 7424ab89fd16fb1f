"""Tables of the results page about hypotheses and listeners."""

from typing import Any

from limen.listening.analysis.results import Results
from limen.report.formatting import DASH, fmt, many
from limen.report.study import sentences as words
from limen.report.study.tables import Table, p_cell, table
from limen.trials.base.trial import title_of


def hypotheses(results: Results) -> dict[str, Any]:
    rows = []
    for h in results.hypotheses:
        kind, answer = (
            "yes" if h.verdict == "yes" else "no",
            h.estimate if h.verdict == "no answers" else h.verdict,
        )
        rows.append(
            {
                "name": h.name,
                "where": f"{title_of(h.trial)}, {h.where}" if h.where.keys else title_of(h.trial),
                "estimate": h.estimate if h.holds is not None else DASH,
                "method": h.method or DASH,
                "p": p_cell(h.p),
                "corrected": p_cell(h.p_corrected),
                "independent": p_cell(h.p_independent),
                "power": fmt(h.power, "%") if h.power is not None else DASH,
                "answer": answer,
                "kind": kind,
            }
        )
    return {"rows": rows, "caption": words.hypotheses(results.hypotheses)}


def excluded(results: Results) -> dict[str, Any]:
    out = results.exclusions
    rules = [[k + 1, rule, n] for k, (rule, n) in enumerate(zip(out.rules, out.hits, strict=True))]
    people = [[e.listener, e.group or DASH, e.reason, e.evidence] for e in out.excluded]
    checked = {
        None: "",
        True: " They are the rules recorded before the first answer.",
        False: " They are NOT the rules recorded before the first answer.",
    }
    caption = (
        f"{many(len(out.excluded), 'listener')} of {fmt(out.listeners, 'n')} excluded by the rules of the "
        f"study file, applied in order; the first that applies counts.{checked[out.same]}"
    )
    return {
        "caption": caption,
        "rules": table("Rules", [("Order", ""), ("Rule", ""), ("Listeners excluded", "")], rules, names=2),
        "people": table(
            "Excluded listeners",
            [("Listener", ""), ("Group", ""), ("Rule", ""), ("Evidence", "")],
            people,
            names=4,
        ),
    }


def times(results: Results) -> Table:
    rows = [
        [
            title_of(t.trial),
            t.n,
            fmt(t.median_s, "1f"),
            f"{fmt(t.quartiles_s[0], '1f')}{DASH}{fmt(t.quartiles_s[1], '1f')}",
        ]
        for t in results.times
    ]
    return table(
        "Time per answer, seconds", [("Trial", ""), ("n", ""), ("Median", ""), ("Quartiles", "")], rows
    )


def implausible(results: Results) -> Table:
    rows = [
        [p.listener, p.group or DASH, p.implausible, "yes" if p.excluded else "no"]
        for p in results.people
        if p.implausible
    ]
    headings = [("Listener", ""), ("Group", ""), ("Evidence", ""), ("Excluded", "")]
    return table(
        "Implausible answers",
        headings,
        rows,
        "A program that compares the samples of the sounds gives such answers.",
        names=4,
    )


def people(results: Results) -> Table:
    rows = [
        [
            p.listener,
            p.group or DASH,
            p.trials,
            "; ".join(f"{title_of(trial)} {right} of {n}" for trial, right, n in p.right) or DASH,
            fmt(p.median_s, "1f"),
            fmt(p.minutes, "1f"),
            f"{p.heard} of {p.with_sounds}",
            "yes" if p.implausible else DASH,
            p.excluded or DASH,
        ]
        for p in results.people
    ]
    headings = [
        ("Listener", ""),
        ("Group", ""),
        ("Trials", ""),
        ("Right", ""),
        ("Median s", "time per trial"),
        ("Minutes", "first to last answer"),
        ("Played", "screens with proof of playback"),
        ("Implausible", "right although others guess, in less time than the sounds last"),
        ("Excluded", ""),
    ]
    return table("Every listener", headings, rows, "Listeners are anonymous numbers.", names=2)

"""Tables of the results page about hypotheses and listeners."""

from limen.listening.analysis.results import HypothesisResult, Results
from limen.report.blocks import Block, Cell, Group, Heading, Prose, Row, Table
from limen.report.formatting import DASH, fmt, many
from limen.report.study.tables import p_cell, table
from limen.trials.base.trial import title_of

HYPOTHESES_NOTE = (
    "p and the intervals generalise over what the column Test names. The result is based on p corrected "
    "by Holm’s method over all rows of this table. “p if answers were independent” is that of the exact "
    "test; no result is based on it. Power is the probability that a study of this size, with answers as "
    "alike as these, gives yes if the effect is the one in the study file (for equivalence: if no "
    "listener hears anything), at the strictest corrected level: alpha divided by the number of "
    "hypotheses with answers. “Not shown” does not mean “shown not to be”; “on average only” is "
    "equivalence of the mean while more than a fifth of listeners may hear the difference."
)


def hypotheses(results: Results) -> Table:
    words_and_numbers = {
        "Hypothesis": False,
        "Answers": False,
        "Estimate": False,
        "Test": False,
        "p": True,
        "p corrected": True,
        "p if answers were independent": True,
        "Power": True,
        "Result": False,
    }
    headings = [Heading(text, number=number) for text, number in words_and_numbers.items()]
    rows = [Row(_hypothesis(h)) for h in results.hypotheses]
    label = "Hypotheses and their results"
    return Table("", headings, [Group(rows)], HYPOTHESES_NOTE, label=label, style="text")


def _hypothesis(h: HypothesisResult) -> list[Cell | str]:
    title = title_of(h.trial)
    tested = h.holds is not None
    return [
        h.name,
        f"{title}, {h.where}" if h.where.keys else title,
        h.estimate if tested else DASH,
        h.method or DASH,
        p_cell(h.p),
        p_cell(h.p_corrected),
        p_cell(h.p_independent),
        fmt(h.power, "%") if h.power is not None else DASH,
        Cell(h.verdict if tested else h.estimate, style="yes" if h.verdict == "yes" else "no"),
    ]


def excluded(results: Results) -> list[Block]:
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
    headings = [("Order", ""), ("Rule", ""), ("Listeners excluded", "")]
    blocks: list[Block] = [Prose(caption), table("Rules", headings, rules, names=2)]
    if people:
        headings = [("Listener", ""), ("Group", ""), ("Rule", ""), ("Evidence", "")]
        blocks.append(table("Excluded listeners", headings, people, names=4))
    return blocks


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

"""Tables of a listening study's results page, ready for the template."""

from collections.abc import Sequence
from typing import Any

from limen.listening.analysis.result_types import (
    Choices,
    Estimate,
    Preference,
    Rated,
    Share,
    Thresholds,
    Transcriptions,
    Where,
)
from limen.listening.statistics.assumptions import FEW_ITEMS
from limen.report.formatting import DASH, fmt, listed
from limen.report.study import sentences as words

Table = dict[str, Any]


BOTH = "listeners and items"


def table(
    title: str, headings: list[tuple[str, str]], rows: list[list[Any]], caption: str = "", names: int = 1
) -> Table:
    """Headings are (heading, meaning); the first `names` columns hold words."""
    return {"title": title, "headings": headings, "names": names, "rows": rows, "caption": caption}


def _where(where: Where) -> tuple[str, str]:
    """What answers are sorted by, and its value."""
    return listed(where.keys) or "all", str(where) if where.keys else ""


def p_cell(p: float | None) -> str:
    return DASH if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def choices(part: Choices) -> list[Table]:
    out = [_shares(part), _independent(part)]
    if any(s.sure for s in part.shares):
        out.append(_confidence(part))
    if part.mixed:
        rows = [
            [name, words.number_interval(e, "2f"), p_cell(p)]
            for name, e, p in zip(part.mixed.names, part.mixed.log_odds, part.mixed.p, strict=True)
        ]
        caption = (
            "Log odds of a right answer with 95 % intervals (Student’s t); 0 is even odds. Standard "
            f"deviation between listeners {fmt(part.mixed.listener_sd, '2f')}, between items "
            f"{fmt(part.mixed.item_sd, '2f')}. The model describes: it takes a condition’s effect to be the "
            "same for every listener and item, so no verdict comes from it."
        )
        out.append(
            table(
                "Mixed-effects logistic model",
                [("Compared", ""), ("Log odds", "95 % interval in brackets"), ("p", "")],
                rows,
                caption,
            )
        )
    if part.others:
        out.append(
            table("Free answers", [("Typed", ""), ("Times", "")], [[text, n] for text, n in part.others])
        )
    return out


def _shares(part: Choices) -> Table:
    detect = any(s.d_prime.value is not None for s in part.shares)
    equal = any(s.p_equivalent is not None for s in part.shares)
    headings = [
        ("By", "what the answers are sorted by"),
        ("Value", ""),
        ("n", "answers"),
        ("Right", ""),
        ("Share", ""),
        ("95 % interval", "what it holds for stands below"),
        ("p better", "one-sided: better than chance"),
        ("p two-sided", "other than chance"),
    ]
    if equal:
        within = f"p within ±{100 * part.shares[0].bound:.0f}"
        headings += [
            (within, "equivalence with chance, two one-sided tests"),
            ("May hear it, up to", "share of listeners: 95 % upper bound"),
        ]
    if detect:
        headings += [
            ("d′", "sensitivity, negative below chance; 95 % interval from that of the share"),
            ("d′ from 0 up", "the same, 0 below chance: too high on average where nothing is heard"),
            ("Bias c", "0: neither answer is preferred"),
        ]
    caption = (
        f"Chance is {fmt(part.shares[0].chance, '%')}. {held([(str(s.where), s.share) for s in part.shares])}"
    )
    return table("Right answers", headings, [_share(s, detect, equal) for s in part.shares], caption, names=2)


def held(estimates: Sequence[tuple[str, Estimate]], what: str = "Intervals and p") -> str:
    """What the intervals hold for, and what they cannot. Each estimate comes with its name."""
    known = [(name, e) for name, e in estimates if e.low is not None]
    fewer = [(name, e) for name, e in known if e.over != BOTH]
    few = [name for name, e in known if e.over == BOTH and e.items is not None and e.items < FEW_ITEMS]
    out = f"{what} hold for other listeners and other items"
    if fewer:
        over = listed(list(dict.fromkeys(e.over for _, e in fewer)))
        out += f", but of {_some([name for name, _ in fewer])} only over {over}: the design tells no more"
    if few:
        out += (
            f". Of {_some(few)} there are fewer than five items, so what items differ by is hardly known: a "
            "test at 5 % may find what is not there in up to 11 % of studies"
        )
    return f"{out}."


def _some(names: Sequence[str]) -> str:
    names = list(dict.fromkeys(names))
    return listed(names[:6]) + (", ..." if len(names) > 6 else "")


def _independent(part: Choices) -> Table:
    equal = any(s.independent.p_equivalent is not None for s in part.shares)
    headings = [
        ("By", ""),
        ("Value", ""),
        ("n", "answers"),
        ("Share", ""),
        ("95 % interval", "Clopper-Pearson"),
        ("p better", "exact binomial against chance, one-sided"),
        ("p two-sided", "exact binomial against chance"),
    ]
    headings += (
        [(f"p within ±{100 * part.shares[0].bound:.0f}", "two one-sided exact binomials")] if equal else []
    )
    headings += [
        ("Design effect", "so many answers are worth one independent one"),
        ("df", "degrees of freedom of the tests above"),
    ]
    rows = [
        [
            *_where(s.where),
            fmt(s.n, "n"),
            fmt(s.share.value, "%"),
            _range(s.independent.interval),
            p_cell(s.independent.p_greater),
            p_cell(s.independent.p_two_sided),
            *([p_cell(s.independent.p_equivalent)] if equal else []),
            fmt(s.design_effect, "2f") if s.design_effect is not None else DASH,
            fmt(s.df, "1f") if s.df is not None else DASH,
        ]
        for s in part.shares
    ]
    caption = (
        "Exact intervals and tests, as they would be if answers of one listener, and to one item, were no "
        "more alike than others. The table above does not assume that."
    )
    return table("If answers were independent", headings, rows, caption, names=2)


def _share(s: Share, detect: bool, equal: bool) -> list[Any]:
    row = [
        *_where(s.where),
        fmt(s.n, "n"),
        fmt(s.right, "n"),
        fmt(s.share.value, "%"),
        _range(s.share),
        p_cell(s.p_greater),
        p_cell(s.p_two_sided),
    ]
    row += [p_cell(s.p_equivalent), fmt(s.hearers.high, "%")] if equal else []
    if not detect:
        return row
    bias = fmt(None if s.bias is None else round(s.bias, 2) + 0.0, "2f")
    return [
        *row,
        words.number_interval(s.d_prime, "2f"),
        words.number_interval(s.d_prime_truncated, "2f"),
        bias,
    ]


def _range(e: Estimate) -> str:
    return words.ends(e, "1f", 100) or DASH


def _confidence(part: Choices) -> Table:
    rows = []
    for s in part.shares:
        if s.where.keys in ((), ("condition",)) or (len(s.where.keys) == 1 and s.where.keys[0] != "group"):
            rows += [
                [
                    *_where(s.where),
                    c.confidence,
                    c.n,
                    fmt(c.of_all, "%"),
                    c.right,
                    fmt(c.share.value, "%") if c.share.value is not None else DASH,
                    _range(c.share),
                ]
                for c in s.sure
            ]
    headings = [
        ("By", ""),
        ("Value", ""),
        ("Confidence", ""),
        ("n", ""),
        ("Of all answers", ""),
        ("Right", ""),
        ("Share right", ""),
        ("95 % interval", "what it holds for stands below"),
    ]
    sure = [(f"{s.where}, {c.confidence}", c.share) for s in part.shares for c in s.sure]
    caption = f"Of the answers of each confidence, the share that was right. {held(sure, 'Intervals')}"
    return table("Confidence and accuracy", headings, rows, caption, names=3)


def notes(part: Choices) -> list[str]:
    return [words.agreement(part.agreement)] if part.agreement.value is not None else []


def rated(part: Rated) -> list[Table]:
    steps = [(fmt(level), f"ratings of {fmt(level)}") for level in part.levels]
    headings = [("By", ""), ("Value", ""), ("n", ""), *steps, ("Mean", "95 % interval in brackets")]
    headings += [] if steps else [("Median", ""), ("Quartiles", "")]
    headings += [(f"≥ {fmt(part.good_from)}", "95 % interval in brackets"), (f"≤ {fmt(part.bad_to)}", "")]
    rows = [
        [
            *_where(r.where),
            fmt(r.n, "n"),
            *r.counts,
            words.number_interval(r.mean, "2f" if steps else "1f"),
            *([] if steps else [fmt(r.median), f"{fmt(r.quartiles[0])}{DASH}{fmt(r.quartiles[1])}"]),
            words.percent_interval(r.good),
            fmt(r.bad_n / r.n, "%"),
        ]
        for r in part.ratings
    ]
    out = [
        table(
            "Ratings",
            headings,
            rows,
            held([(str(r.where), r.mean) for r in part.ratings], "Intervals"),
            names=2,
        )
    ]
    return [*out, _comparisons(part)] if part.comparisons else out


def _comparisons(part: Rated) -> Table:
    """Sliders are compared over listeners beside it, steps of a scale as whole distributions."""
    rows = [
        [
            str(c.where),
            f"{c.conditions[1]} against {c.conditions[0]}",
            words.number_interval(c.difference, "2f"),
            p_cell(c.p),
            c.over,
            p_cell(c.p_independent),
            c.method + (f", error {c.error:.2g}" if c.error else ""),
        ]
        for c in part.comparisons
    ]
    headings = [
        ("Of", ""),
        ("Compared", ""),
        ("Difference of means", "95 % interval in brackets"),
        ("p", "that the means are equal"),
        ("Holds over", "beyond those heard"),
        ("p if answers were independent" if part.levels else "p of these items", ""),
        ("Test of that", ""),
    ]
    plain = (
        "The last two columns ask whether whole distributions differ, if answers were independent."
        if part.levels
        else "It is Holm-corrected over conditions. The last two columns take the items as the only ones "
        "there are."
    )
    of = [(f"{c.where}, {c.conditions[1]} against {c.conditions[0]}", c.difference) for c in part.comparisons]
    caption = f"p asks whether means differ. {held(of)} {plain}"
    return table("Do conditions differ?", headings, rows, caption, names=2)


def preference(part: Preference) -> list[Table]:
    rows = [
        [
            f"{p.first} against {p.second}",
            p.n,
            fmt(p.wins),
            p.ties,
            words.percent_interval(p.share),
            p_cell(p.p_two_sided),
            p_cell(p.p_independent),
        ]
        for p in part.pairs
    ]
    headings = [
        ("Compared", ""),
        ("n", ""),
        ("For the first", "a tie counts half"),
        ("Ties", ""),
        ("Share", "of those who chose"),
        ("p two-sided", "what it holds for stands below"),
        ("p if independent", "exact binomial, if answers were independent"),
    ]
    of = [(f"{p.first} against {p.second}", p.share) for p in part.pairs]
    caption = f"Shares are of those who chose one of the two. {held(of)}"
    out = [table("Pairs", headings, rows, caption)]
    if part.worth:
        worth = [[name, words.number_interval(e, "2f")] for name, e in part.worth]
        caption = (
            "0 is the mean of all. Intervals come from drawing listeners: they hold for other "
            "listeners, but only for these items."
        )
        out.append(
            table("Bradley-Terry scale", [("Condition", ""), ("Log worth", "95 % interval")], worth, caption)
        )
    return out


def transcriptions(part: Transcriptions) -> list[Table]:
    rows = [
        [
            *_where(c.where),
            c.n,
            words.percent_interval(c.exact),
            words.percent_interval(c.wer),
        ]
        for c in part.cells
    ]
    headings = [
        ("By", ""),
        ("Value", ""),
        ("n", ""),
        ("Word for word", "95 % interval in brackets"),
        ("Word error rate", "95 % interval in brackets"),
    ]
    of = [(str(c.where), e) for c in part.cells for e in (c.exact, c.wer)]
    caption = f"Lower case, only letters, digits and apostrophes are compared. {held(of, 'Intervals')}"
    out = [table("Transcripts", headings, rows, caption, names=2)]
    if part.worst:
        out.append(
            table(
                "Most frequent mistakes",
                [("Said", ""), ("Typed", ""), ("Times", "")],
                [list(w) for w in part.worst],
                names=2,
            )
        )
    return out


def thresholds(part: Thresholds) -> list[Table]:
    headings = [
        ("Axis", ""),
        ("Listeners", ""),
        ("Trials", ""),
        ("Threshold", "strength heard half the time; 95 % credible interval"),
        ("Spread", "standard deviation between listeners"),
        ("False alarms", "“different” of equal clips"),
    ]
    rows = [
        [
            a.axis,
            a.listeners,
            a.trials,
            words.number_interval(a.threshold),
            words.number_interval(a.spread),
            words.percent_interval(a.false_alarms),
        ]
        for a in part.axes
    ]
    caption = (
        "Strengths go from 0 (unchanged) to 100. Intervals of thresholds and spreads are credible intervals: "
        "they hold for other listeners, but only for these items. "
        f"{held([(a.axis, a.false_alarms) for a in part.axes], 'Intervals of false alarms')}"
    )
    return [table("Thresholds", headings, rows, caption)]

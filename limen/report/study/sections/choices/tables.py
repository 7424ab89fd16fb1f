"""Tables of right answers."""

from typing import Any

from limen.listening.analysis.result_types import Choices, Mixed, Share
from limen.report.blocks import Table
from limen.report.formatting import DASH, fmt
from limen.report.study.sentences import number_interval
from limen.report.study.tables import p_cell, range_cell, scope, table, where_cells


def tables(result: Choices) -> list[Table]:
    out = [_shares(result), _independent(result)]
    if any(s.confidence for s in result.shares):
        out.append(_confidence(result))
    if result.mixed:
        out.append(_mixed(result.mixed))
    if result.typed:
        rows = [[text, n] for text, n in result.typed]
        out.append(table("Free-text answers", [("Typed", ""), ("Count", "")], rows))
    return out


def _shares(result: Choices) -> Table:
    detect = any(s.d_prime.value is not None for s in result.shares)
    equal = any(s.p_equivalent is not None for s in result.shares)
    headings = [
        ("By", "key that the answers are grouped by"),
        ("Value", ""),
        ("n", "answers"),
        ("Right", ""),
        ("Share", ""),
        ("95 % interval", "see the caption for what it generalises over"),
        ("p better", "one-sided: better than chance"),
        ("p two-sided", "different from chance"),
    ]
    if equal:
        within = f"p within ±{100 * result.shares[0].bound:.0f}"
        headings += [
            (within, "equivalence with chance, two one-sided tests"),
            ("May hear it, up to", "share of listeners: 95 % upper bound"),
        ]
    if detect:
        headings += [
            ("d′", "sensitivity, negative below chance; 95 % interval from that of the share"),
            ("d′ truncated", "the same, 0 below chance: too high on average if nothing is heard"),
            ("Bias c", "0: neither answer is preferred"),
        ]
    estimates = [(str(s.where), s.share) for s in result.shares]
    caption = f"Chance is {fmt(result.shares[0].chance, '%')}. {scope(estimates)}"
    rows = [_share(s, detect, equal) for s in result.shares]
    return table("Right answers", headings, rows, caption, names=2)


def _share(s: Share, detect: bool, equal: bool) -> list[Any]:
    row = [
        *where_cells(s.where),
        fmt(s.n, "n"),
        fmt(s.right, "n"),
        fmt(s.share.value, "%"),
        range_cell(s.share),
        p_cell(s.p_greater),
        p_cell(s.p_two_sided),
    ]
    row += [p_cell(s.p_equivalent), fmt(s.hearers.high, "%")] if equal else []
    if not detect:
        return row
    bias = fmt(None if s.bias is None else round(s.bias, 2) + 0.0, "2f")
    return [*row, number_interval(s.d_prime, "2f"), number_interval(s.d_prime_truncated, "2f"), bias]


def _independent(result: Choices) -> Table:
    equal = any(s.independent.p_equivalent is not None for s in result.shares)
    within = f"p within ±{100 * result.shares[0].bound:.0f}"
    headings = [
        ("By", ""),
        ("Value", ""),
        ("n", "answers"),
        ("Share", ""),
        ("95 % interval", "Clopper-Pearson"),
        ("p better", "exact binomial against chance, one-sided"),
        ("p two-sided", "exact binomial against chance"),
        *([(within, "two one-sided exact binomials")] if equal else []),
        ("Design effect", "number of answers that carry as much information as one independent answer"),
        ("df", "degrees of freedom of the tests above"),
    ]
    rows = [
        [
            *where_cells(s.where),
            fmt(s.n, "n"),
            fmt(s.share.value, "%"),
            range_cell(s.independent.interval),
            p_cell(s.independent.p_greater),
            p_cell(s.independent.p_two_sided),
            *([p_cell(s.independent.p_equivalent)] if equal else []),
            fmt(s.design_effect, "2f") if s.design_effect is not None else DASH,
            fmt(s.df, "1f") if s.df is not None else DASH,
        ]
        for s in result.shares
    ]
    caption = (
        "Exact intervals and tests under the assumption that answers of one listener, and to one item, are "
        "no more alike than others. The table above does not assume that."
    )
    return table("If answers were independent", headings, rows, caption, names=2)


def _confidence(result: Choices) -> Table:
    rows, estimates = [], []
    for s in result.shares:
        estimates += [(f"{s.where}, {c.confidence}", c.share) for c in s.confidence]
        if len(s.where.keys) > 1 or s.where.keys == ("group",):
            continue
        for c in s.confidence:
            share = fmt(c.share.value, "%") if c.share.value is not None else DASH
            row = [*where_cells(s.where), c.confidence, c.n, fmt(c.of_all, "%"), c.right, share]
            rows.append([*row, range_cell(c.share)])
    headings = [
        ("By", ""),
        ("Value", ""),
        ("Confidence", ""),
        ("n", ""),
        ("Share of all answers", ""),
        ("Right", ""),
        ("Share right", ""),
        ("95 % interval", "see the caption for what it generalises over"),
    ]
    caption = (
        f"Share of right answers among those given with each confidence. {scope(estimates, 'Intervals')}"
    )
    return table("Confidence and accuracy", headings, rows, caption, names=3)


def _mixed(mixed: Mixed) -> Table:
    rows = [
        [name, number_interval(e, "2f"), p_cell(p)]
        for name, e, p in zip(mixed.names, mixed.log_odds, mixed.p, strict=True)
    ]
    caption = (
        "Log odds of a right answer with 95 % intervals (Student’s t); 0 is even odds. Standard "
        f"deviation between listeners {fmt(mixed.listener_sd, '2f')}, between items "
        f"{fmt(mixed.item_sd, '2f')}. The model is descriptive: it assumes that the effect of a condition is "
        "the same for every listener and item, so no verdict is based on it."
    )
    headings = [("Compared", ""), ("Log odds", "95 % interval in brackets"), ("p", "")]
    return table("Mixed-effects logistic model", headings, rows, caption)

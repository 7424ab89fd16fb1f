"""The headline numbers of each net: without an attack, at worst, and at worst behind its best defence."""

from collections.abc import Sequence
from dataclasses import dataclass

from limen.report.columns import size_of_change
from limen.report.formatting import fmt, interval
from limen.report.rating import harm, worst
from limen.report.run import CellResult
from limen.report.worst_case.cells import Together, together


@dataclass(frozen=True)
class Behind:
    """The worst attack on a net behind its best defence."""

    defense: str
    rate: str
    attack: str
    unseen: bool
    """The attack did not know the defence."""
    helps: bool


@dataclass(frozen=True)
class Headline:
    """Numbers of one net, as text. Everything about attacks is empty if there was none."""

    net: str
    what: str
    """Accuracy or Word error rate."""
    verb: str
    before: str
    worst: str = ""
    attack: str = ""
    size: str = ""
    """at a median SNR of 35 dB"""
    interval: str = ""
    n: str = ""
    defense: str = ""
    """The defence of the worst attack; empty if the net was attacked without one."""
    union: str = ""
    """All attacks within the budget of the worst one together."""
    union_interval: str = ""
    union_of: int = 0
    behind: Behind | None = None


def headlines(cells: Sequence[CellResult]) -> list[Headline]:
    unions = together(cells)
    nets = {
        net: [c for c in cells if c.net == net and harm(c) is not None]
        for net in dict.fromkeys(c.net for c in cells)
    }
    return [_headline(net, of_net, unions) for net, of_net in nets.items() if of_net]


def _headline(net: str, cells: list[CellResult], unions: list[Together]) -> Headline:
    column = cells[0].rated_by
    what, verb = ("Word error rate", "rises") if column == "wer" else ("Accuracy", "falls")
    bare = [c for c in cells if c.defense == "none"] or cells
    top = worst(bare)
    before = fmt(_clean(bare, column), "%")
    if top is None:
        return Headline(net, what, verb, before)
    union = next((u for u in unions if any(c.id == top.id for c in u.cells) and u.limit == top.limit), None)
    known = union is not None and union.stat(column)[0] is not None
    return Headline(
        net,
        what,
        verb,
        before,
        fmt(top.value(column), "%"),
        top.attack,
        size_of_change(top),
        interval(*top.stat(column)[1:]),
        fmt(top.n, "n"),
        "" if top.defense == "none" else top.defense,
        fmt(union.stat(column)[0], "%") if union and known else "",
        interval(*union.stat(column)[1:]) if union and known else "",
        len(union.cells) if union and known else 0,
        _behind(cells, top, column),
    )


def _clean(cells: list[CellResult], column: str) -> float | None:
    """The rate without an attack, or on the clean samples of an attack."""
    clean = next((c.value(column) for c in cells if c.attack == "none"), None)
    attacked = (c.value(f"clean_{column}") for c in cells if f"clean_{column}" in c.columns)
    return clean if clean is not None else next(attacked, None)


def _behind(cells: list[CellResult], top: CellResult, column: str) -> Behind | None:
    defenses = dict.fromkeys(c.defense for c in cells if c.defense != "none")
    found = [w for d in defenses if (w := worst([c for c in cells if c.defense == d])) is not None]
    best = min(found, key=lambda c: harm(c) or 0.0, default=None)
    if best is None or best.defense == top.defense:
        return None
    helps = (harm(best) or 0.0) < (harm(top) or 0.0)
    return Behind(best.defense, fmt(best.value(column), "%"), best.attack, not best.sees_defense, helps)

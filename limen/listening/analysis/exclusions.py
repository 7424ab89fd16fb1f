"""Excluded listeners: the rules of the study file, applied in order, with the evidence for each.

A listener is excluded by the first rule that applies. Only the rule `implausible` depends on whether trials
were answered correctly, and none on the effect on a hypothesis; the fingerprint of the study shows whether
the rules are those recorded before the first answer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from limen.listening.statistics.plausibility import implausible
from limen.listening.study import Rule, Study
from limen.trials.base.findings import Row
from limen.trials.base.trial import trial_type

QUARTER = 0.25
"""BS.1534-3: if more than this share of listeners rate the anchor of an item as excellent, the anchor is not
degraded, and the rule does not apply to the item."""


@dataclass(frozen=True)
class Exclusion:
    listener: int
    group: str
    rule: str
    """Name of the first rule that applies."""
    reason: str
    """The rule in words, with the numbers of the study file."""
    evidence: str
    """What the listener did."""


@dataclass(frozen=True)
class Exclusions:
    listeners: int
    """Number of listeners who gave at least one answer."""
    kept: int
    excluded: tuple[Exclusion, ...]
    rules: tuple[str, ...]
    """Every rule of the study file in words, in order."""
    hits: tuple[int, ...]
    """Number of listeners excluded by each rule."""
    fingerprint: str
    recorded: str | None
    """Fingerprint stored before the first answer; None if it is not known."""

    @property
    def same(self) -> bool | None:
        """Whether rules and hypotheses are those recorded before the first answer; None if it is not
        known."""
        return None if self.recorded is None else self.recorded == self.fingerprint

    def reasons(self) -> dict[int, str]:
        return {e.listener: e.reason for e in self.excluded}


def exclusions(study: Study, rows: Sequence[Row], recorded: str | None = None) -> Exclusions:
    """Excluded listeners and the reasons. `rows` are those of limen.listening.analysis.export; `recorded` is
    the stored fingerprint."""
    found: list[Exclusion] = []
    hits = [0] * len(study.exclude)
    listeners = by_listener(rows)
    flagged = implausible(listeners) if any(rule.name == "implausible" for rule in study.exclude) else {}
    for listener, own_rows in listeners.items():
        for k, rule in enumerate(study.exclude):
            # all rules but two depend on one listener alone
            relevant = _without_good_anchors(rule, rows, own_rows) if rule.name == "mid_anchor" else own_rows
            if (
                evidence := flagged[listener]
                if rule.name == "implausible"
                else RULES[rule.name](rule, relevant)
            ):
                hits[k] += 1
                found.append(Exclusion(listener, str(own_rows[0]["group"]), rule.name, words(rule), evidence))
                break
    rules = tuple(words(rule) for rule in study.exclude)
    return Exclusions(
        len(listeners),
        len(listeners) - len(found),
        tuple(found),
        rules,
        tuple(hits),
        study.fingerprint(),
        recorded,
    )


def by_listener(rows: Sequence[Row]) -> dict[int, list[Row]]:
    out: dict[int, list[Row]] = {}
    for row in rows:
        out.setdefault(row["listener"], []).append(row)
    return dict(sorted(out.items()))


def words(rule: Rule) -> str:
    """The rule as a sentence."""
    more, several = f"more than {rule.most}" if rule.most else "any", "s" if rule.most > 1 else ""
    return {
        "incomplete": "did not reach the end",
        "catch_confidence": f"answered a catch trial with confidence {' or '.join(rule.values)}",
        "sentinels": f"{more} wrong sentinel{several}",
        "checks": f"{more} failed check{several}",
        "headphones": f"{more} wrong screen{several} of the headphone test",
        "too_fast": f"median time of a trial below {rule.seconds:g} s",
        "unheard": f"{more} trial{several} without proof that every sound was played",
        "constant_answers": "the same answer to all trials of a type",
        "hidden_reference": f"rated the hidden reference below {rule.score:g} in more than "
        f"{100 * rule.share:g} % of the trials",
        "mid_anchor": f"rated the anchor {rule.anchor} above {rule.score:g} in more than "
        f"{100 * rule.share:g} % of the trials",
        "implausible": "right although others guess, in less time than the sounds last",
    }[rule.name]


def _screens(rows: Sequence[Row], *roles: str) -> list[Row]:
    """One row per screen: a screen that asks about each of its sounds has several."""
    return list({row["position"]: row for row in reversed(rows) if row["role"] in roles}.values())[::-1]


def _places(rows: Sequence[Row]) -> str:
    return ", ".join(str(row["position"] + 1) for row in rows)


def _incomplete(rule: Rule, rows: Sequence[Row]) -> str:
    return "" if rows[0]["finished"] else f"last answer on screen {max(row['position'] for row in rows) + 1}"


def _catch_confidence(rule: Rule, rows: Sequence[Row]) -> str:
    hit = [row for row in _screens(rows, "catch") if row["confidence"] in rule.values]
    return "; ".join(f"screen {row['position'] + 1}: confidence {row['confidence']}" for row in hit)


def _sentinels(rule: Rule, rows: Sequence[Row]) -> str:
    return _failed(_screens(rows, "sentinel"), rule.most, "sentinels wrong")


def _checks(rule: Rule, rows: Sequence[Row]) -> str:
    return _failed(_screens(rows, "check"), rule.most, "checks failed")


def _headphones(rule: Rule, rows: Sequence[Row]) -> str:
    return _failed([row for row in _screens(rows, "check") if row["kind"] == rule.name], rule.most, "wrong")


def _failed(screens: Sequence[Row], most: int, what: str) -> str:
    wrong = [row for row in screens if row["correct"] is False]
    return f"{len(wrong)} of {len(screens)} {what} (screen {_places(wrong)})" if len(wrong) > most else ""


def _too_fast(rule: Rule, rows: Sequence[Row]) -> str:
    times = [row["response_ms"] for row in _screens(rows, "trial") if row["response_ms"] is not None]
    middle = median(times) / 1000 if times else rule.seconds
    return f"median {middle:.2f} s over {len(times)} trials" if middle < rule.seconds else ""


def _unheard(rule: Rule, rows: Sequence[Row]) -> str:
    trials = _screens(rows, "trial")
    silent = [row for row in trials if row["heard"] is False]
    return (
        f"{len(silent)} of {len(trials)} trials without proof (screen {_places(silent)})"
        if len(silent) > rule.most
        else ""
    )


def _constant_answers(rule: Rule, rows: Sequence[Row]) -> str:
    """A trial type needs at least two trials. Confidence is not considered."""
    found = []
    for kind in dict.fromkeys(row["kind"] for row in rows if row["role"] == "trial"):
        own_rows = [row for row in rows if row["role"] == "trial" and row["kind"] == kind]
        given = {(row["choice"], row["rating"], row["text"]) for row in own_rows}
        if len({row["position"] for row in own_rows}) > 1 and len(given) == 1:
            shown = next(
                f"{v:g}" if isinstance(v, float) else str(v)
                for v in (*next(iter(given)), "nothing")
                if v is not None
            )
            found.append(f"{kind}: “{shown[:60]}” {len(own_rows)} times")
    return "; ".join(found)


def _hidden_reference(rule: Rule, rows: Sequence[Row]) -> str:
    rated = [row for row in _with_hidden_reference(rows) if row["condition"] == row["reference"]]
    return _too_often(
        rule, [row for row in rated if row["rating"] < rule.score], rated, "hidden reference below"
    )


def _mid_anchor(rule: Rule, rows: Sequence[Row]) -> str:
    rated = [row for row in _with_hidden_reference(rows) if row["condition"] == rule.anchor]
    return _too_often(rule, [row for row in rated if row["rating"] > rule.score], rated, "anchor above")


def _with_hidden_reference(rows: Sequence[Row]) -> list[Row]:
    """Ratings given with a hidden reference among the conditions."""
    rated = [row for row in rows if row["role"] == "trial" and row["rating"] is not None]
    return [row for row in rated if trial_type(row["kind"]).hidden_reference]


def _too_often(rule: Rule, hit: Sequence[Row], rated: Sequence[Row], what: str) -> str:
    if not rated or len(hit) / len(rated) <= rule.share:
        return ""
    each = ", ".join(f"screen {row['position'] + 1}: {row['rating']:g}" for row in hit)
    return f"{what} {rule.score:g} in {len(hit)} of {len(rated)} trials ({each})"


def _without_good_anchors(rule: Rule, rows: Sequence[Row], own_rows: Sequence[Row]) -> list[Row]:
    """A listener's rows without the items whose anchor more than a quarter of all listeners rate above the
    score."""
    above: dict[str, dict[int, bool]] = {}
    for row in _with_hidden_reference(rows):
        if row["condition"] == rule.anchor:
            by = above.setdefault(row["item"], {})
            by[row["listener"]] = by.get(row["listener"], False) or row["rating"] > rule.score
    good = {item for item, by in above.items() if sum(by.values()) / len(by) > QUARTER}
    return [row for row in own_rows if row["item"] not in good]


RULES: dict[str, Callable[[Rule, Sequence[Row]], str]] = {
    "incomplete": _incomplete,
    "catch_confidence": _catch_confidence,
    "sentinels": _sentinels,
    "checks": _checks,
    "headphones": _headphones,
    "too_fast": _too_fast,
    "unheard": _unheard,
    "constant_answers": _constant_answers,
    "hidden_reference": _hidden_reference,
    "mid_anchor": _mid_anchor,
}
"""Each returns what the listener did if the rule applies, else an empty text."""

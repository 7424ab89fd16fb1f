"""Ratings from 0 to 100 of all conditions of a clip on one screen, compared with a hidden reference
(MUSHRA)."""

from dataclasses import replace

from limen.listening.analysis.answers import TrialAnswers
from limen.listening.analysis.rating_cells import agreement, cell, comparison
from limen.listening.analysis.result_types import Comparison, Ratings, Sliders
from limen.listening.statistics.proportions import holm
from limen.listening.statistics.ratings import mushra, mushra_rejected
from limen.trials.base.findings import Row, Where

GOOD_FROM, BAD_TO = 60.0, 40.0
METHOD = "Wilcoxon over listeners, Holm-corrected"


def sliders(answers: TrialAnswers) -> tuple[Sliders | None, list[str]]:
    """Results, and a note about listeners who did not recognise the hidden reference."""
    rows = [row for row in answers.rows if row["rating"] is not None and row["sound"] is not None]
    if not rows:
        return None, []
    options = answers.options_of(rows[0])
    reference = options.reference_of(next(i for i in answers.items if i.id == rows[0]["item"]))
    found, compared = [], []
    for where, part in answers.cells(rows):
        if not part or where.keys[-1:] == ("condition",):
            continue
        found.append(cell(where, part, (), GOOD_FROM, BAD_TO))
        if any(r["condition"] == reference for r in part):
            more, against = _conditions(where, part, reference)
            found += more
            compared += against
    missed = mushra_rejected(
        [str(r["listener"]) for r in rows],
        [r["condition"] for r in rows],
        [r["rating"] for r in rows],
        reference,
    )
    note = (
        f"{answers.trial}: listener {', '.join(missed)} rated the hidden reference below 90 for more than "
        "15 % of the items. ITU-R BS.1534-3 would exclude them; here only a rule of the study file does."
    )
    agreed = agreement(rows, "interval", answers.seed)
    result = Sliders(answers.trial, (), GOOD_FROM, BAD_TO, tuple(found), tuple(compared), agreed)
    return result, [note] if missed else []


def _conditions(where: Where, rows: list[Row], reference: str) -> tuple[list[Ratings], list[Comparison]]:
    """Ratings of each condition, and its comparison with the reference."""
    summary = mushra(
        [str(r["listener"]) for r in rows],
        [r["condition"] for r in rows],
        [r["rating"] for r in rows],
        reference,
    )
    of = {line.condition: [r for r in rows if r["condition"] == line.condition] for line in summary}
    found, against = [], []
    for line in summary:
        inner = Where((*where.keys, "condition"), (*where.values, line.condition))
        one = cell(inner, of[line.condition], (), GOOD_FROM, BAD_TO)
        found.append(replace(one, median=line.median, quartiles=line.quartiles))
        if line.p_holm is not None:
            names = (reference, line.condition)
            against.append(
                comparison(where, names, of[reference], of[line.condition], line.p_holm, 0.0, METHOD)
            )
    # every condition is compared with the reference: one family of tests
    corrected = iter(holm([c.p for c in against if c.p is not None]).p)
    return found, [c if c.p is None else replace(c, p=next(corrected)) for c in against]

"""Accuracy, success and distortion by net, defence and attack."""

from markupsafe import Markup

from limen.report.blocks import Section
from limen.report.parts import Part
from limen.report.results_table import Results
from limen.report.sections.sweeps import swept_options


def results(part: Part) -> Section | None:
    # the table of a sweep shows its cells, and a folded one below it shows all their columns
    cells = [c for c in part.rated if not c.variable] if swept_options(part) else part.rated
    if not cells:
        return None
    table = Results(cells, part.unions, f"Results: {part.title}")
    return Section("Results by model, defence and attack", [table.table(caption(table))], order=30)


def caption(table: Results) -> Markup:
    """How to read the table of results; what it does not show is left out."""
    attacked = any(c.attack != "none" for c in table.cells)
    rate = "Exact transcript" if table.cells[0].output == "transcript" and table.accuracy else "Accuracy"
    sentences = [
        f"{rate} is the share of all n samples: one that was wrong before the attack counts as wrong."
    ]
    if table.success:
        sentences.append(
            "Success counts samples that are at the goal of the attack and were not there before, as a share "
            "of those that were not."
        )
    if any("rate" in column.stat for column in table.columns):
        sentences.append("Error rates are all errors over all words of the set.")
    if any(column.median for column in table.columns):
        sentences.append("Distortions are medians over all samples of the cell.")
    worst = Markup(
        ' <span class="tag">worst</span> marks the attack that does most harm to a model, alone and behind '
        "each "
        "defence. An attack without a budget always succeeds, so it is judged by its distortion."
    )
    return Markup("{}{}").format(" ".join(sentences), worst if attacked else "")

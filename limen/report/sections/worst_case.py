"""How the rows of all attacks together were computed."""

from markupsafe import Markup

from limen.report.blocks import Prose, Section
from limen.report.parts import Part

NOTE = Markup(
    "<b>All attacks together</b>, worst of n: per sample, over the n attacks under one budget and under "
    "smaller ones of the same kind, whose changes the larger one allows, too. The model counts as right only "
    "if it was right before and no attack made it wrong; of a transcript, the most errors that any attack "
    "caused count. So the row is never better for the model than an attack in it. An attack without a budget "
    "counts for the samples whose change fits the budget; its own row counts all samples, so it may be "
    "worse. The noise control is left out."
)


def worst_case(part: Part) -> Section | None:
    return Section(blocks=[Prose(NOTE)], order=50) if part.unions else None

"""A chosen sentence: the recogniser must output exactly this text, or the one of a list that fits the clip.

Olivier and Raj 2023, https://arxiv.org/abs/2210.17316: for a decoder that writes token after token the first
token is the hardest, so its loss may have a larger weight:

    L = (1 / (n + lambda)) [(1 + lambda) L_1 + sum_{i>1} L_i]

multiplied here by n, so that lambda does not change the scale.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator

from limen.core.errors import UserError
from limen.core.text import How
from limen.data.base.tables import find_column, read_rows
from limen.goals.base.goal import Goal, GoalContext, truths
from limen.goals.base.options import GoalOptions


class Transcript(GoalOptions):
    targeted = True
    outputs = ("transcript",)
    example: ClassVar[dict[str, Any]] = {"text": "open the door"}

    text: str | None = Field(default=None, min_length=1)
    """What the model must output, in its own alphabet."""
    among: list[str] | None = Field(default=None, min_length=1)
    """Instead of one text, a list to choose from for each sample."""
    table: str | None = None
    """Instead of one text, a .csv or .tsv file with the columns id and target: the export of an earlier run,
    or a set made by others."""
    choose: Literal["closest", "random"] = "closest"
    """From the list: the text whose length is closest to the truth's (among equals, the first), or one drawn
    at random."""
    first_weight: float = Field(default=0.0, ge=0)
    """lambda, for encoder-decoders; 1 works on Whisper according to the paper. CTC has no first token and
    ignores it."""
    normalise: How = "words"
    """How the transcript is compared with the target."""

    @model_validator(mode="after")
    def _one_of_them(self) -> "Transcript":
        if sum(given is not None for given in (self.text, self.among, self.table)) != 1:
            raise ValueError(
                "give either text (one sentence for all), among (a list to choose from) or table (one for "
                "each id)."
            )
        return self


def transcript(context: GoalContext, options: Transcript) -> Goal:
    true = truths(context, "transcript")
    chosen: list[str]
    if options.text is not None:
        chosen = [options.text] * len(true)
    elif options.among is None:
        chosen = _of_table(Path(options.table or "").expanduser(), context.ids)
    elif options.choose == "closest":
        chosen = [min(options.among, key=lambda t: abs(len(t) - len(y))) for y in true]
    else:
        n = len(options.among)
        chosen = [options.among[int(torch.randint(n, (1,), generator=g))] for g in context.generators]
    return Goal(chosen, targeted=True, normalise=options.normalise, first_weight=options.first_weight)


def _of_table(table: Path, ids: Sequence[str]) -> list[str]:
    if not table.is_file():
        raise UserError(
            f"goal transcript: there is no table {table}; expected a .csv or .tsv file with the columns id "
            "and target."
        )
    columns, rows = read_rows(table)
    id_column, target_column = (find_column(table, columns, name, (), "table") for name in ("id", "target"))
    targets = {row[id_column]: (row[target_column] or "").strip() for _, row in rows}
    if missing := [i for i in ids if not targets.get(i)]:
        raise UserError(
            f"{table}: has no target for the id {missing[0]!r} ({len(missing)} of {len(ids)} samples have "
            "none)."
        )
    return [targets[i] for i in ids]

"""Selection and computation of metrics: one row per sample, null with a reason if there is no number."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from limen.core.components import Component, load, names, parse
from limen.core.errors import UserError
from limen.core.types import Output, Samples
from limen.metrics.base.decoded import answered
from limen.metrics.base.metric import Column, MetricOptions, Missing

Metric = tuple[Component, MetricOptions]

SAMPLE_WORDS = {"picture": "pictures", "clip": "clips"}
OUTPUT_WORDS: dict[Output, str] = {
    "class": "classes",
    "transcript": "transcripts",
    "embedding": "embeddings",
    "signal": "signals",
    "distance": "distances",
}


def applicable(
    wanted: Sequence[str | Mapping[str, Any]] | None, kind: str, output: Output | None, with_model: bool
) -> list[Metric]:
    """The metrics named by the user, or all that apply and are fast.

    A metric that is named and does not apply is an error with the reason.

    `kind` is "picture" or "clip"; `output` that of the model, None without a model.
    """
    if wanted is None:
        every = [
            (c, o)
            for c in (load("metrics", name) for name in names("metrics"))
            if isinstance(o := c.parse({}), MetricOptions)
        ]
        return [(c, o) for c, o in every if not o.on_request and not _obstacle(o, kind, output, with_model)]
    chosen: list[Metric] = []
    for spec in wanted:
        component, options = parse("metrics", spec)
        assert isinstance(options, MetricOptions)
        obstacle = _obstacle(options, kind, output, with_model)
        if obstacle:
            possible = ", ".join(c.name for c, _ in applicable(None, kind, output, with_model))
            raise UserError(
                f"The metric {component.name} cannot be computed here: {obstacle}. These can: {possible}."
            )
        chosen.append((component, options))
    return chosen


def _obstacle(options: MetricOptions, kind: str, output: Output | None, with_model: bool) -> str:
    """Reason why the metric does not apply; empty if it does."""
    if kind not in options.kinds:
        return (
            f"it measures {' and '.join(SAMPLE_WORDS[k] for k in options.kinds)}, and these are "
            f"{SAMPLE_WORDS[kind]}"
        )
    if options.needs_model and not with_model:
        return "it uses the outputs of a model, and there is no model"
    if with_model and output is not None and output not in options.outputs:
        needed = " or ".join(OUTPUT_WORDS[o] for o in options.outputs)
        return f"it needs a model that outputs {needed}, and this one outputs {OUTPUT_WORDS[output]}"
    return ""


def columns(metrics: Sequence[Metric]) -> dict[str, Column]:
    """Every column of these metrics, in order."""
    return {name: column for _, options in metrics for name, column in options.columns().items()}


def columns_of(*names: str) -> dict[str, Column]:
    """Every column of the metrics of these names, with their default options."""
    options = [load("metrics", name).parse({}) for name in names]
    return {
        name: column for o in options if isinstance(o, MetricOptions) for name, column in o.columns().items()
    }


def measure(samples: Samples, metrics: Sequence[Metric]) -> list[dict[str, Any]]:
    """One row per sample: id, every column (None if there is no number), and `missing`: column -> reason."""
    samples = answered(samples)
    rows: list[dict[str, Any]] = [{"id": i, "missing": {}} for i in samples.batch.ids]
    for component, options in metrics:
        for name, values in component.function(samples, options).items():
            for row, value in zip(rows, values, strict=True):
                if not isinstance(value, Missing) and not math.isfinite(value):
                    value = Missing("the result is not a finite number")
                if isinstance(value, Missing):
                    row[name], row["missing"][name] = None, value.reason
                else:
                    row[name] = float(value)
    return [{**{k: v for k, v in row.items() if k != "missing"}, "missing": row["missing"]} for row in rows]

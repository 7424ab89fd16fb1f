"""Whether the true class is among the k likeliest, before and after the attack."""

from typing import ClassVar

from pydantic import Field
from torch import Tensor

from limen.core.types import Output, Outputs, Samples
from limen.metrics.base.metric import Column, Columns, MetricOptions, Missing, both, unless_refused


class TopK(MetricOptions):
    k: int = Field(default=5, ge=1)
    """Number of likeliest classes that count; it is part of the column's name: top_5."""
    needs_model: ClassVar[bool] = True
    outputs: ClassVar[tuple[Output, ...]] = ("class",)

    def columns(self) -> dict[str, Column]:
        meaning = f"the true class is among the {self.k} likeliest of the"
        return {
            f"clean_top_{self.k}": Column(
                f"{meaning} clean sample", better="higher", heading=f"Clean top {self.k}", binary=True
            ),
            f"top_{self.k}": Column(
                f"{meaning} adversarial sample", better="higher", heading=f"Top {self.k}", binary=True
            ),
        }


def top_k(samples: Samples, options: TopK) -> Columns:
    y, logits = samples.batch.y, samples.clean
    assert isinstance(y, Tensor)
    assert isinstance(logits, Tensor)
    if logits.shape[1] <= options.k:
        trivial = Missing(
            f"there are only {logits.shape[1]} classes, so the true class is always among {options.k}"
        )
        return {name: [trivial] * len(y) for name in options.columns()}

    def among(outputs: Outputs) -> Tensor:
        assert isinstance(outputs, Tensor)
        return (outputs.topk(options.k, dim=1).indices == y.to(outputs.device)[:, None]).any(1)

    columns = both(samples, f"top_{options.k}", among)
    return {
        name: unless_refused(columns[name], refused)
        for name, refused in zip(columns, (samples.clean_refused, samples.refused), strict=True)
    }

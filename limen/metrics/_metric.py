"""One number per sample. A metric that cannot be computed gives a `Missing` with the reason; a row is never dropped."""

from dataclasses import dataclass
from typing import ClassVar

from limen.options import Options


@dataclass(frozen=True)
class Missing:
    reason: str


Columns = dict[str, list[float | Missing]]
"""Column name (with its unit: snr_db, peak_db_vocal) -> one value per sample."""


class MetricOptions(Options):
    """Class variables say what a metric needs, what it means and how it is shown."""

    kinds: ClassVar[tuple[str, ...]] = ("picture", "clip")
    """Kinds of samples it can measure."""
    outputs: ClassVar[tuple[str, ...]] = ("class", "transcript")
    """Kinds of model outputs it can measure."""
    needs_model: ClassVar[bool] = False
    """True if it looks at what the model answered; such metrics are left out of `limen measure`."""
    unit: ClassVar[str] = ""
    better: ClassVar[str] = ""
    """For the attacker's stealth or the model's good: "higher" or "lower"; empty where neither."""

"""Limen tells you how easily a model can be fooled, and whether anyone would notice.

import limen
model = limen.load_model("keyword_cnn")
batch = next(limen.load_data("spoken_words", split="test"))
result = limen.attack("pgd", model, batch, budget=limen.budgets.snr(snr_db=30), steps=100)
table = limen.measure(batch, result)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from limen import budgets as budgets
from limen import goals as goals

if TYPE_CHECKING:
    from torch import Tensor

    from limen.attacks._run import Attacked
    from limen.models._model import Model
    from limen.types import Batch

__version__ = "0.1.0"


def load_model(spec: str | Mapping[str, Any], **options: Any) -> "Model":
    """A model by name, with its shipped weights unless told otherwise: load_model("cnn"), load_model("cnn", weights="mine.pth")."""
    from limen.models._load import load_model as load

    return load({**({"name": spec} if isinstance(spec, str) else spec), **options})


def load_data(name: str, *, batch_size: int = 32, **options: Any) -> Iterator["Batch"]:
    """Batches of a data set: `for batch in load_data("spoken_words", split="test")`."""
    from limen.components import parse

    component, parsed = parse("data", {"name": name, **options})
    return component.function(parsed).batches(batch_size)


def attack(
    name: str,
    model: "Model",
    batch: "Batch",
    *,
    goal: Any = None,
    budget: Any = None,
    crafting: "Batch | None" = None,
    seed: int = 0,
    store: Any = "float",
    **options: Any,
) -> "Attacked":
    """The attack of that name on a batch. Universal attacks look for their perturbation on `crafting`, or on the batch itself."""
    from limen.attacks._run import Attack

    configured = Attack.parse({"name": name, "goal": goal, "budget": budget, **options})
    configured.craft(model, batch if crafting is None else crafting, seed=seed)
    return configured(model, batch, seed=seed, store=store)


def over_the_air(model: "Model", batch: "Batch", result: "Attacked", through: Sequence[Any], *, draws: int = 20, seed: int = 0) -> "Tensor":
    """(B,) the share of fresh draws of these transforms in which the attack reaches its goal: through=["room"]."""
    from limen.attacks._through import OverTheAir
    from limen.attacks._through import over_the_air as judged
    from limen.options import parse_options

    options = parse_options(OverTheAir, {"through": list(through), "draws": draws}, "over_the_air")
    return judged(model, batch, result.x_adv, result.goal, options, seed=seed)


def measure(
    batch: "Batch", result: "Attacked", metrics: Sequence[Any] | None = None, *, rate_hz: int = 16000, classes: list[str] | None = None
) -> list[dict[str, Any]]:
    """One row per sample: every metric that applies, or those named."""
    from torch import Tensor

    from limen.metrics._apply import applicable
    from limen.metrics._apply import measure as rows
    from limen.types import Samples

    output = "class" if isinstance(result.clean, Tensor) else "transcript"
    samples = Samples(
        batch,
        result.x_adv,
        rate_hz if batch.kind == "clip" else None,
        classes,
        result.clean,
        result.adversarial,
        {"success": result.success.tolist()},
        result.goal.target,
    )
    return [
        {**row, "success": ok}
        for row, ok in zip(rows(samples, applicable(metrics, batch.kind, output, True)), result.success.tolist(), strict=True)
    ]

"""Commented templates of new components, one file each; every one passes the contract test of its kind as it
stands."""

import keyword
import re
from pathlib import Path

import limen
from limen.core.atomic import write_atomic
from limen.core.components import module_paths, names
from limen.core.errors import UserError

FOLDERS = {
    "attack": "attacks",
    "defense": "defenses",
    "objective": "objectives",
    "metric": "metrics",
    "data": "data",
    "model": "models",
    "task": "tasks",
    "axis": "degradations",
    "trial": "trials",
}

ATTACK = '''r"""One sentence that says what NAME does. Authors year, link:

    x' = Proj_{B(x)} ( x + radius * steepest_B( grad_x L(x) ) )

Departs from the paper: say where, or delete this line.
"""

import torch
from torch import Tensor

from limen.attacks.engine.options import AttackOptions
from limen.attacks.engine.problem import Problem


class CLASS(AttackOptions):
    share: float = 1.0
    """Length of the step as a share of the budget's radius."""


@torch.no_grad()
def NAME(problem: Problem, options: CLASS) -> Tensor:
    size = problem.ball.radius * options.share  # (B,); without a budget this says what to add, before the model is asked
    # one forward pass gives the gradient of the goal's loss, the loss, and which samples have reached the goal already
    gradient, _, _ = problem.gradient(problem.x)
    # the budget knows its own steepest direction; project keeps the budget and the range of the samples
    return problem.project(problem.x + problem.ball.step(gradient, size))
'''

DEFENSE = '''"""One sentence that says what NAME does. Authors year, link."""

from collections.abc import Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from limen.core.types import Kind
from limen.defenses.base.defended import Transform
from limen.defenses.base.options import DefenseOptions
from limen.models.base.model import Model


class CLASS(DefenseOptions):
    kinds: ClassVar[tuple[Kind, ...]] = ("picture",)

    strength: float = Field(default=0.9, gt=0, le=1)
    """The pixels are multiplied by this."""


class Dimmed(Transform):
    def __init__(self, model: Model, options: CLASS):
        super().__init__(model, options)
        self.strength = options.strength

    def transform(
        self, x: Tensor, lengths: Tensor | None, generators: Sequence[torch.Generator] | None
    ) -> Tensor:
        # differentiable, so attackers differentiate it; derive from StraightThrough if yours has no gradient
        return x * self.strength


def NAME(model: Model, options: CLASS) -> Model:
    return Dimmed(model, options)
'''

METRIC = '''"""One sentence that says what NAME measures, with its unit."""

from limen.metrics.base.metric import Column, Columns, MetricOptions, per_pair
from limen.core.types import Samples


class CLASS(MetricOptions):
    def columns(self) -> dict[str, Column]:
        # heading and format are those of every table; a headline is shown in the short ones
        return {"NAME": Column("mean magnitude of the change", better="lower", heading="Mean", headline=True)}


def NAME(samples: Samples, options: CLASS) -> Columns:
    # called with one clean and one adversarial sample at a time, without padding; Missing("why") where there is no number
    return {"NAME": per_pair(samples, lambda x, x_adv: float((x_adv - x).abs().mean()))}
'''

DATA = '''"""One sentence that says what NAME holds."""

import torch

from limen.core import seeds
from limen.data.base.dataset import DataOptions, Dataset, ordered
from limen.core.types import Sample


class CLASS(DataOptions):
    count: int = 100
    """Samples in each split."""


def NAME(options: CLASS) -> Dataset:
    ids = [f"{options.split}-{i}" for i in range(options.count)]

    def load(key: str) -> Sample:
        # read one sample: pixels in [0, 1] as (C, H, W), or a waveform in [-1, 1] as (T,); y is a class number or a transcript
        y = seeds.number(0, key) % 2
        return Sample(key, torch.rand((1, 8, 8), generator=seeds.generator(0, key)) * 0.5 + 0.5 * y, y)

    return Dataset("NAME", "picture", ordered(ids, ids, options), load, classes=["dark", "light"], shape=(1, 8, 8))
'''

MODEL = '''"""One sentence that says what NAME is. Authors year, link."""

from pydantic import Field
from torch import nn

from limen.models.base.model import Classifier, Model, ModelOptions


class CLASS(ModelOptions):
    size: int = Field(default=8, ge=1)
    """Height and width of the pictures."""
    classes: int = Field(default=10, ge=2)
    """Number of classes."""


def NAME(options: CLASS) -> Model:
    # raw pixels in [0, 1] come in: normalisation and features are layers of the network
    network = nn.Sequential(nn.Flatten(), nn.Linear(options.size**2, options.classes))
    return Classifier(network, "picture", [str(i) for i in range(options.classes)], shape=(1, options.size, options.size))
'''

OBJECTIVE = '''"""One sentence on the loss that NAME trains a model with.

Authors year, link:
    L = cross-entropy(x, y) + weight * entropy(x)
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from limen.core.types import Batch, Output
from limen.models.base.model import Model
from limen.objectives.base.objective import ObjectiveOptions


class CLASS(ObjectiveOptions):
    outputs: ClassVar[tuple[Output, ...]] = ("class",)

    weight: float = Field(default=0.1, ge=0)
    """Weight of the entropy of the class probabilities."""


def NAME(model: Model, batch: Batch, streams: Sequence[torch.Generator], options: CLASS) -> Tensor:
    # the loss of each sample, (B,); a sample draws random numbers from its own stream only
    logits = model(batch.x, batch.lengths, streams)
    log_p = logits.log_softmax(1)
    entropy = -(log_p.exp() * log_p).sum(1)
    return F.cross_entropy(logits, batch.y, reduction="none") + options.weight * entropy
'''

TASK = '''"""One sentence that says what NAME finds out."""

from typing import ClassVar

from limen.tasks.base.cell import Cell, Outcome
from limen.tasks.base.task import TaskOptions


class CLASS(TaskOptions):
    title: ClassVar[str] = "what NAME finds out"
    # what planning, estimates and tables must know (needs_attack, audited, cost, columns, ...) is declared here too
    limit_samples: int | None = None
    """Evaluate at most this many samples; null evaluates all."""


def NAME(cell: Cell, options: CLASS) -> Outcome:
    cell.craft()  # universal attacks craft their perturbation first
    outcome = Outcome()
    for batch in cell.batches(options.limit_samples):
        samples, _ = cell.samples(batch)  # attacked, stored and judged
        outcome.rows += cell.rows(samples)  # one row per sample, with every metric
        cell.advance(len(batch))
    outcome.result = {"samples": len(outcome.rows)}  # results beyond the rows
    return outcome
'''

AXIS = '''"""One sentence that says how NAME makes a sound worse."""

from pydantic import Field
from torch import Tensor

from limen.core import seeds
from limen.core.options import Options


class CLASS(Options):
    largest: float = Field(default=0.1, gt=0)
    """Root mean square of what is added at strength 100, as a share of that of the sound."""


def NAME(x: Tensor, strength: float, rate_hz: int, options: CLASS, seed: int) -> Tensor:
    # (T,) in, (T,) out; strength 0 changes nothing, and more strength is never less change
    noise = seeds.normal_like(x[None], [seeds.generator(seed, "NAME")])[0]
    return x + noise * x.square().mean().sqrt() * options.largest * strength / 100
'''

TRIAL = '''"""One sentence that says what NAME asks."""

from typing import Any, ClassVar

from pydantic import Field

from limen.trials.base.clips import Clips, clips
from limen.trials.base.screen import Listener, Screen, Widget, choices
from limen.trials.base.trial import HypothesisKind


class CLASS(Clips):
    # how answers are analysed: a file of limen/listening/analyses. An analysis of its own is a method `analyse`
    analyses: ClassVar[tuple[str, ...]] = ("choices",)
    hypotheses: ClassVar[tuple[HypothesisKind, ...]] = ("above_chance", "equivalent", "different")

    question: str = Field(default="Is there a voice in the clip?", max_length=500)
    """What is asked."""


def NAME(listener: Listener, options: CLASS) -> list[Screen]:
    # one screen per clip; a widget is choose, slide or type. What is right, if anything is, stays on the server
    widget = Widget("answer", "choose", options.question, choices("yes", "no"))

    def right(item: Any) -> dict[str, str]:
        return {"answer": "yes"} if item.answer else {}

    return clips("NAME", listener, options, [widget], right)
'''

TEMPLATES = {
    "attack": ATTACK,
    "defense": DEFENSE,
    "metric": METRIC,
    "data": DATA,
    "model": MODEL,
    "objective": OBJECTIVE,
    "task": TASK,
    "axis": AXIS,
    "trial": TRIAL,
}


def write(kind: str, name: str, into: Path | None = None) -> list[Path]:
    """Write the template; returns the files written."""
    if kind not in TEMPLATES:
        raise UserError(f'There is no template for "{kind}". Kinds: {", ".join(TEMPLATES)}.')
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(
            f"A component's name is its file name: lower-case letters, digits and underscores, but {name!r} "
            "came."
        )
    folder = FOLDERS[kind]
    if name in names(folder):
        raise UserError(f'There is already a component "{name}" in {folder}. Choose another name.')
    path = (into or Path(limen.__file__).parent / folder) / f"{name}.py"
    if path.exists():
        raise UserError(f"{path} exists already; nothing was written.")
    path.parent.mkdir(parents=True, exist_ok=True)
    class_name = "".join(part.capitalize() for part in name.split("_"))
    write_atomic(path, TEMPLATES[kind].replace("CLASS", class_name).replace("NAME", name).encode())
    module_paths.cache_clear()
    return [path]

"""One cell of an experiment: a net, its defence and an attack; tasks take attacked batches from it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor

from limen.attacks.engine.run import Attack, credited
from limen.attacks.engine.storage import Store, quantise, stored
from limen.budgets.families.budget import Budget, BudgetContext
from limen.budgets.families.options import make_budget
from limen.core import seeds
from limen.core.atomic import write_atomic
from limen.core.components import Component
from limen.core.options import Options
from limen.core.types import Batch, Outputs, Samples, different, predictions, refused_by
from limen.data.base.dataset import Dataset
from limen.goals.base.goal import Goal
from limen.metrics.base.apply import Metric, applicable, measure
from limen.metrics.base.decoded import decoded
from limen.metrics.base.metric import comparable
from limen.models.base.load import load_model
from limen.models.base.model import Model, check_fits, evaluating


@dataclass
class Example:
    """One sample to inspect."""

    id: str
    clean: Tensor
    adversarial: Tensor
    row: dict[str, Any]


@dataclass
class Outcome:
    """Result of a task: rows per sample, results beyond them, and samples to inspect."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)
    examples: list[Example] = field(default_factory=list)


@dataclass
class Cell:
    model: Model
    """The net itself."""
    victim: Model
    """What is evaluated: the net behind its defence."""
    attacked_model: Model
    """What the attacker differentiates: the victim, the net without its defence, or other nets."""
    data: Dataset
    attack: Attack | None
    metrics: list[Metric]
    folder: Path
    """Folder for files of the task; appears in the run folder when the cell is done."""
    training: Callable[[int | None], Dataset]
    """The training split of the data, at most a number of samples: universal attacks are crafted and nets are
    trained on it."""
    validation: Callable[[int | None], Dataset]
    defenses: list[dict[str, Any]] = field(default_factory=list)
    """The victim's defences, as the experiment file names them."""
    stop: Model | None = None
    """A model that the search observes without differentiating it (transfer)."""
    stop_every: int = 1
    proxy: str = ""
    """Names of the nets that the attacker differentiates."""
    net: Mapping[str, Any] = field(default_factory=dict)
    """Specs of the model and of the data, as the experiment gives them."""
    open: Callable[[dict[str, Any]], Model] = load_model
    """Opens other nets by their spec; the engine keeps them for the next cell."""
    limit: int | None = None
    """Samples of each split of the data at most."""
    seed: int = 0
    store: Store = "float"
    batch_size: int = 64
    crafted: Path | None = None
    """File of the universal perturbation, named by everything it depends on; written by the first cell that
    needs it."""
    examples: int = 4
    device: torch.device | str = "cpu"
    advance: Callable[[int], None] = lambda n: None
    """Called with the number of samples just finished."""
    say: Callable[[str], None] = lambda text: None

    def batches(self, limit: int | None = None) -> Iterator[Batch]:
        """The samples, quantised as the files of the run: the attacked and measured samples are those
        stored."""
        left = limit
        for batch in self.data.batches(self.batch_size):
            check_fits(self.model, batch)
            if left is not None and len(batch) > left:
                batch = batch.rows(range(left))
            yield replace(batch, x=quantise(batch.x, self.store)).to(self.device)
            if left is not None:
                left -= len(batch)
                if left <= 0:
                    return

    def craft(self) -> None:
        """Craft the perturbation of a universal attack on the training split, or read it if a cell before
        did."""
        if self.attack is None or not self.attack.universal:
            return
        if self.crafted is not None and self.crafted.is_file():
            self.attack.crafted = {k: v.to(self.device) for k, v in load_file(self.crafted).items()}
            return
        wanted = self.attack.spec.options.crafting_samples
        self.say(f"crafting {self.attack.spec.name} on {wanted or 'all'} training samples")
        self.attack.craft(self.attacked_model, self.training(wanted).all().to(self.device), seed=self.seed)
        if self.crafted is not None and self.attack.crafted is not None:
            self.crafted.parent.mkdir(exist_ok=True)
            write_atomic(
                self.crafted, save({k: v.contiguous().cpu() for k, v in self.attack.crafted.items()})
            )

    def samples(self, batch: Batch, attack: Attack | None = None) -> tuple[Samples, Goal | None]:
        """Attack one batch and judge it; without an attack, judge the clean samples."""
        attack = attack or self.attack
        extra: dict[str, Any] = {}
        if attack is None:
            clean = self.answer(self.victim, batch.x, batch, "clean")
            x_adv, adversarial, goal = batch.x, clean, None
        else:
            attacked = attack(
                self.attacked_model,
                batch,
                seed=self.seed,
                victim=self.victim,
                store=self.store,
                stop=self.stop,
                stop_every=self.stop_every,
            )
            x_adv, clean, adversarial, goal = (
                attacked.x_adv,
                decoded(attacked.clean),
                decoded(attacked.adversarial),
                attacked.goal,
            )
            extra = {
                **credit(goal, clean, attacked.reached),
                "forward_calls": attacked.calls.forward.tolist(),
                "backward_calls": attacked.calls.backward.tolist(),
                "dead_gradients": attacked.calls.dead.tolist(),
                **attacked.notes,
            }
        target = None if goal is None else goal.target
        return Samples(
            batch, x_adv, self.data.rate_hz, self.model.classes, clean, adversarial, extra, target
        ), goal

    def judge(
        self,
        samples: Samples,
        x_adv: Tensor,
        goal: Goal | None,
        budget: tuple[Component, Options] | None = None,
    ) -> Samples:
        """The same samples with another perturbation, stored inside the budget and judged by a fresh forward
        pass."""
        around = lambda x: self.budget_around(x, samples.batch, budget)
        x_adv = stored(x_adv, samples.batch.x, self.store, around)
        adversarial = self.answer(self.victim, x_adv, samples.batch, "judge")
        assert samples.clean is not None
        extra = {} if goal is None else samples.extra | credit(goal, samples.clean, goal.judged(adversarial))
        return replace(samples, x_adv=x_adv, adversarial=adversarial, extra=extra)

    def budget_around(
        self, x: Tensor, batch: Batch, budget: tuple[Component, Options] | None
    ) -> Budget | None:
        """The budget around x: the samples of the batch, or what a file stores of them."""
        if budget is None:
            return None
        streams = seeds.generators(self.seed, batch.ids, "budget")
        model = self.attacked_model
        context = BudgetContext(x, batch.kind, batch.lengths, model.rate_hz, batch.ids, streams, model)
        return make_budget(budget, context)

    def answer(self, model: Model, x: Tensor, batch: Batch, purpose: str) -> Outputs:
        """The model's outputs for these samples; `purpose` names the streams of models that draw at
        random."""
        with torch.no_grad(), evaluating(model):
            return decoded(model(x, batch.lengths, seeds.generators(self.seed, batch.ids, purpose)))

    def answers(self, samples: Samples) -> list[dict[str, Any]]:
        """One row per sample: its id and label, the target, the predictions, and the cost of the attack."""
        assert samples.clean is not None
        assert samples.adversarial is not None
        columns: dict[str, list[Any]] = {
            "label": self.names(samples.batch.y),
            "clean_prediction": self.names(predictions(samples.clean)),
            "adversarial_prediction": self.names(predictions(samples.adversarial)),
        }
        if samples.target is not None and not (
            isinstance(samples.target, Tensor) and samples.target.dim() > 1
        ):
            columns["target"] = self.names(samples.target)
        for name, outputs in (("clean_refused", samples.clean), ("refused", samples.adversarial)):
            if (refused := refused_by(outputs)) is not None:
                columns[name] = refused.tolist()
        columns |= languages(samples) | samples.extra
        return [
            {"id": name, **{k: v[i] for k, v in columns.items()}} for i, name in enumerate(samples.batch.ids)
        ]

    def rows(self, samples: Samples) -> list[dict[str, Any]]:
        """The rows of `answers` with every metric."""
        return [
            answer | measured
            for answer, measured in zip(self.answers(samples), measure(samples, self.metrics), strict=True)
        ]

    def names(self, answers: Tensor | list[str]) -> list[str]:
        if not isinstance(answers, Tensor):
            return list(answers)
        classes = self.model.classes or []
        return [classes[i] if 0 <= i < len(classes) else str(i) for i in answers.tolist()]

    def rates(self, *names: str) -> list[Metric]:
        """Metrics that a task needs, with the options of the experiment or else with their defaults."""
        own = {component.name: (component, options) for component, options in self.metrics}
        return [
            own.get(name) or applicable([name], self.data.kind, self.model.output, True)[0] for name in names
        ]

    def right(self, samples: Samples) -> Tensor:
        """(B,) bool: whether the prediction for the adversarial sample is right."""
        return _answered(samples, ~_different(samples.batch.y, samples.adversarial, samples))

    def moved(self, samples: Samples) -> Tensor:
        """(B,) bool: whether the prediction changed, the fooling of Moosavi-Dezfooli et al. 2017."""
        assert samples.clean is not None
        return _answered(samples, _different(predictions(samples.clean), samples.adversarial, samples))


def _answered(samples: Samples, values: Tensor) -> Tensor:
    """(B,) bool: the values, False for adversarial samples that a detector refuses."""
    refused = None if samples.adversarial is None else refused_by(samples.adversarial)
    return values if refused is None else values & ~refused.to(values.device)


def _different(expected: Tensor | list[str], outputs: Outputs | None, samples: Samples) -> Tensor:
    """(B,) bool: whether the predictions differ from the expected ones; of texts only the words count."""
    assert outputs is not None
    return different(
        comparable(expected, "words"), comparable(predictions(outputs), "words"), samples.batch.x.device
    )


def credit(goal: Goal, clean: Outputs, reached: Tensor) -> dict[str, list[bool]]:
    """The columns `success` and `already`; `reached` is whether the goal holds for the adversarial
    samples."""
    already = goal.judged(clean)
    return {"success": credited(reached, already).tolist(), "already": already.tolist()}


def languages(samples: Samples) -> dict[str, list[Any]]:
    """Columns of a model that detects languages: the detected ones, and the true one if ids begin with it
    ("it/...")."""
    known = getattr(samples.clean, "languages", None)
    if not known:
        return {}
    prefixes = [name.partition("/")[0] if "/" in name else "" for name in samples.batch.ids]
    true = (
        {"language": [code if code in known else None for code in prefixes]}
        if any(code in known for code in prefixes)
        else {}
    )
    both = (("clean_language", samples.clean), ("adversarial_language", samples.adversarial))
    detected = lambda outputs: [known[i] for i in outputs.language_logits.argmax(1).tolist()]
    return true | {column: detected(outputs) for column, outputs in both}

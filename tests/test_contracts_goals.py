"""What every goal keeps. A new file in limen/goals is tested here without a line being added: it is posed on each
of the small models below that it accepts, and must accept one."""

from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from awkward import Heard, Recogniser
from torch import Tensor, nn

from limen.attacks.engine.problem import Problem
from limen.attacks.engine.run import Attack
from limen.core.components import load, names
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.goals.base.options import GoalOptions
from limen.models.base.load import load_model
from limen.models.base.model import Model

TINY = {
    "name": "wav2vec2_small",
    "weights": "random",
    "channels": [8, 16, 16],
    "width": 32,
    "layers": 2,
    "heads": 2,
    "codes": 8,
    "negatives": 6,
}
LINF = {"name": "linf", "eps": 0.3}


@dataclass
class Detected(Heard):
    languages = ("en", "fr", "sr")
    language_logits: Tensor

    def rows(self, index: Tensor) -> "Detected":
        return Detected(self.log_probs[index], self.frames[index], self.language_logits[index])


class Multilingual(Recogniser):
    """Also tells three languages apart, by the mean of eight frames."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = nn.Linear(8, 3)

    def forward(self, x, lengths=None, generators=None):
        heard = super().forward(x, lengths, generators)
        return Detected(heard.log_probs, heard.frames, self.detector(x[:, :40].unfold(1, 8, 8).mean(1) * 9))


def clips(length: int, texts: list[str]) -> Batch:
    x = 0.2 * torch.randn(len(texts), length, generator=torch.Generator().manual_seed(3))
    lengths = torch.full((len(texts),), length)
    return Batch("clip", [f"c{i}" for i in range(len(texts))], x, texts, lengths)


@cache
def posed_on() -> dict[str, tuple[Model, Batch]]:
    torch.manual_seed(0)
    multilingual, short = Multilingual(), clips(64, ["", "", ""])
    digits = load("data", "digits")
    pictures = digits.function(digits.parse({"limit": 6})).all()
    return {
        "classifier": (load_model({"name": "mlp"}), pictures),
        "recogniser": (load_model(TINY), clips(6400, ["one two", "two", "three"])),
        "encoder": (load_model({**TINY, "head": "pretraining"}), clips(6400, ["one", "two", "three"])),
        "multilingual": (multilingual, replace(short, y=multilingual(short.x, short.lengths).texts())),
    }


def attack(name: str, **options: object) -> Attack:
    goal = {"name": name, **load("goals", name).options.example}
    return Attack.parse({"name": "pgd", "goal": goal, "budget": LINF, "precision": "double", **options})


def accepted(name: str) -> dict[str, Problem]:
    found = {}
    for kind, (model, batch) in posed_on().items():
        try:
            problem = attack(name).pose(model, batch)
            if problem.evaluate(near(problem), confirm=False)[0].isfinite().all():
                found[kind] = problem
        except (UserError, ValueError):
            continue  # a text outside the alphabet of the model, or an output without what the goal needs
    return found


def near(problem: Problem, size: float = 0.02) -> Tensor:
    """Points near the clean samples: at these themselves some goals have a gradient of zero."""
    return problem.x + size * torch.randn(
        problem.x.shape, generator=torch.Generator().manual_seed(1), dtype=problem.x.dtype
    )


EVERY = names("goals")


@pytest.mark.parametrize("name", EVERY)
def test_it_declares_its_outputs_and_whether_it_is_targeted(name):
    options = load("goals", name).options
    assert issubclass(options, GoalOptions)
    assert options.outputs
    problems = accepted(name)
    assert problems, f"no model of this file takes the goal {name}: add one that does"
    for problem in problems.values():
        assert problem.goal.targeted == options.targeted
        assert problem.model.output in options.outputs


@pytest.mark.parametrize("name", EVERY)
def test_a_model_with_another_output_is_refused_with_the_goals_that_fit(name):
    for model, batch in posed_on().values():
        if model.output not in load("goals", name).options.outputs:
            with pytest.raises(UserError, match=rf"The goal {name} is for models that give .*Goals for it: "):
                attack(name).pose(model, batch)


@pytest.mark.parametrize("name", EVERY)
def test_a_step_along_the_gradient_raises_the_loss_of_every_sample(name):
    for problem in accepted(name).values():
        x = near(problem)
        gradient, before, _ = problem.gradient(x, confirm=False)
        assert gradient.shape == x.shape
        assert before.shape == (len(x),)
        assert (gradient.flatten(1).norm(dim=1) > 0).all()
        step = 1e-5 * gradient / gradient.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))
        after = problem.evaluate(x + step, confirm=False)[0]
        slope = (after - before) / 1e-5
        torch.testing.assert_close(slope, gradient.flatten(1).norm(dim=1), rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("name", EVERY)
def test_rows_take_the_loss_and_the_verdicts_of_some_samples(name):
    index = torch.tensor([2, 0])
    for problem in accepted(name).values():
        with torch.no_grad():
            outputs, few = problem.outputs(x := near(problem)), problem.rows(index).outputs(x[index])
        goal, some = problem.goal, problem.rows(index).goal
        torch.testing.assert_close(some.loss(few), goal.loss(outputs)[index])
        assert torch.equal(some.reached(few), goal.reached(outputs)[index])
        if problem.model.output == "class":
            assert torch.equal(some.judged(few), goal.judged(outputs)[index])


@pytest.mark.parametrize("name", EVERY)
def test_a_sample_has_the_same_goal_alone_as_in_a_batch(name):
    for kind, problem in accepted(name).items():
        model, batch = posed_on()[kind]
        together = problem.evaluate(near(problem), confirm=False)[0]
        for i in range(len(batch)):
            alone = attack(name).pose(model, batch.rows([i]))
            loss = alone.evaluate(near(problem)[i : i + 1], confirm=False)[0]
            torch.testing.assert_close(loss[0], together[i], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_what_a_search_takes_for_reached_is_confirmed_unless_it_is_doubtful(name):
    for kind, problem in accepted(name).items():
        if kind == "encoder":
            continue  # an encoder writes no text: its victims are judged, see test_feature_goals.py
        for size in (0.0, 0.1, 1.0):
            with torch.no_grad():
                outputs = problem.outputs(near(problem, size))
            claimed, judged = problem.goal.reached(outputs), problem.goal.judged(outputs)
            needs_decoding = problem.goal.needs_decoding(outputs)
            settled = claimed if needs_decoding is None else claimed & ~needs_decoding
            assert judged[settled].all()


@pytest.mark.parametrize("name", EVERY)
def test_a_search_that_raises_the_loss_reaches_the_goal_more_often(name):
    """A loss of the wrong sign would lead away from it."""
    for kind, problem in accepted(name).items():
        model, batch = posed_on()[kind]
        if kind in ("encoder", "recogniser"):
            continue  # random weights: no small change makes a chosen text
        before = problem.goal.judged(problem.outputs(problem.x)).sum()
        found = attack(name, steps=60)(model, batch)
        assert (
            problem.evaluate(found.x_adv.double(), confirm=False)[0] > problem.evaluate(problem.x)[0]
        ).any()
        assert found.reached.sum() > before


@pytest.mark.parametrize("name", EVERY)
def test_further_columns_hold_a_value_for_each_sample(name):
    for problem in accepted(name).values():
        columns = problem.goal.extra_columns(problem.model, problem.x)
        assert all(len(values) == len(problem) for values in columns.values())

"""Goals of attacks on self-supervised encoders: what they raise, what stays frozen, and how victims are
judged."""

import pytest
import torch

from limen.attacks.engine.run import Attack
from limen.core.errors import UserError
from limen.core.types import Batch, EnsembleOutputs
from limen.models.base.load import load_model

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
SSL, CTC = load_model({**TINY, "head": "pretraining"}), load_model(TINY)
LINF = {"name": "linf", "eps": 0.02}


def batch(*lengths):
    x, g = torch.zeros(len(lengths), max(lengths)), torch.Generator().manual_seed(5)
    for row, n in zip(x, lengths, strict=True):
        row[:n] = 0.1 * torch.randn(n, generator=g)
    return Batch(
        "clip", [f"c{i}" for i in range(len(lengths))], x, ["one"] * len(lengths), torch.tensor(lengths)
    )


def pose(goal, model=SSL, samples=None):
    return Attack.parse({"name": "pgd", "goal": goal, "budget": LINF, "precision": "single"}).pose(
        model, samples or batch(5000, 4000)
    )


def test_the_feature_loss_is_the_squared_distance_to_the_clean_features():
    problem = pose("feature")
    moved = problem.x + 0.01
    expected = (
        (SSL(moved, problem.lengths).features - SSL(problem.x, problem.lengths).features).square().sum((1, 2))
    )
    torch.testing.assert_close(problem.evaluate(moved)[0], expected.detach())
    assert problem.evaluate(problem.x)[0].abs().max() < 1e-6
    torch.testing.assert_close(problem.rows(torch.tensor([1])).evaluate(moved[1:])[0], expected[1:].detach())


def test_the_contrastive_loss_keeps_targets_masks_and_distractors_of_the_clean_clip():
    problem = pose("contrastive")
    (frozen,) = problem.goal.frozen
    clean = SSL(problem.x, problem.lengths)
    torch.testing.assert_close(frozen.targets, clean.targets(clean.codes()).detach())
    moved = problem.x + 0.05 * torch.randn(problem.x.shape, generator=torch.Generator().manual_seed(1))
    first, again = problem.evaluate(moved)[0], problem.evaluate(moved)[0]
    assert torch.equal(first, again)
    expected = SSL(moved, problem.lengths).contrastive(
        frozen.targets, frozen.codes, frozen.negatives, frozen.mask
    )
    torch.testing.assert_close(first, expected.detach())


@pytest.mark.parametrize("goal", ["feature", "contrastive", {"name": "contrastive", "hide": False}])
def test_a_search_raises_the_loss_for_all_its_steps_and_a_clip_gets_what_it_gets_alone(goal):
    attack = Attack.parse({"name": "pgd", "steps": 6, "goal": goal, "budget": LINF})
    both = batch(5000, 4000)
    found = attack(SSL, both, victim=CTC)
    problem = attack.pose(SSL, both)
    assert (problem.evaluate(found.x_adv.double())[0] > problem.evaluate(problem.x)[0]).all()
    assert found.calls.backward.tolist() == [6, 6]
    one = Batch("clip", both.ids[1:], both.x[1:, :4000], both.y[1:], both.lengths[1:])
    torch.testing.assert_close(
        attack(SSL, one, victim=CTC).x_adv[0], found.x_adv[1, :4000], atol=1e-4, rtol=0
    )


def test_victims_are_judged_by_their_transcripts():
    samples = batch(5000, 4000)
    heard = CTC(samples.x, samples.lengths).texts()
    problem = pose(
        "feature", samples=Batch("clip", samples.ids, samples.x, [heard[0], "one"], samples.lengths)
    )
    assert problem.goal.judged(CTC(samples.x, samples.lengths)).tolist() == [False, heard[1] != "one"]
    assert problem.goal.target is None


def test_losses_of_several_encoders_add_up():
    other = load_model({**TINY, "head": "pretraining", "init_seed": 1})
    samples = batch(4000)

    def losses(*models):
        from limen.core.seeds import generators
        from limen.goals.base.goal import GoalContext
        from limen.goals.feature import Feature, feature

        answers = [EnsembleOutputs([m(samples.x + d) for m in models]) for d in (0.0, 0.01)]
        return feature(GoalContext(samples.y, answers[0], generators(0, samples.ids)), Feature()).loss(
            answers[1]
        )

    torch.testing.assert_close(losses(SSL, other), losses(SSL) + losses(other))


def test_models_without_features_or_without_a_quantiser_are_refused():
    with pytest.raises(UserError, match="gives its features"):
        pose("feature", load_model({"name": "ctc_small", "weights": "random"}))
    with pytest.raises(UserError, match="head: pretraining"):
        pose("contrastive", CTC)
    pose("feature", CTC)

"""The perturbation hidden under the clip: below the threshold of stage 1's, still heard as the target, alone
as in a batch."""

from dataclasses import replace

import pytest
import torch

from limen.attacks.engine.run import Attack
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.types import Batch, collate
from limen.models.base.load import load_model
from limen.models.base.model import Classifier
from limen.perception.masking import Masking

TARGET = {"name": "transcript", "text": "zero nine"}


@pytest.fixture(scope="module")
def recogniser():
    return load_model("ctc_small")


@pytest.fixture(scope="module")
def clips() -> Batch:
    component, options = parse("data", {"name": "digit_strings", "limit": 8})
    samples = list(component.function(options))
    return collate("clip", [samples[i] for i in (2, 0)])


def attack(name="imperceptible", **options):
    return Attack.parse({"name": name, "goal": TARGET, **options})


def test_stage_two_hides_what_stage_one_found_and_the_target_is_still_heard(recogniser, clips):
    first = attack("cw", steps=25)(recogniser, clips, store="int16")
    both = attack(steps=25, masking_steps=40)(recogniser, clips, store="int16")
    masking = Masking.of(clips.x, clips.lengths, 16_000)
    assert first.success.all()
    assert both.success.all()
    assert (masking.excess(both.x_adv - clips.x) < 0.3 * masking.excess(first.x_adv - clips.x)).all()
    assert (masking.audible(both.x_adv - clips.x) < masking.audible(first.x_adv - clips.x)).all()
    scaled = both.x_adv * 32768
    assert torch.equal(scaled, scaled.round())
    assert all((both.x_adv[i, n:] == 0).all() for i, n in enumerate(clips.lengths.tolist()))


def test_a_batch_gives_what_its_members_give_alone(recogniser, clips):
    configured = attack(steps=20, masking_steps=10, masking_check_every=5)
    together = configured(recogniser, clips, store="int16")
    assert together.success.all()
    for i, n in enumerate(clips.lengths.tolist()):
        single = configured(recogniser, replace(clips.rows([i]), x=clips.x[i : i + 1, :n]), store="int16")
        torch.testing.assert_close(single.x_adv[0], together.x_adv[i, :n], atol=1e-4, rtol=0)
        assert single.adversarial.texts() == [together.adversarial.texts()[i]]


def test_a_clip_that_stage_one_cannot_fool_keeps_what_stage_one_found(recogniser, clips):
    options = {"steps": 3, "eps": 1e-3}
    first, both = attack("cw", **options)(recogniser, clips), attack(**options)(recogniser, clips)
    assert not both.success.any()
    assert torch.equal(first.x_adv, both.x_adv)
    assert (both.calls.backward == 3).all()  # none of them spent on stage 2


def test_a_clip_that_cannot_be_hidden_better_keeps_what_stage_one_found(recogniser, clips):
    """Steps far too long leave the goal at once and never come back below."""
    options = {"steps": 20, "max_decreases": 0}
    first = attack("cw", **options)(recogniser, clips)
    both = attack(**options, masking_steps=4, masking_check_every=2, masking_rate=3000.0, alpha=1e-9)(
        recogniser, clips
    )
    assert both.success.all()
    assert torch.equal(first.x_adv, both.x_adv)


def test_a_change_that_is_all_hidden_is_finished(recogniser, clips):
    with torch.no_grad():
        heard = recogniser(clips.x, clips.lengths).texts()
    one = replace(clips.rows([0]), x=clips.x[:1, : int(clips.lengths[0])])
    result = attack(goal={"name": "transcript", "text": heard[0]})(recogniser, one)
    assert torch.equal(result.x_adv, one.x)
    assert result.calls.backward.tolist() == [2]  # one look in each stage


def test_the_rate_is_the_models_or_must_be_said():
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3000, 2))
    batch = Batch("clip", ["a"], torch.full((1, 3000), 0.1), torch.zeros(1, dtype=torch.long))
    with pytest.raises(UserError, match="rate_hz: 16000"):
        attack(goal="untargeted", steps=2)(Classifier(network, "clip", ["a", "b"]), batch)
    result = attack(goal="untargeted", steps=2, masking_steps=2, rate_hz=8000)(
        Classifier(network, "clip", ["a", "b"]), batch
    )
    assert torch.isfinite(result.x_adv).all()


def test_pictures_are_refused():
    model = Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2)), "picture", ["a", "b"])
    batch = Batch("picture", ["a"], torch.full((1, 1, 2, 2), 0.5), torch.zeros(1, dtype=torch.long))
    with pytest.raises(UserError, match="masking threshold of clips"):
        attack(goal="untargeted")(model, batch)

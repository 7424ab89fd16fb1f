"""A batch of clips of different lengths gives each clip what it gets alone: the same audio to 1e-4 and the
same transcript."""

import pytest
import torch

from limen.attacks.engine.run import Attack
from limen.attacks.engine.threads import shares
from limen.core.components import parse
from limen.core.errors import UserError
from limen.core.types import Batch, predictions
from limen.models.base.load import load_model

MODELS = [
    ({"name": "deepspeech2"}, "short_sentences"),
    ({"name": "lstm_seq2seq"}, "short_sentences"),
    ({"name": "transformer_seq2seq"}, "short_sentences"),
    ({"name": "transformer_seq2seq", "head": "ctc"}, "short_sentences"),
    ({"name": "wav2vec2_small"}, "digit_strings"),
]
PGD = {"name": "pgd", "steps": 6, "early_stop": False, "budget": {"name": "snr", "snr_db": 30}}


@pytest.fixture(params=[1, 2], ids=["one-thread", "two-threads"])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("spec", "data"), MODELS, ids=lambda v: v if isinstance(v, str) else "-".join(v.values())
)
@pytest.mark.parametrize(
    "goal", [{"name": "untargeted"}, {"name": "transcript", "text": "nine"}], ids=["away", "target"]
)
def test_a_batch_gives_what_its_members_give_alone(spec, data, goal, threads):
    model, attack = load_model(spec), Attack.parse({**PGD, "goal": goal})
    component, options = parse("data", {"name": data, "limit": 3})
    batch = component.function(options).all()
    together = attack(model, batch, store="int16")
    assert torch.get_num_threads() == threads
    assert together.calls.backward.tolist() == [PGD["steps"]] * 3
    assert batch.lengths is not None
    for i, n in enumerate(batch.lengths.tolist()):
        one = Batch("clip", [batch.ids[i]], batch.x[i : i + 1, :n], [batch.y[i]], batch.lengths[i : i + 1])
        alone = attack(model, one, store="int16")
        assert float((alone.x_adv[0] - together.x_adv[i, :n]).abs().max()) <= 1e-4
        assert bool((together.x_adv[i, n:] == 0).all())
        assert predictions(alone.adversarial)[0] == predictions(together.adversarial)[i]
        assert bool(alone.success[0]) == bool(together.success[i])


@pytest.mark.parametrize("goal", ["feature", "untargeted"])
def test_shares_in_threads_find_what_one_thread_finds(goal):
    """Of every goal, also those that keep values per frame."""
    model, attack = load_model("wav2vec2_small"), Attack.parse({**PGD, "steps": 3, "goal": goal})
    component, options = parse("data", {"name": "digit_strings", "limit": 5})
    batch = component.function(options).all()
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 8):
        torch.set_num_threads(threads)
        try:
            found.append(attack(model, batch, store="int16"))
        finally:
            torch.set_num_threads(before)
    for other in found[1:]:
        assert float((found[0].x_adv - other.x_adv).abs().max()) <= 1e-4
        assert predictions(found[0].adversarial) == predictions(other.adversarial)
        assert other.calls.forward.tolist() == found[0].calls.forward.tolist()


def test_an_error_in_a_thread_comes_out_and_the_threads_come_back():
    model, attack = (
        load_model("ctc_small"),
        Attack.parse({**PGD, "goal": {"name": "transcript", "text": "nine" * 100}}),
    )
    component, options = parse("data", {"name": "digit_strings", "limit": 4})
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(UserError, match="shorten the text"):
            attack(model, component.function(options).all())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_shares_are_even_counted_with_their_padding():
    lengths = [18858, 36463, 33496, 26132, 44833, 23482, 28304, 28526]
    parts = shares(lengths, 2)
    assert sorted(i for part in parts for i in part) == list(range(8))
    assert parts == [
        [4, 1, 2],
        [7, 6, 3, 5, 0],
    ]  # 3 x 44833 and 5 x 28526: no other cut has a smaller larger part
    assert shares([5], 4) == [[0]]
    assert shares([7, 7, 7, 7], 2) == [[0, 1], [2, 3]]
    assert shares([100, 1, 1, 1], 2) == [[0], [1, 2, 3]]

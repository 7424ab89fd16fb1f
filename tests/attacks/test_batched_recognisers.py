"""A batch of clips of different lengths gives each clip what it gets alone: the same audio to 1e-4 and the same transcript."""

import pytest

from limen.attacks._run import Attack
from limen.components import parse
from limen.models._load import load_model
from limen.types import Batch, predictions

MODELS = [
    ({"name": "deepspeech2"}, "short_sentences"),
    ({"name": "lstm_seq2seq"}, "short_sentences"),
    ({"name": "transformer_seq2seq"}, "short_sentences"),
    ({"name": "transformer_seq2seq", "head": "ctc"}, "short_sentences"),
    ({"name": "wav2vec2_small"}, "digit_strings"),
]
PGD = {"name": "pgd", "steps": 6, "early_stop": False, "budget": {"name": "snr", "snr_db": 30}}


@pytest.mark.parametrize(("spec", "data"), MODELS, ids=lambda v: v if isinstance(v, str) else "-".join(v.values()))
@pytest.mark.parametrize("goal", [{"name": "untargeted"}, {"name": "transcript", "text": "nine"}], ids=["away", "target"])
def test_a_batch_gives_what_its_members_give_alone(spec, data, goal):
    model, attack = load_model(spec), Attack.parse({**PGD, "goal": goal})
    component, options = parse("data", {"name": data, "limit": 3})
    batch = component.function(options).all()
    together = attack(model, batch, store="int16")
    assert batch.lengths is not None
    for i, n in enumerate(batch.lengths.tolist()):
        one = Batch("clip", [batch.ids[i]], batch.x[i : i + 1, :n], [batch.y[i]], batch.lengths[i : i + 1])
        alone = attack(model, one, store="int16")
        assert float((alone.x_adv[0] - together.x_adv[i, :n]).abs().max()) <= 1e-4
        assert bool((together.x_adv[i, n:] == 0).all())
        assert predictions(alone.adversarial)[0] == predictions(together.adversarial)[i]
        assert bool(alone.success[0]) == bool(together.success[i])

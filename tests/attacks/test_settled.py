"""What a recogniser writes settles whether a search is done, not what greedy decoding would write."""

import pytest

from limen.attacks.engine.run import Attack
from limen.core.components import parse
from limen.goals.base.goal import GoalContext
from limen.models.base.load import load_model

SEARCHES = [
    ("ctc_small", {"name": "pgd", "budget": {"name": "snr", "snr_db": 45}}),
    (
        "ctc_small",
        {
            "name": "pgd",
            "steps": 60,
            "goal": {"name": "transcript", "text": "one two"},
            "budget": {"name": "snr", "snr_db": 15},
        },
    ),
    ("lstm_seq2seq", {"name": "pgd", "budget": {"name": "snr", "snr_db": 45}}),
]


@pytest.mark.parametrize(("name", "spec"), SEARCHES, ids=["away, CTC", "target, CTC", "away, attention"])
def test_only_a_clip_whose_beam_search_reaches_the_goal_leaves_the_search(name, spec):
    model, attack = load_model({"name": name, "decoding": "beam"}), Attack.parse(spec)
    component, options = parse(
        "data", {"name": "digit_strings" if name == "ctc_small" else "short_sentences", "limit": 8}
    )
    found = attack(model, component.function(options).all(), store="int16")
    left = found.calls.backward < attack.spec.options.steps
    assert left.sum() >= 2
    assert found.reached[left].all()


@pytest.mark.parametrize(
    "goal", ["untargeted", {"name": "transcript", "text": "one"}], ids=["away", "target"]
)
@pytest.mark.parametrize(("decoding", "needs_decoding"), [("greedy", False), ("beam", True)])
@pytest.mark.parametrize("name", ["ctc_small", "deepspeech2", "lstm_seq2seq", "transformer_seq2seq"])
def test_every_success_of_a_beam_search_is_decoded_before_it_counts(name, decoding, needs_decoding, goal):
    model = load_model({"name": name, "decoding": decoding})
    component, options = parse("data", {"name": "short_sentences", "limit": 2})
    batch = component.function(options).all()
    outputs = model(batch.x, batch.lengths, None)
    make, wanted = parse("goals", goal)
    asked = make.function(GoalContext(outputs.texts(), outputs, []), wanted)
    assert (asked.needs_decoding(outputs) is not None) == needs_decoding

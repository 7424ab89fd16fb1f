import pytest
import torch

from limen.core.errors import UserError
from limen.data.spoken_languages import PAIRS, SENTENCES, SpokenLanguages, spoken_languages


def test_no_sentence_is_heard_in_two_splits_and_every_language_says_all():
    heard = {split: {i for pair in pairs for i in pair} for split, pairs in PAIRS.items()}
    assert sorted(i for indices in heard.values() for i in indices) == list(range(10))
    assert all(len(set(texts)) == 10 for texts in SENTENCES.values())
    assert len(spoken_languages(SpokenLanguages())) == 5 * 6


def test_ids_carry_the_language_and_clips_differ_between_languages():
    data = spoken_languages(SpokenLanguages(languages=["it", "pl"], order="file", limit=7))
    samples = list(data)
    assert [s.id for s in samples] == [*(f"it/test-{i}" for i in range(6)), "pl/test-0"]
    assert (
        samples[0].y
        == "Il vecchio signore legge il giornale ogni giorno. I nostri amici verranno a cena domani."
    )
    assert samples[6].y.startswith("Starszy pan codziennie czyta gazetę.")
    for sample in samples:
        assert 2.0 < len(sample.x) / 16_000 < 12
        assert 0.05 < sample.x.abs().max() <= 1
        assert (sample.x[:3000] == 0).all()
    assert torch.equal(next(iter(data)).x, samples[0].x)


def test_other_rates_and_mistakes():
    slow, fast = (
        next(iter(spoken_languages(SpokenLanguages(languages=["en"], order="file", rate_hz=r))))
        for r in (8_000, 16_000)
    )
    assert len(slow.x) == -(-len(fast.x) // 2)
    with pytest.raises(UserError, match="no language"):
        spoken_languages(SpokenLanguages(languages=[]))
    with pytest.raises(UserError, match="nobody"):
        next(iter(spoken_languages(SpokenLanguages(voice="nobody"))))

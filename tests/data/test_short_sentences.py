import re

import pytest
import torch

from limen.data.base.voices import SPEAKERS
from limen.data.digit_strings import DIGITS
from limen.data.short_sentences import TEMPLATES, WORDS, ShortSentences, short_sentences, split_of, transcript


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    return tmp_path


def texts(split, n, seed=0):
    return [transcript(seed, split, i) for i in range(n)]


def test_texts_are_short_and_made_of_letters_spaces_and_apostrophes():
    said = texts("train", 500)
    assert all(re.fullmatch(r"[a-z']+( [a-z']+){1,6}", text) for text in said)
    assert len(set(said)) > 300
    assert len({word for text in said for word in text.split()}) > 250
    assert any("'" in text for text in said)


def test_a_quarter_are_strings_of_digits():
    said = texts("train", 1000)
    digits = sum(set(text.split()) <= set(DIGITS) for text in said)
    assert digits / len(said) == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 1000) ** 0.5)


def test_no_text_of_one_split_is_heard_in_another_whatever_the_seed():
    train, valid, test = (
        {t for seed in (0, 1) for t in texts(split, 600, seed)} for split in ("train", "valid", "test")
    )
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_eight_of_ten_texts_are_for_training():
    share = [split_of(f"text number {i}") for i in range(5000)]
    for split, p in (("train", 0.8), ("valid", 0.1), ("test", 0.1)):
        assert share.count(split) / 5000 == pytest.approx(p, abs=4 * (p * (1 - p) / 5000) ** 0.5)


def test_every_slot_of_a_template_has_words_and_every_list_is_used():
    slots = {slot for template in TEMPLATES for slot in re.findall(r"\{(\w+)\}", template)}
    assert slots == set(WORDS)


def test_nobody_speaks_in_two_splits():
    people = [set(women + men) for women, men in SPEAKERS.values()]
    assert sum(map(len, people)) == len(set.union(*people))


def test_clips_last_about_two_seconds_and_longer_texts_take_longer():
    batch = short_sentences(ShortSentences(size=24)).all()
    seconds = batch.lengths / 16_000
    assert 1.4 < seconds.mean() < 2.2
    characters = torch.tensor([len(t) for t in batch.y]).double()
    assert torch.corrcoef(torch.stack([characters, seconds.double()]))[0, 1] > 0.6
    for x, n in zip(batch.x, batch.lengths.tolist(), strict=True):
        assert (x[n:] == 0).all()
        assert x[n - 400 : n].abs().max() > 0


def test_a_few_equal_those_of_the_whole(cache):
    few = short_sentences(ShortSentences(size=20, limit=3)).all()
    assert not list(cache.glob("short_sentences/*"))
    whole = list(short_sentences(ShortSentences(size=20)))
    assert list(cache.glob("short_sentences/*/samples.npy"))
    for i in range(3):
        assert few.ids[i] == whole[i].id
        assert few.y[i] == whole[i].y
        assert torch.equal(few.x[i, : int(few.lengths[i])], whole[i].x)


def test_clips_lie_on_the_16_bit_grid_at_any_rate():
    for rate_hz in (16_000, 8000):
        for sample in short_sentences(ShortSentences(size=3, rate_hz=rate_hz)):
            assert torch.equal((sample.x * 32768).round(), sample.x * 32768)
            assert 0.5 < len(sample.x) / rate_hz < 4

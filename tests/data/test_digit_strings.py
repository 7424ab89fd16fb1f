import pytest
import torch

from limen.data.digit_strings import DIGITS, DigitStrings, digit_strings


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    return tmp_path


def test_transcripts_are_one_to_five_digit_words():
    data = digit_strings(DigitStrings(size=60))
    assert data.classes is None
    words = [s.y.split() for s in data]
    assert {len(w) for w in words} == {1, 2, 3, 4, 5}
    assert {w for line in words for w in line} == set(DIGITS)


def test_more_words_take_longer_and_padding_is_silent():
    batch = digit_strings(DigitStrings(size=60)).all()
    counts = torch.tensor([len(t.split()) for t in batch.y]).double()
    assert torch.corrcoef(torch.stack([counts, batch.lengths.double()]))[0, 1] > 0.8
    for x, n in zip(batch.x, batch.lengths.tolist(), strict=True):
        assert (x[n:] == 0).all()
        assert x[n - 400 : n].abs().max() > 0


def test_a_few_equal_those_of_the_whole(cache):
    few = digit_strings(DigitStrings(size=20, limit=3)).all()
    assert not list(cache.glob("digit_strings/*"))
    whole = list(digit_strings(DigitStrings(size=20)))
    assert list(cache.glob("digit_strings/*/samples.npy"))
    again = list(digit_strings(DigitStrings(size=20)))
    for i, sample in enumerate(again):
        assert torch.equal(sample.x, whole[i].x)
        assert sample.y == whole[i].y
    for i in range(3):
        n = int(few.lengths[i])
        assert few.ids[i] == whole[i].id
        assert torch.equal(few.x[i, :n], whole[i].x)


def test_clips_lie_on_the_16_bit_grid_at_any_rate():
    for rate_hz in (16_000, 8000):
        for sample in digit_strings(DigitStrings(size=4, rate_hz=rate_hz)):
            assert torch.equal((sample.x * 32768).round(), sample.x * 32768)
            assert 0.3 < len(sample.x) / rate_hz < 6


def test_splits_hold_other_strings():
    said = [
        tuple(s.y for s in digit_strings(DigitStrings(split=split, size=20, order="file")))
        for split in ("train", "valid", "test")
    ]
    assert len(set(said)) == 3

import json
import multiprocessing
from collections import Counter

import numpy as np
import pytest
import torch

from limen.audio.loudness import loudness, mean_db
from limen.audio.parts import vocal_part
from limen.audio.synthesis import variants
from limen.data.base import voices
from limen.data.spoken_words import CLASSES, COMMANDS, SpokenWords, make, spoken_words


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    return tmp_path


def samples_file(cache):
    (file,) = cache.glob("spoken_words/*/samples.npy")
    return file


def test_twelve_classes_in_the_order_of_the_baseline():
    data = spoken_words(SpokenWords(limit=1))
    assert data.classes == [
        "silence",
        "unknown",
        "yes",
        "no",
        "up",
        "down",
        "left",
        "right",
        "on",
        "off",
        "stop",
        "go",
    ]
    assert len(spoken_words(SpokenWords(per_class=3))) == 36


def test_every_clip_is_one_second_on_the_16_bit_grid_without_clipping():
    x = spoken_words(SpokenWords(per_class=4)).all().x
    assert x.shape == (48, 16_000)
    assert torch.equal((x * 32768).round(), x * 32768)
    assert x.abs().max() < 0.98


def test_a_few_clips_are_made_alone_and_equal_those_of_the_whole(cache):
    few = spoken_words(SpokenWords(per_class=6, limit=5)).all()
    assert not list(cache.glob("spoken_words/*"))  # nothing stored for so few
    whole = spoken_words(SpokenWords(per_class=6)).all()
    assert few.ids == whole.ids[:5]
    assert torch.equal(few.x, whole.x[:5])
    assert samples_file(cache).is_file()


def test_more_clips_per_class_change_none_of_the_others():
    some, more = (spoken_words(SpokenWords(per_class=n, order="file")).all() for n in (2, 3))
    places = [more.ids.index(i) for i in some.ids]
    assert torch.equal(some.x, more.x[places])


def test_another_seed_or_split_is_another_corpus():
    clips = [make(seed, split, "yes", 0) for seed in (0, 1) for split in ("train", "valid", "test")]
    assert len({c.tobytes() for c in clips}) == 6


def test_nobody_speaks_in_two_splits():
    people = [name for split in voices.SPEAKERS.values() for group in split for name in group]
    assert len(people) == len(set(people))
    assert set(people) <= set(variants())


def test_all_three_levels_of_loudness_are_there():
    batch = spoken_words(SpokenWords(split="valid", per_class=8)).all()
    spoken = batch.y != CLASSES.index("silence")
    count = Counter(loudness(v) for v in mean_db(batch.x[spoken]).tolist())
    assert min(count[level] for level in ("low", "medium", "high")) >= 10
    assert mean_db(batch.x).max() < 76


def test_words_stand_near_the_middle_and_are_whole():
    batch = spoken_words(SpokenWords(per_class=5)).all()
    commands = torch.tensor([CLASSES[i] in COMMANDS for i in batch.y.tolist()])
    part = vocal_part(batch.x[commands]).double()
    assert ((part.mean(1) - 8000).abs() < 6000).all()
    assert part.mean(1).mean() == pytest.approx(8000, abs=1200)
    assert ((part[:, 1] - part[:, 0]).median() / 16_000) < 0.6


def test_words_can_be_told_apart_by_voices_never_heard():
    """Nearest class mean of coarse features: far from a good recogniser, yet far above the chance of one in
    four."""
    from limen.audio.mel import LogMel

    words, features = ("yes", "stop", "go", "left"), LogMel(20)

    def seen(split, n):
        x = torch.stack(
            [torch.from_numpy(make(0, split, w, i) / 32768).float() for w in words for i in range(n)]
        )
        loud = features(x)
        loud = loud - loud.mean((1, 2), keepdim=True)
        start, end = (vocal_part(x) // 160).T
        frames = [
            torch.linspace(max(a - 8, 0), min(b + 8, 97), 12).long()
            for a, b in zip(start.tolist(), end.tolist(), strict=True)
        ]
        return torch.stack([f[k].flatten() for f, k in zip(loud, frames, strict=True)]), torch.arange(
            len(words)
        ).repeat_interleave(n)

    x, y = seen("train", 40)
    means = torch.stack([x[y == k].mean(0) for k in range(len(words))])
    x, y = seen("test", 15)
    assert (torch.cdist(x, means).argmin(1) == y).double().mean() > 0.6


def test_another_rate_has_as_many_seconds():
    batch = spoken_words(SpokenWords(per_class=1, rate_hz=8000)).all()
    assert batch.x.shape == (12, 8000)
    assert torch.equal((batch.x * 32768).round(), batch.x * 32768)


def test_a_damaged_clip_is_made_again_and_its_neighbours_are_kept(cache):
    before = spoken_words(SpokenWords(per_class=2)).all()
    file = samples_file(cache)
    samples = np.load(file)
    samples[3 * 16_000 + 77] += 1
    np.save(file, samples)
    assert torch.equal(spoken_words(SpokenWords(per_class=2)).all().x, before.x)


@pytest.mark.parametrize(
    "damage", ["cut samples", "empty samples", "no index", "broken index", "wrong index"]
)
def test_a_damaged_store_is_made_again(cache, damage):
    before = spoken_words(SpokenWords(per_class=1)).all()
    file = samples_file(cache)
    index = file.parent / "index.json"
    whole = file.read_bytes()
    if damage == "cut samples":
        file.write_bytes(whole[:5000])
    elif damage == "empty samples":
        file.write_bytes(b"")
    elif damage == "no index":
        index.unlink()
    elif damage == "broken index":
        index.write_text("{")
    else:
        index.write_text(json.dumps({"recipe": {}, "starts": [0], "crc32": []}))
    assert torch.equal(spoken_words(SpokenWords(per_class=1)).all().x, before.x)
    assert file.read_bytes() == whole
    assert [p.name for p in (cache / "spoken_words").iterdir()] == [file.parent.name]


def _read(_):
    return spoken_words(SpokenWords(per_class=2)).all().x.numpy()


def test_two_processes_at_once_agree(cache):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        one, two = pool.map(_read, range(2))
        pool.close()  # let the workers tidy up; leaving the block would end them at once
        pool.join()
    np.testing.assert_array_equal(one, two)
    assert [p.name for p in (cache / "spoken_words").iterdir()] == [samples_file(cache).parent.name]

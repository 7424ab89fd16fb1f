import torch
from sklearn.datasets import load_digits

from limen.core.components import parse


def dataset(**options):
    component, parsed = parse("data", {"name": "digits", **options})
    return component.function(parsed)


def test_the_splits_part_the_1797_digits():
    parts = {split: [sample.id for sample in dataset(split=split)] for split in ("train", "valid", "test")}
    everything = [name for ids in parts.values() for name in ids]
    assert len(everything) == len(set(everything)) == 1797
    assert {split: len(ids) for split, ids in parts.items()} == {"train": 1228, "valid": 192, "test": 377}


def test_pixels_and_labels_are_scikit_learns():
    bunch = load_digits()
    for sample in dataset(limit=50):
        i = int(sample.id.removeprefix("digits/"))
        assert sample.y == bunch.target[i]
        assert torch.equal(sample.x * 16, torch.from_numpy(bunch.images[i]).float()[None])


def test_the_order_is_the_same_every_time_and_follows_its_seed():
    first, again, other = ([s.id for s in dataset(order_seed=seed)] for seed in (0, 0, 1))
    assert first == again != other
    assert sorted(first) == sorted(other)

"""Digits: 1,797 handwritten digits, 8x8, that come with scikit-learn; needs no download.

Alpaydin and Kaynak 1998, https://archive.ics.uci.edu/dataset/80. Split by a hash of the id: about 70 % train,
10 % valid, 20 % test."""

import torch

from limen.core.types import Sample
from limen.data.base.dataset import DataOptions, Dataset, ordered
from limen.data.base.split import split_of


class Digits(DataOptions):
    """Options of the digits."""


def digits(options: Digits) -> Dataset:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = torch.from_numpy(bunch.images).float() / 16  # pixels are whole numbers 0..16
    ids = [f"digits/{i:04d}" for i in range(len(pixels))]
    numbers = [i for i, name in enumerate(ids) if split_of(name, 0.1, 0.2) == options.split]

    def load(i: int) -> Sample:
        return Sample(ids[i], pixels[i][None], int(bunch.target[i]))

    keys = ordered(numbers, [ids[i] for i in numbers], options)
    return Dataset("digits", "picture", keys, load, classes=list("0123456789"), shape=(1, 8, 8))

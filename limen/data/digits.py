"""Digits: 1,797 handwritten digits of 8x8 pixels, shipped with Limen; needs no download.

Alpaydin and Kaynak 1998, https://archive.ics.uci.edu/dataset/80 (licence CC BY 4.0): the test part of that
data set, as scikit-learn distributes it (licence BSD-3-Clause). Split by a hash of the id: about 70 % train,
10 % valid, 20 % test."""

from pathlib import Path

import numpy as np
import torch

from limen.core.types import Sample
from limen.data.base.dataset import DataOptions, Dataset, ordered
from limen.data.base.split import split_of


class Digits(DataOptions):
    """Options of the digits."""


def digits(options: Digits) -> Dataset:
    with np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False) as file:
        pixels = torch.from_numpy(file["images"]).float() / 16  # (1797, 8, 8) whole numbers from 0 to 16
        labels = file["labels"].tolist()
    ids = [f"digits/{i:04d}" for i in range(len(pixels))]
    numbers = [i for i, name in enumerate(ids) if split_of(name, 0.1, 0.2) == options.split]

    def load(i: int) -> Sample:
        return Sample(ids[i], pixels[i][None], labels[i])

    keys = ordered(numbers, [ids[i] for i in numbers], options)
    return Dataset("digits", "picture", keys, load, classes=list("0123456789"), shape=(1, 8, 8))

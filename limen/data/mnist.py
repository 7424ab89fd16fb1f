"""MNIST: handwritten digits, 28x28, 60,000 for training (the last 5,000 are the valid split) and 10,000 for
testing.

LeCun, Bottou, Bengio and Haffner 1998, http://yann.lecun.com/exdb/mnist/. Fetch it with `limen data get
mnist`."""

from limen.data.base.dataset import Dataset
from limen.data.base.idx import IdxOptions, idx_dataset


class Mnist(IdxOptions):
    """Options of MNIST."""


def mnist(options: Mnist) -> Dataset:
    return idx_dataset("mnist", list("0123456789"), options)

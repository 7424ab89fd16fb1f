"""Fashion-MNIST: pictures of clothes, 28x28, 60,000 for training (the last 5,000 are the valid split) and
10,000 for testing.

Xiao, Rasul and Vollgraf 2017, https://arxiv.org/abs/1708.07747. Fetch it with `limen data get
fashion_mnist`."""

from limen.data.base.dataset import Dataset
from limen.data.base.idx import IdxOptions, idx_dataset

CLASSES = [
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
]


class FashionMnist(IdxOptions):
    """Options of Fashion-MNIST."""


def fashion_mnist(options: FashionMnist) -> Dataset:
    return idx_dataset("fashion_mnist", CLASSES, options)

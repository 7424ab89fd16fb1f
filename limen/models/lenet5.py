"""LeNet-5 for MNIST with AdverTorch's published weights, trained normally or adversarially.

Ding et al. 2019, https://arxiv.org/abs/1902.07623. Weights: limen data get lenet5.
"""

from typing import Literal

from torch import Tensor, nn

from limen.data.fetch.cache import fetched as fetched_folder
from limen.models.base.load import read_state
from limen.models.base.model import Classifier, Model, ModelOptions, class_names


class Lenet5(ModelOptions):
    variant: Literal["standard", "adversarial"] = "standard"
    """Which of the two published weights to use: trained normally, or on PGD samples of L-inf 0.3."""

    def fetched(self) -> dict[str, Tensor]:
        kind = "clntrained" if self.variant == "standard" else "advtrained"
        return read_state(fetched_folder("lenet5") / f"mnist_lenet5_{kind}.pt")


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.linear1, self.linear2 = nn.Linear(7 * 7 * 64, 200), nn.Linear(200, 10)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.conv2(self.pool(self.conv1(x).relu())).relu())
        return self.linear2(self.linear1(x.flatten(1)).relu())


def lenet5(options: Lenet5) -> Model:
    return Classifier(LeNet(), "picture", class_names(10), shape=(1, 28, 28))

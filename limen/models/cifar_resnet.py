"""The CIFAR-10 ResNet of the MLPerf Tiny benchmark, read from its Keras file.

Banbury et al. 2021, https://arxiv.org/abs/2106.07597: three stages of one block, 16 to 64 channels. Weights:
limen data get cifar_resnet.
"""

import torch
from torch import Tensor, nn

from limen.core.errors import missing_package
from limen.data.fetch.cache import fetched as fetched_folder
from limen.models.base.cifar import CIFAR10
from limen.models.base.model import Classifier, Model, ModelOptions, Normalized
from limen.models.base.same_padding import SameConv


class CifarResnet(ModelOptions):
    def fetched(self) -> dict[str, Tensor]:
        try:
            import h5py
        except ModuleNotFoundError:
            raise missing_package("model cifar_resnet", "h5py", "models") from None
        state = {}
        with h5py.File(next(fetched_folder("cifar_resnet").glob("*.h5"))) as file:
            for layer, group in file["model_weights"].items():
                for name, values in group.get(layer, {}).items():
                    value = torch.from_numpy(values[()])
                    if name == "kernel:0":  # (height, width, in, out), or (in, out) of the dense layer
                        value = value.permute(3, 2, 0, 1) if value.ndim == 4 else value.T
                    state[f"{layer}.{NAMES[name.removesuffix(':0')]}"] = value.contiguous()
        return state


class TinyResNet(nn.Module):
    """Layers have the names of the Keras file, which numbers convolutions and normalisations in order of
    creation."""

    SHAPES = (
        (3, 16, 3, 1),
        (16, 16, 3, 1),
        (16, 16, 3, 1),
        (16, 32, 3, 2),
        (32, 32, 3, 1),
        (16, 32, 1, 2),
        (32, 64, 3, 2),
        (64, 64, 3, 1),
        (32, 64, 1, 2),
    )
    """Channels in and out, kernel and stride of conv2d, conv2d_1, ..."""
    NORMALISED = (0, 1, 2, 3, 4, 6, 7)
    """Indices of the convolutions followed by batch_normalization, batch_normalization_1, ..."""

    def __init__(self) -> None:
        super().__init__()
        for i, (channels_in, channels, kernel, stride) in enumerate(self.SHAPES):
            self.add_module(_numbered("conv2d", i), SameConv(channels_in, channels, kernel, stride))
        for i, conv in enumerate(self.NORMALISED):
            self.add_module(
                _numbered("batch_normalization", i), nn.BatchNorm2d(self.SHAPES[conv][1], eps=1e-3)
            )
        self.dense = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self._layer(0, x).relu()
        x = (self._layer(2, self._layer(1, x).relu()) + x).relu()
        x = (self._layer(4, self._layer(3, x).relu()) + self._layer(5, x)).relu()
        x = (self._layer(7, self._layer(6, x).relu()) + self._layer(8, x)).relu()
        return self.dense(x.mean((2, 3)))

    def _layer(self, i: int, x: Tensor) -> Tensor:
        x = self.get_submodule(_numbered("conv2d", i))(x)
        return (
            self.get_submodule(_numbered("batch_normalization", self.NORMALISED.index(i)))(x)
            if i in self.NORMALISED
            else x
        )


def _numbered(name: str, i: int) -> str:
    return f"{name}_{i}" if i else name


NAMES = {
    "kernel": "weight",
    "bias": "bias",
    "gamma": "weight",
    "beta": "bias",
    "moving_mean": "running_mean",
    "moving_variance": "running_var",
}
"""Torch's parameter names by those of Keras."""


def cifar_resnet(options: CifarResnet) -> Model:
    network = Normalized(TinyResNet(), [128 / 255] * 3, [128 / 255] * 3)  # trained on (pixel - 128) / 128
    return Classifier(network, "picture", CIFAR10, shape=(3, 32, 32))

"""A multilayer perceptron for pictures: flatten, hidden layers with ReLU, logits."""

from typing import Annotated

from pydantic import Field
from torch import nn

from limen.models.base.model import Classes, Classifier, Model, ModelOptions, Normalized, class_names


class Mlp(ModelOptions):
    in_channels: int = Field(default=1, ge=1, le=65_536)
    """Channels of a picture."""
    size: int = Field(default=8, ge=1, le=8_192)
    """Height and width of a picture (8 digits, 28 MNIST, 32 CIFAR)."""
    classes: Classes = 10
    """Number of classes, or their names."""
    hidden: list[Annotated[int, Field(ge=1, le=65_536)]] = Field(default=[64], max_length=1000)
    """Width of each hidden layer."""


def mlp(options: Mlp) -> Model:
    classes = class_names(options.classes)
    layers: list[nn.Module] = [nn.Flatten()]
    width = options.in_channels * options.size**2
    for hidden in options.hidden:
        layers += [nn.Linear(width, hidden), nn.ReLU()]
        width = hidden
    network = nn.Sequential(*layers, nn.Linear(width, len(classes)))
    shape = (options.in_channels, options.size, options.size)
    return Classifier(Normalized(network, [0.5], [0.5]), "picture", classes, shape=shape)

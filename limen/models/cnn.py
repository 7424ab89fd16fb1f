"""A convolutional network for small pictures: two pairs of 3x3 convolutions with pooling, then two linear
layers."""

from pydantic import Field
from torch import nn

from limen.core.errors import UserError
from limen.models.base.model import Classes, Classifier, Model, ModelOptions, Normalized, class_names


class Cnn(ModelOptions):
    in_channels: int = Field(default=1, ge=1, le=65_536)
    """Channels of a picture."""
    size: int = Field(default=8, ge=4, le=8_192)
    """Height and width of a picture, a multiple of 4 (8 digits, 28 MNIST, 32 CIFAR)."""
    classes: Classes = 10
    """Number of classes, or their names."""
    width: int = Field(default=32, ge=1, le=65_536)
    """Channels of the first pair of convolutions; the second has twice as many."""
    dropout: float = Field(default=0.25, ge=0, lt=1)
    """Share of activations dropped before each linear layer in training."""


def cnn(options: Cnn) -> Model:
    if options.size % 4:
        raise UserError(
            f"model cnn: size must be a multiple of 4, because two poolings halve it, got {options.size}."
        )
    classes, w = class_names(options.classes), options.width
    network = nn.Sequential(
        nn.Conv2d(options.in_channels, w, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(w, w, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(w, 2 * w, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(2 * w, 2 * w, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(options.dropout),
        nn.Linear(2 * w * (options.size // 4) ** 2, 128),
        nn.ReLU(),
        nn.Dropout(options.dropout),
        nn.Linear(128, len(classes)),
    )
    shape = (options.in_channels, options.size, options.size)
    return Classifier(Normalized(network, [0.5], [0.5]), "picture", classes, shape=shape)

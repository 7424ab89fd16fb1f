"""Options and normalisation shared by networks for ImageNet: mean and standard deviation of its pixels, 1000
classes.

These networks have torchvision's module names and shapes, so torchvision's weights files load unchanged.
"""

from typing import ClassVar

from pydantic import Field
from torch import nn

from limen.models.base.model import Classes, Classifier, Model, ModelOptions, Normalized, class_names

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class ImageNetOptions(ModelOptions):
    cores: ClassVar[int] = 4
    network_mb: ClassVar[int] = 200
    sample_mb: ClassVar[float] = 120
    """Pictures of 224 x 224; the networks declare what was measured on them."""

    classes: Classes = Field(default=1000)
    """Number of classes, or their names."""


def imagenet(
    network: nn.Module,
    options: ImageNetOptions,
    size: int = 224,
    mean: list[float] = MEAN,
    std: list[float] = STD,
) -> Model:
    return Classifier(
        Normalized(network, mean, std), "picture", class_names(options.classes), shape=(3, size, size)
    )

"""Options and normalisation shared by networks for ImageNet: mean and standard deviation of its pixels, 1000
classes.

These networks have torchvision's module names and shapes, so torchvision's weights files load unchanged.
"""

from pydantic import Field
from torch import nn

from limen.models.base.model import Classes, Classifier, Model, ModelOptions, Normalized, class_names

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


class ImageNetOptions(ModelOptions):
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

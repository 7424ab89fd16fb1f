"""VGG-19 with batch normalisation for ImageNet, with torchvision's module names (vgg19_bn) so that its
weights load.

Simonyan & Zisserman 2015, https://arxiv.org/abs/1409.1556.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from limen.models.base.imagenet import ImageNetOptions, imagenet
from limen.models.base.model import Model, class_names

STAGES = ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4))
"""Channels and number of convolutions of each stage; each stage ends with a pooling."""


class Vgg19(ImageNetOptions):
    # measured with Python and torch: 781 MB opened, 1468 for batches of 4
    network_mb: ClassVar[int] = 580
    sample_mb: ClassVar[float] = 175

    small: ClassVar[dict[str, Any] | None] = None


class VGG(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        layers: list[nn.Module] = []
        before = 3
        for channels, convolutions in STAGES:
            for _ in range(convolutions):
                layers += [nn.Conv2d(before, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU()]
                before = channels
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Dropout(),
            nn.Linear(4096, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def vgg19(options: Vgg19) -> Model:
    return imagenet(VGG(len(class_names(options.classes))), options)

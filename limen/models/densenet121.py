"""DenseNet-121 for ImageNet, with torchvision's module names so that its weights load.

Huang et al. 2017, https://arxiv.org/abs/1608.06993: the input of each layer is the concatenation of all
previous feature maps of its block.
"""

from collections import OrderedDict
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from limen.models.base.imagenet import ImageNetOptions, imagenet
from limen.models.base.model import Model, PublishedNames, class_names

Layers = Annotated[int, Field(ge=1, le=1000)]


class Densenet121(ImageNetOptions):
    # measured with Python and torch: 855 MB for batches of 4, 1911 for 12
    network_mb: ClassVar[int] = 100
    sample_mb: ClassVar[float] = 135

    small: ClassVar[dict[str, Any] | None] = {
        "growth_rate": 8,
        "block_config": [1, 1, 1, 1],
        "num_init_features": 8,
    }

    growth_rate: int = Field(default=32, ge=1, le=65_536)
    """Feature maps that each layer adds."""
    block_config: tuple[Layers, Layers, Layers, Layers] = (6, 12, 24, 16)
    """Layers of each block."""
    num_init_features: int = Field(default=64, ge=1, le=65_536)
    """Channels of the first convolution."""
    bn_size: int = Field(default=4, ge=1, le=65_536)
    """Width of a layer's bottleneck, as a multiple of the growth rate."""
    drop_rate: float = Field(default=0.0, ge=0, lt=1)
    """Share of a layer's output dropped in training."""


class DenseLayer(nn.Module):
    def __init__(self, channels_in: int, options: Densenet121):
        super().__init__()
        middle = options.bn_size * options.growth_rate
        self.norm1, self.conv1 = nn.BatchNorm2d(channels_in), nn.Conv2d(channels_in, middle, 1, bias=False)
        self.norm2, self.conv2 = (
            nn.BatchNorm2d(middle),
            nn.Conv2d(middle, options.growth_rate, 3, padding=1, bias=False),
        )
        self.dropout = nn.Dropout(options.drop_rate)

    def forward(self, x: Tensor) -> Tensor:
        new = self.conv2(self.norm2(self.conv1(self.norm1(x).relu())).relu())
        return torch.cat([x, self.dropout(new)], 1)


class DenseNet(PublishedNames):
    # published files still use "denselayer1.norm.1.weight" for torchvision's "denselayer1.norm1.weight"
    renamed: ClassVar[tuple[tuple[str, str], ...]] = (
        (r"(denselayer\d+\.(?:norm|conv))\.([12])\.", r"\1\2."),
    )

    def __init__(self, options: Densenet121, classes: int):
        super().__init__()
        channels = options.num_init_features
        parts: OrderedDict[str, nn.Module] = OrderedDict(
            conv0=nn.Conv2d(3, channels, 7, 2, 3, bias=False),
            norm0=nn.BatchNorm2d(channels),
            relu0=nn.ReLU(),
            pool0=nn.MaxPool2d(3, 2, 1),
        )
        for b, layers in enumerate(options.block_config, 1):
            block: OrderedDict[str, nn.Module] = OrderedDict()
            for i in range(1, layers + 1):
                block[f"denselayer{i}"] = DenseLayer(channels, options)
                channels += options.growth_rate
            parts[f"denseblock{b}"] = nn.Sequential(block)
            if b < len(options.block_config):
                squeeze = {
                    "norm": nn.BatchNorm2d(channels),
                    "relu": nn.ReLU(),
                    "conv": nn.Conv2d(channels, channels // 2, 1, bias=False),
                }
                parts[f"transition{b}"] = nn.Sequential(OrderedDict(**squeeze, pool=nn.AvgPool2d(2)))
                channels //= 2
        parts["norm5"] = nn.BatchNorm2d(channels)
        self.features = nn.Sequential(parts)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x).relu().mean((2, 3)))


def densenet121(options: Densenet121) -> Model:
    return imagenet(DenseNet(options, len(class_names(options.classes))), options)

"""EfficientNet-Lite 0 for ImageNet: mobile blocks without squeeze-and-excitation, ReLU6, pictures of 224x224.

Tan & Le 2019, https://arxiv.org/abs/1905.11946; the Lite variant,
https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite. Weights: limen data get
efficientnet_lite0; module names are those of that file.
"""

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from limen.data.fetch.cache import fetched as fetched_folder
from limen.models.base.imagenet import ImageNetOptions, imagenet
from limen.models.base.load import read_state
from limen.models.base.model import Model, class_names
from limen.models.base.same_padding import SameConv

STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
"""For each stage: number of blocks, kernel, stride of the first block, expansion, channels."""


class EfficientnetLite0(ImageNetOptions):
    # measured with Python and torch: 251 MB opened, 1298 for batches of 12
    network_mb: ClassVar[int] = 50
    sample_mb: ClassVar[float] = 90

    def fetched(self) -> dict[str, Tensor]:
        return read_state(next(fetched_folder("efficientnet_lite0").glob("*.pth")))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class Block(nn.Module):
    """1x1 expansion, depthwise convolution, 1x1 projection; the input is added if the shapes are equal."""

    def __init__(self, channels_in: int, channels: int, kernel: int, stride: int, expansion: int):
        super().__init__()
        middle = channels_in * expansion
        self.skip, self.expanding = stride == 1 and channels_in == channels, expansion != 1
        if self.expanding:
            self._expand_conv, self._bn0 = SameConv(channels_in, middle, 1, bias=False), _norm(middle)
        self._depthwise_conv, self._bn1 = (
            SameConv(middle, middle, kernel, stride, groups=middle, bias=False),
            _norm(middle),
        )
        self._project_conv, self._bn2 = SameConv(middle, channels, 1, bias=False), _norm(channels)

    def forward(self, x: Tensor) -> Tensor:
        inside = F.relu6(self._bn0(self._expand_conv(x))) if self.expanding else x
        inside = self._bn2(self._project_conv(F.relu6(self._bn1(self._depthwise_conv(inside)))))
        return inside + x if self.skip else inside


class EfficientNetLite(nn.Module):
    def __init__(self, classes: int):
        super().__init__()
        self._conv_stem, self._bn0 = SameConv(3, 32, 3, 2, bias=False), _norm(32)
        blocks, before = [], 32
        for count, kernel, stride, expansion, channels in STAGES:
            for i in range(count):
                blocks.append(Block(before, channels, kernel, stride if i == 0 else 1, expansion))
                before = channels
        self._blocks = nn.ModuleList(blocks)
        self._conv_head, self._bn1 = SameConv(320, 1280, 1, bias=False), _norm(1280)
        self._dropout, self._fc = nn.Dropout(0.2), nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self._bn0(self._conv_stem(x)))
        for block in self._blocks:
            x = block(x)
        return self._fc(self._dropout(F.relu6(self._bn1(self._conv_head(x))).mean((2, 3))))


def efficientnet_lite0(options: EfficientnetLite0) -> Model:
    network = EfficientNetLite(len(class_names(options.classes)))
    return imagenet(
        network, options, mean=[127 / 255] * 3, std=[128 / 255] * 3
    )  # trained on (pixel - 127) / 128

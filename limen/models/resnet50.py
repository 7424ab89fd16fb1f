"""ResNet-50 for ImageNet, with torchvision's module names so that its weights load.

He et al. 2016, https://arxiv.org/abs/1512.03385; as in torchvision, the 3x3 convolution of a bottleneck has
the stride ("v1.5").
"""

from typing import ClassVar

from torch import Tensor, nn

from limen.models.base.imagenet import ImageNetOptions, imagenet
from limen.models.base.model import Model, class_names


class Resnet50(ImageNetOptions):
    # measured with Python and torch: 767 MB for batches of 4, 1540 for 12
    network_mb: ClassVar[int] = 150
    sample_mb: ClassVar[float] = 100


class Bottleneck(nn.Module):
    """1x1 convolution to `channels`, 3x3, 1x1 to four times as many, plus the shortcut."""

    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        out = 4 * channels
        self.conv1, self.bn1 = nn.Conv2d(channels_in, channels, 1, bias=False), nn.BatchNorm2d(channels)
        self.conv2, self.bn2 = (
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.conv3, self.bn3 = nn.Conv2d(channels, out, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample = nn.Sequential()
        if stride != 1 or channels_in != out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )

    def forward(self, x: Tensor) -> Tensor:
        inside = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu())).relu()
        return (self.bn3(self.conv3(inside)) + self.downsample(x)).relu()


class ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, int, int, int], classes: int):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._stage(64, 64, blocks[0], 1)
        self.layer2 = self._stage(256, 128, blocks[1], 2)
        self.layer3 = self._stage(512, 256, blocks[2], 2)
        self.layer4 = self._stage(1024, 512, blocks[3], 2)
        self.fc = nn.Linear(2048, classes)

    @staticmethod
    def _stage(channels_in: int, channels: int, blocks: int, stride: int) -> nn.Sequential:
        rest = [Bottleneck(4 * channels, channels, 1) for _ in range(blocks - 1)]
        return nn.Sequential(Bottleneck(channels_in, channels, stride), *rest)

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def resnet50(options: Resnet50) -> Model:
    return imagenet(ResNet((3, 4, 6, 3), len(class_names(options.classes))), options)

"""Inception v3 for ImageNet (pictures of 299x299), with torchvision's module names so that its weights load.

Szegedy et al. 2016, https://arxiv.org/abs/1512.00567. The auxiliary classifier exists only so that the
weights load: it matters only for training from scratch, and the forward pass does not use it.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limen.models.base.imagenet import MEAN, STD, ImageNetOptions, imagenet
from limen.models.base.model import Model, class_names


class InceptionV3(ImageNetOptions):
    # measured with Python and torch: 841 MB for batches of 4, 1697 for 12
    network_mb: ClassVar[int] = 180
    sample_mb: ClassVar[float] = 110

    aux_logits: bool = True
    """Whether the weights include the auxiliary classifier (torchvision's do)."""
    transform_input: bool = False
    """Scale pixels to [-1, 1], for which torchvision's published weights were trained; false: ImageNet's
    mean and standard deviation, as in CrAdv."""


class Conv(nn.Module):
    """Convolution, batch normalisation (eps 0.001), ReLU."""

    def __init__(
        self,
        channels_in: int,
        channels: int,
        kernel: int | tuple[int, int],
        stride: int = 1,
        padding: int | tuple[int, int] = 0,
    ):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.conv(x)).relu()


def _flat(channels_in: int, channels: int, n: int) -> Conv:
    return Conv(channels_in, channels, (1, n), padding=(0, n // 2))


def _tall(channels_in: int, channels: int, n: int) -> Conv:
    return Conv(channels_in, channels, (n, 1), padding=(n // 2, 0))


def _pooled(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 3, 1, 1)


class InceptionA(nn.Module):
    """35x35: 1x1, 5x5, double 3x3 and pooling in parallel."""

    def __init__(self, channels_in: int, pool: int):
        super().__init__()
        self.branch1x1 = Conv(channels_in, 64, 1)
        self.branch5x5_1, self.branch5x5_2 = Conv(channels_in, 48, 1), Conv(48, 64, 5, padding=2)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Conv(channels_in, 64, 1), Conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Conv(96, 96, 3, padding=1)
        self.branch_pool = Conv(channels_in, pool, 1)

    def forward(self, x: Tensor) -> Tensor:
        five = self.branch5x5_2(self.branch5x5_1(x))
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch1x1(x), five, double, self.branch_pool(_pooled(x))], 1)


class InceptionB(nn.Module):
    """35x35 -> 17x17."""

    def __init__(self, channels_in: int):
        super().__init__()
        self.branch3x3 = Conv(channels_in, 384, 3, 2)
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Conv(channels_in, 64, 1), Conv(64, 96, 3, padding=1)
        self.branch3x3dbl_3 = Conv(96, 96, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        double = self.branch3x3dbl_3(self.branch3x3dbl_2(self.branch3x3dbl_1(x)))
        return torch.cat([self.branch3x3(x), double, F.max_pool2d(x, 3, 2)], 1)


class InceptionC(nn.Module):
    """17x17: 7x7 convolutions factorised into 1x7 and 7x1."""

    def __init__(self, channels_in: int, c7: int):
        super().__init__()
        self.branch1x1 = Conv(channels_in, 192, 1)
        self.branch7x7_1, self.branch7x7_2, self.branch7x7_3 = (
            Conv(channels_in, c7, 1),
            _flat(c7, c7, 7),
            _tall(c7, 192, 7),
        )
        self.branch7x7dbl_1, self.branch7x7dbl_2 = Conv(channels_in, c7, 1), _tall(c7, c7, 7)
        self.branch7x7dbl_3, self.branch7x7dbl_4, self.branch7x7dbl_5 = (
            _flat(c7, c7, 7),
            _tall(c7, c7, 7),
            _flat(c7, 192, 7),
        )
        self.branch_pool = Conv(channels_in, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7_3(self.branch7x7_2(self.branch7x7_1(x)))
        double = self.branch7x7dbl_3(self.branch7x7dbl_2(self.branch7x7dbl_1(x)))
        double = self.branch7x7dbl_5(self.branch7x7dbl_4(double))
        return torch.cat([self.branch1x1(x), seven, double, self.branch_pool(_pooled(x))], 1)


class InceptionD(nn.Module):
    """17x17 -> 8x8."""

    def __init__(self, channels_in: int):
        super().__init__()
        self.branch3x3_1, self.branch3x3_2 = Conv(channels_in, 192, 1), Conv(192, 320, 3, 2)
        self.branch7x7x3_1, self.branch7x7x3_2 = Conv(channels_in, 192, 1), _flat(192, 192, 7)
        self.branch7x7x3_3, self.branch7x7x3_4 = _tall(192, 192, 7), Conv(192, 192, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        seven = self.branch7x7x3_4(self.branch7x7x3_3(self.branch7x7x3_2(self.branch7x7x3_1(x))))
        return torch.cat([self.branch3x3_2(self.branch3x3_1(x)), seven, F.max_pool2d(x, 3, 2)], 1)


class InceptionE(nn.Module):
    """8x8: 3x3 convolutions replaced by parallel 1x3 and 3x1 ones."""

    def __init__(self, channels_in: int):
        super().__init__()
        self.branch1x1 = Conv(channels_in, 320, 1)
        self.branch3x3_1, self.branch3x3_2a, self.branch3x3_2b = (
            Conv(channels_in, 384, 1),
            _flat(384, 384, 3),
            _tall(384, 384, 3),
        )
        self.branch3x3dbl_1, self.branch3x3dbl_2 = Conv(channels_in, 448, 1), Conv(448, 384, 3, padding=1)
        self.branch3x3dbl_3a, self.branch3x3dbl_3b = _flat(384, 384, 3), _tall(384, 384, 3)
        self.branch_pool = Conv(channels_in, 192, 1)

    def forward(self, x: Tensor) -> Tensor:
        three, double = self.branch3x3_1(x), self.branch3x3dbl_2(self.branch3x3dbl_1(x))
        return torch.cat(
            [
                self.branch1x1(x),
                self.branch3x3_2a(three),
                self.branch3x3_2b(three),
                self.branch3x3dbl_3a(double),
                self.branch3x3dbl_3b(double),
                self.branch_pool(_pooled(x)),
            ],
            1,
        )


class Auxiliary(nn.Module):
    """The auxiliary classifier, which exists only for its weights."""

    def __init__(self, channels_in: int, classes: int):
        super().__init__()
        self.conv0, self.conv1, self.fc = (
            Conv(channels_in, 128, 1),
            Conv(128, 768, 5),
            nn.Linear(768, classes),
        )


class Inception(nn.Module):
    def __init__(self, classes: int, aux_logits: bool):
        super().__init__()
        self.Conv2d_1a_3x3, self.Conv2d_2a_3x3, self.Conv2d_2b_3x3 = (
            Conv(3, 32, 3, 2),
            Conv(32, 32, 3),
            Conv(32, 64, 3, padding=1),
        )
        self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = Conv(64, 80, 1), Conv(80, 192, 3)
        self.Mixed_5b, self.Mixed_5c, self.Mixed_5d = (
            InceptionA(192, 32),
            InceptionA(256, 64),
            InceptionA(288, 64),
        )
        self.Mixed_6a = InceptionB(288)
        self.Mixed_6b, self.Mixed_6c = InceptionC(768, 128), InceptionC(768, 160)
        self.Mixed_6d, self.Mixed_6e = InceptionC(768, 160), InceptionC(768, 192)
        if aux_logits:
            self.AuxLogits = Auxiliary(768, classes)
        self.Mixed_7a, self.Mixed_7b, self.Mixed_7c = InceptionD(768), InceptionE(1280), InceptionE(2048)
        self.dropout, self.fc = nn.Dropout(), nn.Linear(2048, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(x)))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = self.Mixed_5d(self.Mixed_5c(self.Mixed_5b(F.max_pool2d(x, 3, 2))))
        x = self.Mixed_6e(self.Mixed_6d(self.Mixed_6c(self.Mixed_6b(self.Mixed_6a(x)))))
        x = self.Mixed_7c(self.Mixed_7b(self.Mixed_7a(x)))
        return self.fc(self.dropout(x.mean((2, 3))))


def inception_v3(options: InceptionV3) -> Model:
    mean, std = ([0.5] * 3, [0.5] * 3) if options.transform_input else (MEAN, STD)
    return imagenet(Inception(len(class_names(options.classes)), options.aux_logits), options, 299, mean, std)

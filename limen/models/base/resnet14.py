"""The 14-layer residual network of CrAdv: three stages of two basic blocks (He et al. 2016,
https://arxiv.org/abs/1512.03385).

Module names are those of CrAdv's published state dicts (github.com/diegoirigaray/CrAdv, data/weights).
"""

from torch import Tensor, nn


class BasicBlock(nn.Module):
    """relu(shortcut(x) + bn(conv(relu(bn(conv(x))))))."""

    def __init__(self, channels_in: int, channels: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: Tensor) -> Tensor:
        inside = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(inside)) + self.shortcut(x)).relu()


class ResNet14(nn.Module):
    """`width` channels in the stem, then 2, 4 and 8 times as many; the final 3x3 average pooling has
    stride 2 and padding `pool_padding`."""

    def __init__(self, channels_in: int, width: int, pool_padding: int, pooled: int, classes: int):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = nn.Sequential(BasicBlock(width, 2 * width, 1), BasicBlock(2 * width, 2 * width, 1))
        self.layer2 = nn.Sequential(BasicBlock(2 * width, 4 * width, 2), BasicBlock(4 * width, 4 * width, 1))
        self.layer3 = nn.Sequential(BasicBlock(4 * width, 8 * width, 2), BasicBlock(8 * width, 8 * width, 1))
        self.pool = nn.AvgPool2d(3, 2, pool_padding)
        self.linear = nn.Linear(8 * width * pooled, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.linear(self.pool(x).flatten(1))

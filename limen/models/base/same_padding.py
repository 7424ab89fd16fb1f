"""Convolution with TensorFlow's SAME padding, for networks trained in TensorFlow."""

import torch.nn.functional as F
from torch import Tensor, nn


class SameConv(nn.Conv2d):
    """A 2-d convolution whose output has ceil(size / stride) rows and columns; an odd pixel of padding is
    added at the end."""

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        total = [max((-(-n // stride) - 1) * stride + kernel - n, 0) for n in (x.shape[3], x.shape[2])]
        return super().forward(F.pad(x, [side for t in total for side in (t // 2, t - t // 2)]))

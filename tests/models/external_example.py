"""A user's own module, for the tests of torch_module."""

import torch
from torch import nn


class Brightness(nn.Module):
    """Logits: the mean, and a learned offset."""

    def __init__(self, offset: float = 0.0):
        super().__init__()
        self.offset = nn.Parameter(torch.tensor(offset))

    def forward(self, x):
        mean = x.flatten(1).mean(1)
        return torch.stack([mean, self.offset + 0 * mean], 1)


def not_a_module():
    return 3

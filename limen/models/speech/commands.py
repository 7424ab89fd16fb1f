"""Classes and clip length of spoken-command classifiers: twelve classes, one second."""

import torch.nn.functional as F
from torch import Tensor

from limen.core.errors import UserError

RATE_HZ = 16_000
SAMPLES = 16_000
COMMANDS = ["silence", "unknown", "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go"]
"""Classes of the Speech Commands protocol (Warden 2018, https://arxiv.org/abs/1804.03209)."""


def one_second(x: Tensor) -> Tensor:
    """Clips (B, T) padded with silence to (B, 16000); raises a UserError for longer ones."""
    if x.shape[-1] > SAMPLES:
        raise UserError(
            f"This model takes clips of up to {SAMPLES} samples (1 s at 16 kHz), got {x.shape[-1]}. "
            "Cut the clips first."
        )
    return F.pad(x, (0, SAMPLES - x.shape[-1]))

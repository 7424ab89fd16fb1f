"""A small residual network for spoken commands: 40 MFCC, one convolution, three residual pairs of 45
channels.

Tang & Lin 2018, https://arxiv.org/abs/1710.10361 (res8; module names as in their code, Honk). Departs from
it: frames are not padded at the edges (98 instead of 101), and each coefficient is standardised over the
training clips, which speeds up training.
"""

from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor, nn

from limen.audio.mfcc import MFCC
from limen.models.base.model import Classes, Classifier, Model, ModelOptions, class_names
from limen.models.base.spec_augment import SpecAugment
from limen.models.speech.commands import COMMANDS, RATE_HZ, SAMPLES, one_second


class Res8(ModelOptions):
    small: ClassVar[dict[str, Any] | None] = {"width": 8}

    classes: Classes = COMMANDS
    """Number of classes, or their names."""
    width: int = Field(default=45, ge=1, le=65_536)
    """Channels of every convolution."""


class Res8Network(nn.Module):
    """Convolutions with ReLU; every second one adds the activations of two layers before; then batch
    normalisation without parameters."""

    def __init__(self, classes: int, width: int):
        super().__init__()
        self.features, self.spec_augment = MFCC(), SpecAugment()
        self.standard = nn.BatchNorm1d(40, affine=False)
        self.conv0 = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.pool = nn.AvgPool2d((4, 3))
        for i in range(1, 7):
            setattr(self, f"conv{i}", nn.Conv2d(width, width, 3, padding=1, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(width, affine=False))
        self.output = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.standard(self.spec_augment(self.features(one_second(x))).mT).mT.unsqueeze(1)
        x = before = self.pool(self.conv0(x).relu())
        for i in range(1, 7):
            x = getattr(self, f"conv{i}")(x).relu()
            if i % 2 == 0:
                x = before = x + before
            x = getattr(self, f"bn{i}")(x)
        return self.output(x.mean((2, 3)))


def res8(options: Res8) -> Model:
    classes = class_names(options.classes)
    return Classifier(
        Res8Network(len(classes), options.width), "clip", classes, rate_hz=RATE_HZ, shape=(SAMPLES,)
    )

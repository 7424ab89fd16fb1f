"""The spoken-command network of the Speech Commands baseline: 40 MFCC, two convolutions, one linear layer.

Sainath & Parada 2015 (cnn-trad-fpool3),
https://www.isca-archive.org/interspeech_2015/sainath15b_interspeech.html, in the version of Warden 2018,
https://arxiv.org/abs/1804.03209: conv 20x8 (time x coefficient) to 64, max-pool 2x2, conv 10x4 to 64, SAME
padding. Departs from that release: each coefficient is standardised over the training clips, and weights are
initialised as by He et al., instead of raw coefficients and a standard deviation of 0.01. Training then takes
hundreds of steps instead of 18,000.
"""

from pydantic import Field
from torch import Tensor, nn

from limen.audio.mfcc import MFCC
from limen.models.base.model import Classes, Classifier, Model, ModelOptions, class_names
from limen.models.base.spec_augment import SpecAugment
from limen.models.speech.commands import COMMANDS, RATE_HZ, SAMPLES, one_second


class KeywordCnn(ModelOptions):
    classes: Classes = COMMANDS
    """Number of classes, or their names."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Share of activations dropped after each convolution in training."""


class KeywordNetwork(nn.Module):
    def __init__(self, classes: int, dropout: float):
        super().__init__()
        self.features, self.spec_augment = MFCC(), SpecAugment()
        self.standard = nn.BatchNorm1d(40, affine=False)
        # left, right, top, bottom: SAME padding of an even kernel is one larger at the end
        self.pad1, self.conv1 = nn.ZeroPad2d((3, 4, 9, 10)), nn.Conv2d(1, 64, (20, 8))
        self.pad2, self.conv2 = nn.ZeroPad2d((1, 2, 4, 5)), nn.Conv2d(64, 64, (10, 4))
        self.linear = nn.Linear(49 * 20 * 64, classes)
        self.pool, self.dropout = nn.MaxPool2d(2), nn.Dropout(dropout)
        for layer in (self.conv1, self.conv2):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = self.standard(self.spec_augment(self.features(one_second(x))).mT).mT.unsqueeze(1)
        x = self.pool(self.dropout(self.conv1(self.pad1(x)).relu()))
        x = self.dropout(self.conv2(self.pad2(x)).relu())
        return self.linear(x.flatten(1))


def keyword_cnn(options: KeywordCnn) -> Model:
    classes = class_names(options.classes)
    return Classifier(
        KeywordNetwork(len(classes), options.dropout), "clip", classes, rate_hz=RATE_HZ, shape=(SAMPLES,)
    )

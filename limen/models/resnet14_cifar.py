"""CrAdv's residual network for CIFAR-10: 14 layers, 16 to 128 channels, pictures of 3x32x32.

He et al. 2016, https://arxiv.org/abs/1512.03385; weights files of CrAdv (resnet14_cifar.pth) load unchanged.
"""

from limen.models.base.cifar import CIFAR10
from limen.models.base.model import Classes, Classifier, Model, ModelOptions, Normalized, class_names
from limen.models.base.resnet14 import ResNet14


class Resnet14Cifar(ModelOptions):
    classes: Classes = CIFAR10
    """Number of classes, or their names."""


def resnet14_cifar(options: Resnet14Cifar) -> Model:
    classes = class_names(options.classes)
    network = ResNet14(channels_in=3, width=16, pool_padding=1, pooled=16, classes=len(classes))  # 8x8 -> 4x4
    return Classifier(Normalized(network, [0.5] * 3, [0.5] * 3), "picture", classes, shape=(3, 32, 32))

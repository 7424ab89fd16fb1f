"""CrAdv's residual network for MNIST and Fashion-MNIST: 14 layers, 8 to 64 channels, pictures of 28x28.

He et al. 2016, https://arxiv.org/abs/1512.03385; weights files of CrAdv (resnet14_mnist.pth) load unchanged.
"""

from limen.models.base.model import Classes, Classifier, Model, ModelOptions, Normalized, class_names
from limen.models.base.resnet14 import ResNet14


class Resnet14Mnist(ModelOptions):
    classes: Classes = 10
    """Number of classes, or their names."""


def resnet14_mnist(options: Resnet14Mnist) -> Model:
    classes = class_names(options.classes)
    network = ResNet14(channels_in=1, width=8, pool_padding=0, pooled=9, classes=len(classes))  # 7x7 -> 3x3
    return Classifier(Normalized(network, [0.5], [0.5]), "picture", classes, shape=(1, 28, 28))

"""The ten classes of CIFAR-10, in the order of its labels."""

CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]

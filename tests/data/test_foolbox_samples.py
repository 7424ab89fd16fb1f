import pytest
from PIL import Image

from limen.core.components import parse
from limen.core.errors import UserError


def dataset(path, **options):
    component, parsed = parse("data", {"name": "foolbox_samples", "path": str(path), **options})
    return component.function(parsed)


def test_the_class_is_the_number_at_the_end_of_the_name(tmp_path):
    for name in ("imagenet_00_243.jpg", "imagenet_01_7.jpg", "mnist_00_7.png"):
        Image.new("RGB", (64, 64), "white").save(tmp_path / name)
    data = dataset(tmp_path, order="file")
    assert [(s.id, s.y, tuple(s.x.shape)) for s in data] == [
        ("imagenet_00_243.jpg", 243, (3, 224, 224)),
        ("imagenet_01_7.jpg", 7, (3, 224, 224)),
    ]
    assert len(data.classes) == 1000
    (digit,) = dataset(tmp_path, of="mnist")
    assert (digit.y, tuple(digit.x.shape)) == (7, (1, 28, 28))


def test_a_folder_without_samples_comes_with_the_command(tmp_path):
    with pytest.raises(UserError, match="limen data get foolbox_samples"):
        dataset(tmp_path)


def test_there_is_only_the_split_test(tmp_path):
    with pytest.raises(UserError, match="split test"):
        dataset(tmp_path, split="train")

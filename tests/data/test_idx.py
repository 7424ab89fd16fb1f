import gzip
import struct

import numpy as np
import pytest
import torch

from limen.core.components import parse
from limen.core.errors import UserError


def dataset(name, **options):
    component, parsed = parse("data", {"name": name, **options})
    return component.function(parsed)


def idx(array, code=8):
    return (
        bytes([0, 0, code, array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.astype(np.uint8).tobytes()
    )


def write(folder, mark="-", packed=False, train=40, test=7, side=28):
    """A small MNIST: picture i is i everywhere, label i mod 10."""
    folder.mkdir(exist_ok=True)
    for part, count in (("train", train), ("t10k", test)):
        images = np.arange(count)[:, None, None] * np.ones((side, side), int)
        for kind, array in ((f"images{mark}idx3", images), (f"labels{mark}idx1", np.arange(count) % 10)):
            data = idx(array)
            (folder / f"{part}-{kind}-ubyte{'.gz' if packed else ''}").write_bytes(
                gzip.compress(data) if packed else data
            )
    return folder


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("packed", [False, True])
def test_pixels_and_labels_are_those_of_the_files(tmp_path, name, mark, packed):
    data = dataset(name, path=str(write(tmp_path, mark, packed)), order="file")
    assert (len(data), data.shape, len(data.classes)) == (7, (1, 28, 28), 10)
    for i, sample in enumerate(data):
        assert (sample.id, sample.y) == (f"t10k/{i:05d}", i % 10)
        torch.testing.assert_close(sample.x, torch.full((1, 28, 28), i / 255))


def test_train_and_valid_part_the_training_pictures(tmp_path):
    write(tmp_path)
    train, valid = (dataset("mnist", path=str(tmp_path), split=s) for s in ("train", "valid"))
    ids = [sample.id for data in (train, valid) for sample in data]
    assert (len(train), len(valid), len(set(ids))) == (36, 4, 40)
    assert {sample.id for sample in valid} == {f"train/{i:05d}" for i in range(36, 40)}


def test_a_limit_is_the_beginning_of_the_same_order(tmp_path):
    write(tmp_path)
    everything, some = dataset("mnist", path=str(tmp_path)), dataset("mnist", path=str(tmp_path), limit=3)
    assert [s.id for s in some] == [s.id for s in everything][:3]


def refused(folder, *words, **options):
    with pytest.raises(UserError) as caught:
        dataset("mnist", path=str(folder), **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_folders_that_do_not_serve_are_named(tmp_path):
    refused(tmp_path / "nowhere", "nowhere", "limen data get mnist")
    refused(tmp_path, "t10k-images-idx3-ubyte", str(tmp_path))
    (tmp_path / "file").write_text("x")
    refused(tmp_path / "file", "a file")


def test_damaged_files_are_named_with_the_reason(tmp_path):
    images, labels = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
    good = {name: (write(tmp_path) / name).read_bytes() for name in (images, labels)}
    for number, (name, data, word) in enumerate(
        [
            (images, good[images][:-1], "promises"),
            (images, good[images] + b"x", "promises"),
            (images, b"", "empty"),
            (images, good[labels], "begin"),
            (images, b"\x00\x00\x0d\x03" + good[images][4:], "begin"),
            (labels, idx(np.arange(6)), "6 labels"),
            (labels, idx(np.full(7, 10)), "0..9"),
        ]
    ):
        folder = write(tmp_path / str(number))
        (folder / name).write_bytes(data)
        refused(folder, name, word)


def test_a_truncated_gz_file_is_named(tmp_path):
    write(tmp_path, packed=True)
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-20])
    refused(tmp_path, path.name, "cannot be read")


def test_data_that_was_never_fetched_comes_with_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    with pytest.raises(UserError, match="limen data get mnist"):
        dataset("mnist")

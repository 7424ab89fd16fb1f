import os
import pickle

import numpy as np
import pytest
import torch

from limen.core.components import parse
from limen.core.errors import UserError


def dataset(**options):
    component, parsed = parse("data", {"name": "cifar10", **options})
    return component.function(parsed)


def batches(count=6):
    """name -> (pixels (N, 3072), labels)."""
    random = np.random.default_rng(0)
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
    return {
        name: (random.integers(0, 256, (count, 3072), np.uint8), random.integers(0, 10, count).tolist())
        for name in names
    }


def write_binary(folder, data):
    for name, (pixels, labels) in data.items():
        (folder / f"{name}.bin").write_bytes(
            np.concatenate([np.array(labels, np.uint8)[:, None], pixels], 1).tobytes()
        )


def write_python(folder, data, protocol=2):
    for name, (pixels, labels) in data.items():
        (folder / name).write_bytes(
            pickle.dumps({b"data": pixels, b"labels": labels, b"batch_label": b"a batch"}, protocol=protocol)
        )


@pytest.mark.parametrize("write", [write_binary, write_python])
def test_pixels_come_plane_by_plane(tmp_path, write):
    data = batches()
    write(tmp_path, data)
    read = dataset(path=str(tmp_path), order="file")
    pixels, labels = data["test_batch"]
    assert [sample.y for sample in read] == labels
    batch = read.all()
    assert torch.equal(batch.x, torch.from_numpy(pixels.reshape(-1, 3, 32, 32)).float() / 255)
    assert (
        read.classes[labels[0]]
        == ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"][
            labels[0]
        ]
    )


@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_every_pickle_protocol_gives_what_the_binary_form_gives(tmp_path, protocol):
    data = batches()
    for sub, write in (("bin", write_binary), ("py", lambda f, d: write_python(f, d, protocol))):
        (tmp_path / sub).mkdir()
        write(tmp_path / sub, data)
    for split in ("train", "valid", "test"):
        a, b = (dataset(path=str(tmp_path / sub), split=split).all() for sub in ("bin", "py"))
        assert a.ids == b.ids
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)


def test_the_published_folder_name_is_found_below(tmp_path):
    (tmp_path / "cifar-10-batches-bin").mkdir()
    write_binary(tmp_path / "cifar-10-batches-bin", batches())
    assert (
        len(dataset(path=str(tmp_path), split="train")),
        len(dataset(path=str(tmp_path), split="valid")),
    ) == (27, 3)


class Bomb:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def refused(folder, *words, split="test"):
    with pytest.raises(UserError) as caught:
        dataset(path=str(folder), split=split)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_code_in_a_pickle_is_refused_and_does_not_run(tmp_path):
    write_python(tmp_path, batches())
    (tmp_path / "test_batch").write_bytes(
        pickle.dumps({b"data": Bomb(str(tmp_path / "harm")), b"labels": []})
    )
    refused(tmp_path, "test_batch", "mkdir")
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({b"data": 1}),
        pickle.dumps({b"data": np.zeros((2, 5), np.uint8), b"labels": [1, 2]}),
        pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, 10]}),
    ],
)
def test_pickles_that_are_no_batches_are_named(tmp_path, data):
    (tmp_path / "test_batch").write_bytes(data)
    refused(tmp_path, str(tmp_path))


@pytest.mark.parametrize("cut", [0, 1, 3072])
def test_truncated_binary_files_are_named(tmp_path, cut):
    write_binary(tmp_path, batches())
    path = tmp_path / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:cut])
    refused(tmp_path, path.name)


def test_a_missing_batch_is_named(tmp_path):
    write_binary(tmp_path, batches())
    (tmp_path / "data_batch_3.bin").unlink()
    refused(tmp_path, "data_batch_3.bin", split="train")


def test_folders_that_do_not_serve_are_named(tmp_path):
    refused(tmp_path, "test_batch", "limen data get cifar10")
    refused(tmp_path / "nowhere", "nowhere")

import numpy as np
import pytest
import torch
from PIL import Image

from limen.core.components import parse
from limen.core.errors import UserError
from limen.data.image_folder import read_square


def dataset(path, **options):
    component, parsed = parse(
        "data", {"name": "image_folder", "path": str(path), "size": 8, "resize": 8, **options}
    )
    return component.function(parsed)


def picture(path, colour=(200, 100, 50), size=(8, 8), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).convert(mode).save(path)
    return path


def layout(folder):
    for split, count in (("train", 3), ("val", 2)):
        for name, colour in (("cat", (255, 0, 0)), ("ape", (0, 255, 0))):
            for i in range(count):
                picture(folder / split / name / f"{i}.png", colour)
    return folder


def test_folders_are_classes_and_val_serves_as_test(tmp_path):
    layout(tmp_path)
    data = dataset(tmp_path)
    assert (data.classes, len(data), len(dataset(tmp_path, split="train"))) == (["ape", "cat"], 4, 6)
    for sample in data:
        assert sample.id.startswith(f"val/{data.classes[sample.y]}/")
        assert sample.x[:, 0, 0].tolist() == ([0, 1, 0] if sample.y == 0 else [1, 0, 0])


def test_without_split_folders_a_hash_parts_the_files(tmp_path):
    for i in range(60):
        picture(tmp_path / "a" / f"{i}.png")
    parts = [[s.id for s in dataset(tmp_path, split=split)] for split in ("train", "valid", "test")]
    assert sorted(name for part in parts for name in part) == sorted(f"a/{i}.png" for i in range(60))
    assert len(parts[0]) > len(parts[2]) > 0


def test_class_names_give_the_order_and_may_name_absent_classes(tmp_path):
    layout(tmp_path)
    data = dataset(tmp_path, class_names=["dog", "cat", "ape"])
    assert {data.classes[s.y] for s in data} == {"cat", "ape"}
    assert {s.y for s in data} == {1, 2}
    with pytest.raises(UserError, match="ape"):
        dataset(tmp_path, class_names=["cat"])


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "CMYK", "RGBA", "LA", "1"])
def test_every_colour_mode_becomes_rgb(tmp_path, mode):
    ending = "tif" if mode == "CMYK" else "png"
    x = read_square(picture(tmp_path / f"a.{ending}", (255, 255, 255), mode=mode), 8, 8)
    assert x.shape == (3, 8, 8)
    torch.testing.assert_close(x, torch.ones(3, 8, 8), atol=0.01, rtol=0)


def test_what_is_transparent_shows_white(tmp_path):
    Image.fromarray(np.zeros((8, 8, 4), np.uint8)).save(tmp_path / "a.png")
    assert torch.equal(read_square(tmp_path / "a.png", 8, 8), torch.ones(3, 8, 8))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_sixteen_bit_grey_keeps_its_precision_and_its_range_when_resized(tmp_path, interpolation):
    Image.fromarray(np.full((8, 8), 51200, np.uint16)).save(tmp_path / "a.png")
    torch.testing.assert_close(
        read_square(tmp_path / "a.png", 8, 8, interpolation), torch.full((3, 8, 8), 51200 / 65535)
    )
    Image.fromarray(np.kron([[0, 65535]], np.ones((8, 4))).astype(np.uint16)).save(tmp_path / "edge.png")
    x = read_square(tmp_path / "edge.png", 20, 20, interpolation)
    assert (float(x.min()), float(x.max())) == (0.0, 1.0)


def test_the_centre_is_cut_out(tmp_path):
    pixels = np.arange(16 * 10 * 3, dtype=np.uint8).reshape(10, 16, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    x = read_square(tmp_path / "a.png", 6, 10)  # the shorter side has 10 already
    assert torch.equal(
        (x * 255).round().to(torch.uint8), torch.from_numpy(pixels[2:8, 5:11]).permute(2, 0, 1)
    )


@pytest.mark.parametrize("size", [(300, 500), (500, 300), (17, 400), (7, 9)])
def test_any_size_becomes_the_size_asked_for(tmp_path, size):
    assert read_square(picture(tmp_path / "a.png", size=size), 24, 32).shape == (3, 24, 24)


def test_bad_pictures_are_named(tmp_path):
    good = picture(tmp_path / "good.jpg", size=(200, 200)).read_bytes()
    Image.fromarray(np.full((8, 8), np.nan, np.float32)).save(tmp_path / "nan.tif")
    for name, data in {
        "empty.png": b"",
        "text.png": b"hello" * 100,
        "cut.jpg": good[: len(good) // 2],
    }.items():
        (tmp_path / name).write_bytes(data)
    for name in ("empty.png", "text.png", "cut.jpg", "nan.tif", "absent.png"):
        with pytest.raises(UserError, match=name):
            read_square(tmp_path / name, 8, 8)


def test_bad_files_stop_or_are_skipped_and_counted(tmp_path):
    layout(tmp_path)
    (tmp_path / "val" / "cat" / "bad.png").write_bytes(b"")
    with pytest.raises(UserError, match=r"bad\.png"):
        list(dataset(tmp_path))
    data = dataset(tmp_path, bad_files="skip")
    assert len(list(data)) == 4
    assert len(data.skipped) == 1
    assert "bad.png" in data.skipped[0]


def test_folders_that_do_not_serve_are_named(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty" / "a").mkdir(parents=True)
    (tmp_path / "parts" / "train" / "a").mkdir(parents=True)
    for path, word in (
        (tmp_path / "no", "does not exist"),
        (tmp_path / "file", "a file"),
        (tmp_path / "empty", "no file"),
        (tmp_path / "empty" / "a", "class folders"),
        (tmp_path / "parts", "no folder for the split test"),
    ):
        with pytest.raises(UserError, match=word):
            dataset(path)


def test_a_cut_larger_than_the_picture_is_refused(tmp_path):
    with pytest.raises(UserError, match="resize"):
        dataset(tmp_path, size=224, resize=100)

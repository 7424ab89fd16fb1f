"""A picture file has the same pixels wherever Limen reads it."""

import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

import limen
from limen.core.errors import UserError
from limen.data.image_folder import read_square
from limen.images.files import open_picture, read_picture, write_picture
from limen.measure.pairs import measure_files


def imported(path, clean):
    """The file as the attack `imported` takes it from a table."""
    table = path.with_suffix(".csv")
    table.write_text(f"id,adversarial\n0,{path.name}\n")
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(clean.numel(), 2))
    return limen.attack("imported", net, (clean[None], [0]), table=str(table)).x_adv[0]


def saved(path, pixels, **options):
    Image.fromarray(pixels).save(path, **options)
    return path


def files(tmp_path):
    """One awkward file of each kind, all 8 x 8, and the pixels (C, 8, 8) that it has."""
    rng = np.random.default_rng(0)
    deep = rng.integers(0, 65536, (8, 8)).astype(np.uint16)
    veil = rng.integers(0, 256, (8, 8, 4)).astype(np.uint8)
    alpha = veil[..., 3:].astype(np.float64) / 255
    on_white = alpha * veil[..., :3] + (1 - alpha) * 255
    colour = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    return {
        "sixteen bits": (saved(tmp_path / "deep.png", deep), torch.from_numpy(deep / 65535)[None].float()),
        "transparency": (
            saved(tmp_path / "veil.png", veil),
            torch.from_numpy(on_white / 255).permute(2, 0, 1).float(),
        ),
        "turned": (
            saved(tmp_path / "turned.png", colour, exif=exif),
            torch.from_numpy(np.rot90(colour, -1) / 255).permute(2, 0, 1).float(),
        ),
        "grey": (
            saved(tmp_path / "grey.png", colour[..., 0]),
            torch.from_numpy(colour[..., 0] / 255)[None].float(),
        ),
    }


KINDS = ["sixteen bits", "transparency", "turned", "grey"]


@pytest.mark.parametrize("kind", KINDS)
def test_data_pairs_and_imported_samples_have_the_same_pixels(tmp_path, kind):
    path, pixels = files(tmp_path)[kind]
    within = (
        1.01 / 255 if kind == "transparency" else 1e-6
    )  # of transparent pixels PIL rounds the mixture to 8 bits
    torch.testing.assert_close(read_picture(path), pixels, atol=within, rtol=0)
    in_colour = read_picture(path, 3)
    assert in_colour.shape == (3, 8, 8)
    assert torch.equal(read_square(path, 8, 8), in_colour), "a data set"
    assert measure_files(path, path).rows[0]["l2"] == 0
    assert torch.equal(imported(path, in_colour), in_colour), "an imported sample"


def png16(path, samples, colour_type, transparent=b""):
    """A PNG of 16 bits, of which Pillow writes grey alone: (H, W, channels)."""
    lines = b"".join(b"\0" + row.astype(">u2").tobytes() for row in samples)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", samples.shape[1], samples.shape[0], 16, colour_type, 0, 0, 0)),
        *([(b"tRNS", transparent)] if transparent else []),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    ]
    content = b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    return path


@pytest.mark.parametrize(
    ("kind", "channels", "notes"),
    [
        (0, 1, []),
        (2, 3, ["16 bits of colour read as 8"]),
        (4, 2, ["16 bits of colour read as 8", "transparency shown on white"]),
        (6, 4, ["16 bits of colour read as 8", "transparency shown on white"]),
    ],
)
def test_sixteen_bits_of_colour_are_cut_to_8_and_that_is_told(tmp_path, kind, channels, notes):
    samples = np.random.default_rng(0).integers(0, 65536, (8, 8, channels)).astype(np.uint16)
    samples[..., -1] = 65535 if channels in (2, 4) else samples[..., -1]
    path = png16(tmp_path / "deep.png", samples, kind)
    assert open_picture(path)[1] == notes
    assert measure_files(path, path).rows[0]["note"] == "; ".join(notes)
    exact = torch.from_numpy(samples[..., : 3 if channels > 2 else 1] / 65535).permute(2, 0, 1).float()
    torch.testing.assert_close(
        read_picture(path, 1 if channels < 3 else 3)[: len(exact)],
        exact,
        atol=1.01 / 255 if notes else 1e-6,
        rtol=0,
    )


@pytest.mark.parametrize(("head", "told"), [(b"P6 4 4 65535\n", True), (b"P6 4 4 255\n", False)])
def test_portable_pixmaps_of_16_bits_are_told_too(tmp_path, head, told):
    (tmp_path / "deep.ppm").write_bytes(head + bytes(96 if told else 48))
    assert open_picture(tmp_path / "deep.ppm")[1] == (["16 bits of colour read as 8"] if told else [])


def test_the_transparent_value_of_16_bits_of_grey_is_shown_on_white(tmp_path):
    samples = (np.arange(64, dtype=np.uint16) * 1000).reshape(8, 8, 1)
    path = png16(tmp_path / "veil.png", samples, 0, struct.pack(">H", 3000))
    expected = torch.from_numpy(samples[..., 0] / 65535)[None].float()
    expected[0, 0, 3] = 1
    assert open_picture(path)[1] == ["transparency shown on white"]
    torch.testing.assert_close(read_picture(path), expected, atol=1e-6, rtol=0)


def test_what_was_written_reads_back_on_the_8_bit_grid(tmp_path):
    for channels in (1, 3):
        x = (
            torch.randint(0, 256, (channels, 5, 7), generator=torch.Generator().manual_seed(channels)).float()
            / 255
        )
        write_picture(tmp_path / "x.png", x)
        assert torch.equal(read_picture(tmp_path / "x.png"), x)


def test_a_file_that_is_no_picture_is_named_with_what_it_is(tmp_path):
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("hello")
    saved(tmp_path / "float.tif", np.zeros((4, 4), np.float32))
    for name, reason in (
        ("empty.png", "0 bytes"),
        ("text.png", "no known format"),
        ("float.tif", "8 or 16 bits"),
        (".", "is a folder"),
        ("none.png", "no such file"),
    ):
        with pytest.raises(UserError, match=reason) as error:
            read_picture(tmp_path / name)
        assert str(tmp_path / name) in str(error.value)


def test_a_picture_larger_than_memory_is_refused_by_its_header(tmp_path):
    for side, words in (
        (9_000, r"its header declares 9,000 x 9,000 pixels; at most 50,000,000 are read"),
        (30_000, "900000000 pixels"),
    ):
        Image.new("1", (side, side)).save(tmp_path / "bomb.png")
        assert (tmp_path / "bomb.png").stat().st_size < 200_000
        with pytest.raises(UserError, match=rf"bomb\.png: .*{words}"):
            read_picture(tmp_path / "bomb.png")


def test_no_reader_that_starts_programs_is_asked(tmp_path):
    (tmp_path / "a.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n")
    with pytest.raises(UserError, match="it has no known format"):
        read_picture(tmp_path / "a.png")

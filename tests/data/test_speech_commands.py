import hashlib
import math
import re
import warnings

import pytest
import torch

from limen.audio.files import write_clip
from limen.core.components import parse
from limen.core.errors import UserError
from limen.data.speech_commands import official_split

SPEAKERS = [f"{i:08x}" for i in range(0, 400, 7)]


def dataset(path, **options):
    component, parsed = parse("data", {"name": "speech_commands", "path": str(path), **options})
    return component.function(parsed)


def layout(folder, noise=True, frames=16000):
    for word in ("yes", "no", "go", "bed", "cat"):
        for k, speaker in enumerate(SPEAKERS):
            write_clip(folder / word / f"{speaker}_nohash_{k % 3}.wav", torch.full((frames,), 0.25), 16000)
    if noise:
        write_clip(
            folder / "_background_noise_" / "hum.wav",
            torch.sin(torch.arange(48000, dtype=torch.float64) / 5),
            16000,
        )
        write_clip(folder / "_background_noise_" / "short.wav", torch.full((5000,), 0.5), 16000)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return layout(tmp_path_factory.mktemp("commands"))


def test_the_split_is_the_authors():
    def theirs(
        filename,
    ):  # as the paper's section 7 tells it: hash of the name without what follows _nohash_, as a percentage
        number = int(hashlib.sha1(re.sub(r"_nohash_.*$", "", filename).encode("utf-8")).hexdigest(), 16) % (
            2**27
        )
        percentage = number * (100.0 / (2**27 - 1))
        return "valid" if percentage < 10 else "test" if percentage < 20 else "train"

    for i in range(2000):
        assert official_split(f"{i:08x}_nohash_{i % 5}") == theirs(f"{i:08x}_nohash_{i % 5}.wav")
    # from the published lists of version 1: testing_list.txt and validation_list.txt
    assert official_split("0c40e715_nohash_0") == "test"
    assert official_split("026290a7_nohash_0") == "valid"


def test_classes_and_shares_are_those_of_the_task(folder):
    for split in ("train", "valid", "test"):
        data = dataset(folder, split=split)
        assert data.classes == [
            "silence",
            "unknown",
            "yes",
            "no",
            "up",
            "down",
            "left",
            "right",
            "on",
            "off",
            "stop",
            "go",
        ]
        names = [data.classes[s.y] for s in data]
        words = sum(official_split(f"{s}_nohash_0") == split for s in SPEAKERS) * 3
        assert words > 0
        assert [names.count(n) for n in ("yes", "no", "go")] == [words // 3] * 3
        assert names.count("silence") == names.count("unknown") == -(-words // 10)


def test_a_speaker_is_in_one_split_only(folder):
    speakers = [
        {s.id.split("/")[1].split("_")[0] for s in dataset(folder, split=split, silence_percent=0)}
        for split in ("train", "valid", "test")
    ]
    assert len(set.union(*speakers)) == sum(map(len, speakers))


def test_silence_is_cut_from_the_noise_and_always_the_same(folder):
    first, again = (
        [s for s in dataset(folder, split="train", silence_percent=50) if s.y == 0] for _ in range(2)
    )
    assert len(first) > 20
    for a, b in zip(first, again, strict=True):
        assert a.id == b.id
        assert torch.equal(a.x, b.x)
        assert a.x.shape == (16000,)
        tail = a.x[5000:].double()
        # a piece of the tone, scaled: x[t+1] + x[t-1] = 2 cos(1/5) x[t]; or the short recording, filled with
        # zeros
        assert (
            bool((tail == 0).all())
            or (tail[2:] + tail[:-2] - 2 * math.cos(1 / 5) * tail[1:-1]).abs().max() < 2e-4
        )
        assert 0 <= a.x.abs().max() <= 1
    assert len({float(s.x.abs().max()) for s in first}) > 10


@pytest.mark.parametrize(("frames", "expected"), [(9000, 9000), (20000, 16000)])
def test_every_clip_has_one_second(tmp_path, frames, expected):
    write_clip(tmp_path / "yes" / "a_nohash_0.wav", torch.full((frames,), 0.25), 16000)
    (sample,) = dataset(tmp_path, split=official_split("a"), silence_percent=0)
    assert sample.x.shape == (16000,)
    assert int((sample.x == 0.25).sum()) == expected


def test_without_background_noise_a_warning_says_that_there_is_no_silence(tmp_path):
    layout(tmp_path, noise=False, frames=100)
    with pytest.warns(UserWarning, match="no samples of silence"):
        data = dataset(tmp_path)
    assert 0 not in {s.y for s in data}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset(tmp_path, silence_percent=0)


def test_a_bad_file_stops_or_is_skipped(tmp_path):
    layout(tmp_path, frames=100)
    speaker = next(s for s in SPEAKERS if official_split(s) == "test")
    (tmp_path / "yes" / f"{speaker}_nohash_9.wav").write_bytes(b"")
    with pytest.raises(UserError, match="empty"):
        list(dataset(tmp_path))
    data = dataset(tmp_path, bad_files="skip")
    assert len(list(data)) == len(data) - 1
    assert len(data.skipped) == 1


def test_folders_that_do_not_serve_are_named(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        dataset(tmp_path / "no")
    with pytest.raises(UserError, match="no file of the words"):
        dataset(tmp_path)

import pytest
import torch

from limen.audio.files import write_clip
from limen.core.components import parse
from limen.core.errors import UserError


def dataset(path, **options):
    component, parsed = parse("data", {"name": "clip_folder", "path": str(path), **options})
    return component.function(parsed)


def layout(folder, splits=("train", "valid", "test")):
    for split in splits:
        for k, name in enumerate(("bark", "meow")):
            for i in range(2):
                write_clip(folder / split / name / f"{i}.wav", torch.full((100 + 50 * i,), k / 4), 16000)
    return folder


def test_clips_keep_their_own_lengths(tmp_path):
    batch = dataset(layout(tmp_path), order="file").all()
    assert batch.ids == ["test/bark/0.wav", "test/bark/1.wav", "test/meow/0.wav", "test/meow/1.wav"]
    assert batch.lengths.tolist() == [100, 150, 100, 150]
    assert batch.y.tolist() == [0, 0, 1, 1]
    assert torch.equal(batch.x[2], torch.cat([torch.full((100,), 0.25), torch.zeros(50)]))


def test_a_duration_cuts_and_fills_at_the_end(tmp_path):
    data = dataset(layout(tmp_path), duration_s=120 / 16000)
    assert data.shape == (120,)
    for sample in data:
        real = 100 if sample.id.endswith("0.wav") else 120
        assert torch.equal(sample.x, torch.cat([torch.full((real,), sample.y / 4), torch.zeros(120 - real)]))


def test_the_rate_is_the_one_asked_for(tmp_path):
    data = dataset(layout(tmp_path), rate_hz=8000, order="file")
    assert data.rate_hz == 8000
    assert [len(s.x) for s in data] == [50, 75, 50, 75]


def test_fractions_part_a_folder_without_splits(tmp_path):
    for i in range(40):
        write_clip(tmp_path / "a" / f"{i}.wav", torch.zeros(10), 16000)
    assert len(dataset(tmp_path, valid_fraction=0, test_fraction=1)) == 40
    parts = [
        len(dataset(tmp_path, split=s, valid_fraction=0.3, test_fraction=0.3))
        for s in ("train", "valid", "test")
    ]
    assert sum(parts) == 40
    assert min(parts) > 4
    with pytest.raises(UserError, match="valid_fraction"):
        dataset(tmp_path, valid_fraction=0.6, test_fraction=0.6)


def test_bad_files_stop_or_are_skipped_and_counted(tmp_path):
    layout(tmp_path)
    good = (tmp_path / "test" / "bark" / "0.wav").read_bytes()
    (tmp_path / "test" / "bark" / "cut.wav").write_bytes(good[:-9])
    (tmp_path / "test" / "bark" / "empty.flac").write_bytes(b"")
    with pytest.raises(UserError):
        list(dataset(tmp_path))
    data = dataset(tmp_path, bad_files="skip")
    assert data.all().ids and len(data.skipped) == 2  # noqa: PT018
    assert any("cut.wav" in reason for reason in data.skipped)


def test_a_data_set_without_one_readable_clip_says_so(tmp_path):
    (tmp_path / "test" / "a").mkdir(parents=True)
    (tmp_path / "test" / "a" / "x.wav").write_bytes(b"")
    with pytest.raises(UserError, match=r"no readable sample.*x\.wav"):
        dataset(tmp_path, bad_files="skip").all()

import struct

import numpy as np
import pytest
import soundfile
import torch

from limen.attacks.engine.storage import quantise
from limen.audio.files import clip_header, read_clip, write_clip
from limen.core.errors import UserError


def noise(frames, seed=0):
    return (
        torch.rand(frames, generator=torch.Generator().manual_seed(seed)) * 2.2 - 1.1
    )  # also beyond full scale


def test_what_is_written_reads_back_exactly_as_stored_in_16_bits(tmp_path):
    x = noise(5000)
    write_clip(tmp_path / "deep" / "a.wav", x, 16000)
    assert torch.equal(read_clip(tmp_path / "deep" / "a.wav", 16000), quantise(x, "int16"))
    assert soundfile.info(tmp_path / "deep" / "a.wav").subtype == "PCM_16"


@pytest.mark.parametrize("ending", ["wav", "flac"])
def test_every_16_bit_value_survives_a_round_trip(tmp_path, ending):
    x = torch.arange(-32768, 32768) / 32768
    write_clip(tmp_path / f"all.{ending}", x, 8000)
    assert torch.equal(read_clip(tmp_path / f"all.{ending}", 8000), x)
    info = soundfile.info(tmp_path / f"all.{ending}")
    assert (info.format, info.subtype) == (ending.upper(), "PCM_16")
    assert clip_header(tmp_path / f"all.{ending}") == (8000, 1)


@pytest.mark.parametrize(
    ("form", "subtype"),
    [("WAV", "PCM_16"), ("WAV", "PCM_24"), ("WAV", "FLOAT"), ("FLAC", "PCM_16"), ("AIFF", "PCM_16")],
)
def test_lossless_formats_give_the_samples(tmp_path, form, subtype):
    x = quantise(noise(3000).clamp(-0.9, 0.9), "int16")
    soundfile.write(tmp_path / f"a.{form.lower()}", x.numpy(), 16000, format=form, subtype=subtype)
    torch.testing.assert_close(read_clip(tmp_path / f"a.{form.lower()}", 16000), x, atol=1e-7, rtol=0)


@pytest.mark.parametrize("form", ["OGG", "MP3"])
def test_lossy_formats_give_nearly_the_samples(tmp_path, form):
    t = torch.arange(16000) / 16000
    x = 0.5 * torch.sin(2 * torch.pi * 440 * t)
    soundfile.write(tmp_path / f"a.{form.lower()}", x.numpy(), 16000, format=form)
    y = read_clip(tmp_path / f"a.{form.lower()}", 16000)
    assert y.dtype == torch.float32
    assert abs(float(y[4000:12000].norm() / x[4000:12000].norm()) - 1) < 0.02


def test_channels_are_averaged(tmp_path):
    left, right = noise(1000, 1) / 2, noise(1000, 2) / 2
    soundfile.write(tmp_path / "a.wav", torch.stack([left, right], 1).numpy(), 16000, subtype="FLOAT")
    torch.testing.assert_close(read_clip(tmp_path / "a.wav", 16000), (left + right) / 2)


def test_any_rate_becomes_the_rate_asked_for(tmp_path):
    t = torch.arange(44100) / 44100
    soundfile.write(
        tmp_path / "a.wav", (0.5 * torch.sin(2 * torch.pi * 440 * t)).numpy(), 44100, subtype="FLOAT"
    )
    y = read_clip(tmp_path / "a.wav", 16000)
    assert y.shape == (16000,)
    expected = 0.5 * torch.sin(2 * torch.pi * 440 * torch.arange(16000) / 16000)
    torch.testing.assert_close(y[500:-500], expected[500:-500], atol=2e-4, rtol=0)


def refused(path, *words):
    with pytest.raises(UserError) as caught:
        read_clip(path, 16000)
    assert all(word in str(caught.value) for word in (str(path), *words)), str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    refused(tmp_path / "no.wav", "no such file")


def test_a_folder_is_not_a_file(tmp_path):
    refused(tmp_path, "is a folder")


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"")
    refused(tmp_path / "a.wav", "empty")


def test_a_file_that_is_not_audio_is_refused(tmp_path):
    (tmp_path / "a.wav").write_bytes(b"hello, I am a letter" * 50)
    refused(tmp_path / "a.wav", "cannot be decoded")


@pytest.mark.parametrize("keep", [20, 50, 1000, 2043])
def test_a_truncated_wav_file_is_refused(tmp_path, keep):
    write_clip(tmp_path / "a.wav", noise(1000), 16000)  # 44 bytes of header and 2000 of samples
    (tmp_path / "a.wav").write_bytes((tmp_path / "a.wav").read_bytes()[:keep])
    refused(tmp_path / "a.wav")


def test_a_truncated_flac_file_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.flac", noise(40000).clamp(-1, 1).numpy(), 16000)
    (tmp_path / "a.flac").write_bytes((tmp_path / "a.flac").read_bytes()[:30000])
    refused(tmp_path / "a.flac")


def test_a_stream_that_did_not_know_its_length_is_read(tmp_path):
    write_clip(tmp_path / "a.wav", noise(1000), 16000)
    data = bytearray((tmp_path / "a.wav").read_bytes())
    data[4:8] = data[40:44] = struct.pack("<I", 0xFFFFFFFF)
    (tmp_path / "a.wav").write_bytes(data)
    assert len(read_clip(tmp_path / "a.wav", 16000)) == 1000


def test_a_file_without_samples_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(0, np.float32), 16000)
    refused(tmp_path / "a.wav", "no samples")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_samples_that_are_not_finite_are_refused(tmp_path, value):
    x = noise(100).numpy()
    x[50] = value
    soundfile.write(tmp_path / "a.wav", x, 16000, subtype="FLOAT")
    refused(tmp_path / "a.wav", "NaN or infinite")


def test_floats_on_another_scale_are_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", noise(100).numpy() * 32768, 16000, subtype="FLOAT")
    refused(tmp_path / "a.wav", "[-1, 1]")


def test_a_clip_to_write_must_be_finite_and_one_dimensional(tmp_path):
    for x in (torch.tensor([0.0, float("nan")]), torch.zeros(2, 10)):
        with pytest.raises(UserError, match="shape"):
            write_clip(tmp_path / "a.wav", x, 16000)
    assert not (tmp_path / "a.wav").exists()


def test_a_header_that_promises_more_than_fits_is_refused_before_memory_is_asked_for(tmp_path):
    soundfile.write(tmp_path / "a.flac", np.zeros(4000), 16000)
    raw = bytearray((tmp_path / "a.flac").read_bytes())
    raw[21:26] = bytes(
        [raw[21] | 0x0F, 255, 255, 255, 255]
    )  # STREAMINFO: 2^36 - 1 samples, 256 GiB as floats
    (tmp_path / "a.flac").write_bytes(raw)
    with pytest.raises(
        UserError,
        match=r"a\.flac: its header declares 68,719,476,735 frames of 1 channels; at most 67,108,864",
    ):
        read_clip(tmp_path / "a.flac", 16000)


def test_a_rate_that_no_kernel_can_bring_to_another_is_refused(tmp_path):
    soundfile.write(tmp_path / "a.wav", np.zeros(4000), 767_999)
    with pytest.raises(UserError, match="at 767,999 Hz cannot be brought to 16,000 Hz"):
        read_clip(tmp_path / "a.wav", 16000)
    soundfile.write(tmp_path / "b.wav", np.zeros(4000), 1)
    with pytest.raises(UserError, match="at most 134,217,728 samples are made"):
        read_clip(tmp_path / "b.wav", 192_001)

import numpy as np
import pytest
import torch
from scipy.signal import correlate

from limen.audio.codecs import mp3, mu_law, quantise, vorbis
from limen.audio.synthesis import speak
from limen.core.errors import UserError


def speech(rate_hz):
    return torch.from_numpy(speak("seven three five", "en-us+m3", rate_hz=rate_hz))


def snr(x, y):
    return float(10 * torch.log10(x.square().sum() / (y - x).square().sum()))


@pytest.mark.parametrize(
    ("rate_hz", "kbps"),
    [
        (8000, 8),
        (8000, 64),
        (16_000, 16),
        (16_000, 32),
        (16_000, 64),
        (16_000, 128),
        (44_100, 32),
        (44_100, 128),
    ],
)
def test_what_comes_out_of_mp3_stands_where_it_went_in(rate_hz, kbps):
    x = speech(rate_hz)
    y = mp3(x, rate_hz, kbps)
    assert y.shape == x.shape
    lag = correlate(y.numpy(), x.numpy(), "full").argmax() - (len(x) - 1)
    assert lag == 0
    assert snr(x, y) > 5


def test_fewer_bits_per_second_leave_more_noise():
    x = speech(16_000)
    quality = [snr(x, mp3(x, 16_000, kbps)) for kbps in (8, 16, 32, 64, 128)]
    assert quality == sorted(quality)
    assert quality[0] < 12
    assert quality[-1] > 25  # with the encoder's factor of 0.95 left in it could not pass 26


def test_mp3_treats_each_clip_alone_and_leaves_padding_silent():
    x = speech(16_000)[:16_000]
    batch = torch.zeros(2, 20_000, dtype=torch.float64)
    batch[0, :16_000], batch[1, :9000] = x.double(), x[:9000].double()
    y = mp3(batch, 16_000, 32, torch.tensor([16_000, 9000]))
    assert y.dtype == torch.float64
    torch.testing.assert_close(y[0, :16_000].float(), mp3(x, 16_000, 32))
    torch.testing.assert_close(y[1, :9000].float(), mp3(x[:9000], 16_000, 32))
    assert y[0, 16_000:].abs().max() == 0 == y[1, 9000:].abs().max()


def test_vorbis_aligns_too():
    x = speech(16_000)
    y = vorbis(x, 16_000, 0.3)
    assert snr(x, y) > 20
    assert snr(x, vorbis(x, 16_000, 1.0)) < snr(x, y)


def test_even_three_samples_and_silence_pass_the_encoders():
    for code in (mp3, vorbis):
        assert code(torch.tensor([0.1, -0.1, 0.1]), 16_000).shape == (3,)
        assert code(torch.zeros(1, 4000), 16_000).abs().max() < 1e-3


def test_mu_law_has_256_levels_and_a_relative_error():
    x = torch.linspace(-1, 1, 100_001, dtype=torch.float64)
    y = mu_law(x)
    assert len(y.unique()) == 256
    loud = x.abs() > 0.05
    assert (
        (y - x).abs()[loud] / x.abs()[loud]
    ).max() < 0.03  # half a step of ln(256) / 127.5, and the 1 + of the logarithm
    assert y[0].item() == pytest.approx(-1, abs=1e-12)
    assert y.abs().max().item() == pytest.approx(1, abs=1e-12)


def test_quantising_to_16_bits_is_what_a_file_keeps():
    x = torch.tensor([0.0, 1.0, -1.0, 0.25, 1e-5, 1.6e-5])
    np.testing.assert_array_equal(quantise(x).numpy() * 32768, [0, 32767, -32768, 8192, 0, 1])
    assert quantise(torch.linspace(-1, 1, 1001), bits=3).unique().tolist() == [
        -1,
        -0.75,
        -0.5,
        -0.25,
        0,
        0.25,
        0.5,
        0.75,
    ]


def test_impossible_rates_are_refused_with_the_possible_ones():
    with pytest.raises(UserError, match=r"16000, .* got 16001"):
        mp3(torch.zeros(100), 16_001)
    with pytest.raises(UserError, match="from 8 to 160 kbit/s, got 320"):
        mp3(torch.zeros(100), 16_000, 320)
    with pytest.raises(UserError, match="between 0 and 1"):
        vorbis(torch.zeros(100), 16_000, 3)

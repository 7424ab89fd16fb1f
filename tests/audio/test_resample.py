import math

import numpy as np
import pytest
import scipy.signal
import torch

from limen.audio.resample import kernel, resample


@pytest.mark.parametrize(
    ("from_hz", "to_hz"),
    [(8000, 16000), (44100, 16000), (16000, 44100), (48000, 16000), (16000, 11025), (16001, 16000)],
)
@pytest.mark.parametrize("length", [1, 7, 1000, 4001])
def test_equals_polyphase_filtering_in_scipy_with_the_same_kernel(from_hz, to_hz, length):
    x = torch.randn(3, length, dtype=torch.float64, generator=torch.Generator().manual_seed(length))
    common = math.gcd(from_hz, to_hz)
    up, down = to_hz // common, from_hz // common
    # scipy multiplies a given window by up
    expected = scipy.signal.resample_poly(x.numpy(), up, down, axis=-1, window=kernel(up, down).numpy() / up)
    y = resample(x, from_hz, to_hz)
    assert y.shape == (3, math.ceil(length * to_hz / from_hz))
    np.testing.assert_allclose(y.numpy(), expected, atol=1e-12)


def tone(f_hz, rate_hz, seconds=0.5):
    return torch.sin(2 * math.pi * f_hz * torch.arange(int(seconds * rate_hz), dtype=torch.float64) / rate_hz)


@pytest.mark.parametrize("f_hz", [50, 1000, 3400])
def test_a_tone_below_the_new_nyquist_frequency_lives(f_hz):
    y = resample(tone(f_hz, 44100), 44100, 8000)
    middle = slice(200, -200)
    torch.testing.assert_close(y[middle], tone(f_hz, 8000)[: len(y)][middle], atol=2e-4, rtol=0)


@pytest.mark.parametrize("f_hz", [4300, 6000, 15000])
def test_a_tone_above_the_new_nyquist_frequency_dies(f_hz):
    y = resample(tone(f_hz, 44100), 44100, 8000)
    assert y[200:-200].abs().max() < 1e-4


def test_default_quality_is_close_to_scipys_on_a_band_limited_signal():
    x = sum(tone(f, 16000) for f in (300, 900, 2000)) / 3
    ours, theirs = (
        resample(x, 16000, 12000),
        torch.from_numpy(scipy.signal.resample_poly(x.numpy(), 3, 4, window=("kaiser", 9.0))),
    )
    assert (ours - theirs)[300:-300].abs().max() < 2e-3


def test_same_rate_changes_nothing():
    x = torch.randn(2, 100)
    assert torch.equal(resample(x, 16000, 16000), x)


def test_a_batch_gives_what_its_members_give_alone():
    x = torch.randn(4, 2, 500, dtype=torch.float64)
    together = resample(x, 16000, 22050)
    for i in range(4):
        torch.testing.assert_close(together[i, 1], resample(x[i, 1], 16000, 22050), atol=1e-13, rtol=0)


def test_gradients_are_those_of_a_linear_map():
    x = torch.randn(40, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: resample(v, 8000, 11025), x)

import numpy as np
import pytest
import torch

from limen.audio.filters import band_pass, high_pass, low_pass
from limen.core.errors import UserError

RATE = 16_000


def tone(hz, n=16_000):
    return torch.sin(2 * torch.pi * hz * torch.arange(n, dtype=torch.float64) / RATE)


def middle(x):
    return x[..., 4000:12_000]


def test_a_tone_above_the_cutoff_dies():
    for hz in (2250, 3000, 7900):
        assert middle(low_pass(tone(hz), 2000, RATE)).abs().max() < 10 ** (-70 / 20)


def test_a_tone_below_the_cutoff_lives_unchanged_and_undelayed():
    for hz in (0.0, 100, 1750):
        torch.testing.assert_close(
            middle(low_pass(tone(hz), 2000, RATE)), middle(tone(hz)), atol=1e-3, rtol=0
        )


def test_half_of_a_tone_at_the_cutoff_is_left():
    assert middle(low_pass(tone(2000), 2000, RATE)).abs().max() == pytest.approx(0.5, abs=0.01)


def test_the_filter_equals_scipy_with_the_same_taps():
    from scipy.signal import firwin, oaconvolve

    x = np.random.default_rng(0).uniform(-1, 1, (3, 5000))
    taps = firwin(2 * 110 + 1, 2000, fs=RATE, window="blackman")  # 5.5 / 2 / (400 / 16000) = 110
    theirs = oaconvolve(x, taps[None], mode="same", axes=-1)
    np.testing.assert_allclose(low_pass(torch.tensor(x), 2000, RATE).numpy(), theirs, atol=1e-10)


def test_low_and_high_parts_add_up():
    x = torch.randn(2, 4000, dtype=torch.float64)
    torch.testing.assert_close(low_pass(x, 1000, RATE) + high_pass(x, 1000, RATE), x)


def test_a_band_keeps_what_lies_inside_and_only_that():
    assert middle(band_pass(tone(150), 300, 3400, RATE)).abs().max() < 1e-3
    assert middle(band_pass(tone(5000), 300, 3400, RATE)).abs().max() < 1e-3
    torch.testing.assert_close(
        middle(band_pass(tone(1000), 300, 3400, RATE)), middle(tone(1000)), atol=1e-3, rtol=0
    )


def test_a_padded_clip_comes_out_as_it_does_alone():
    x = torch.randn(1, 3000, dtype=torch.float64)
    padded = torch.nn.functional.pad(x, (0, 2000))
    torch.testing.assert_close(low_pass(padded, 1000, RATE)[:, :3000], low_pass(x, 1000, RATE))


def test_the_gradient_is_the_filter_itself():
    x = torch.randn(1, 60, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda v: low_pass(v, 3000, RATE), (x,))


def test_a_cutoff_beyond_half_the_rate_is_refused():
    with pytest.raises(UserError, match="half the sample rate, 8000 Hz, got 9000 Hz"):
        low_pass(tone(100), 9000, RATE)

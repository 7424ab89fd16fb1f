import numpy as np
import pytest
import scipy.fft
import torch

from limen.audio.mfcc import MFCC


def tensorflow_mfcc(x):
    """Bin by bin as the operators audio_spectrogram and mfcc describe it."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(480) / 480)
    mel = lambda f: 1127 * np.log1p(f / 700)
    low, spacing = mel(20), (mel(4000) - mel(20)) / 41
    centres = [low + spacing * (i + 1) for i in range(41)]
    rows = []
    for f in range(98):
        power = np.abs(np.fft.rfft(x[160 * f : 160 * f + 480] * window, 512)) ** 2
        energies = np.zeros(40)
        for b in range(int(1.5 + 20 / 31.25), int(4000 / 31.25) + 1):
            m = mel(b * 31.25)
            channel = sum(c < m for c in centres[:40]) - 1  # the last centre below, -1 before the first
            left = centres[channel] if channel >= 0 else low
            part = (left + spacing - m) / spacing
            if channel >= 0:
                energies[channel] += np.sqrt(power[b]) * part
            if channel + 1 < 40:
                energies[channel + 1] += np.sqrt(power[b]) * (1 - part)
        rows.append(np.sqrt(2 / 40) / 2 * scipy.fft.dct(np.log(np.maximum(energies, 1e-12)), type=2))
    return np.array(rows)


@pytest.mark.parametrize("signal", ["noise", "tone"])
def test_coefficients_equal_those_computed_bin_by_bin(signal):
    noise = np.random.default_rng(0).uniform(-1, 1, 16_000)
    x = (
        noise
        if signal == "noise"
        else 0.3 * np.sin(2 * np.pi * 440 / 16_000 * np.arange(16_000)) + 1e-3 * noise
    )
    ours = MFCC()(torch.tensor(x, dtype=torch.float64)[None])[0].numpy()
    assert ours.shape == (98, 40)
    np.testing.assert_allclose(ours, tensorflow_mfcc(x), atol=2e-5)


def test_gradients_are_finite_on_digital_silence_and_on_half_silent_clips():
    for x in (torch.zeros(2, 16_000), torch.cat([torch.zeros(1, 8000), torch.randn(1, 8000) * 0.1], 1)):
        x.requires_grad_()
        MFCC()(x).square().sum().backward()
        assert x.grad.isfinite().all()
        assert x.grad.abs().sum() > 0 or x.detach().abs().sum() == 0


def test_a_row_does_not_see_its_neighbours():
    x = torch.randn(3, 16_000, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [[0.001], [0.1], [1.0]]
    )
    torch.testing.assert_close(MFCC()(x)[1:2], MFCC()(x[1:2]))


def test_nothing_is_kept_among_the_weights():
    assert MFCC().state_dict() == {}

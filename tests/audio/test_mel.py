import numpy as np
import pytest
import torch

from limen.audio.mel import LogMel, mel_filters
from limen.audio.stft import frame_count, power, stft


def noise(*shape, seed=0):
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_the_transform_equals_numpy_frame_by_frame():
    x, window = noise(2, 1000), torch.hann_window(200)
    ours = stft(x, window, 80, 256)
    assert ours.shape == (2, frame_count(1000, 200, 80), 129) == (2, 11, 129)
    for i in range(2):
        for f in range(11):
            theirs = np.fft.rfft(x[i, 80 * f : 80 * f + 200].numpy() * window.numpy(), 256)
            np.testing.assert_allclose(ours[i, f].numpy(), theirs, atol=2e-5)


@pytest.mark.parametrize("n_fft", [400, 401, 512])
def test_power_and_its_gradient_are_those_of_the_transform_squared(n_fft):
    x = torch.randn(2, 1200, dtype=torch.float64, requires_grad=True)
    window, weights = (
        torch.hann_window(400, dtype=torch.float64),
        torch.randn(2, 6, n_fft // 2 + 1, dtype=torch.float64),
    )
    direct, squared = power(x, window, 160, n_fft), stft(x, window, 160, n_fft).abs().square()
    torch.testing.assert_close(direct, squared)
    mine, theirs = (torch.autograd.grad((weights * p).sum(), x)[0] for p in (direct, squared))
    torch.testing.assert_close(mine, theirs)


def test_a_clip_shorter_than_the_window_gives_one_frame():
    assert stft(noise(50), torch.hann_window(200), 80).shape == (1, 101)


def test_filters_are_triangles_that_meet_at_the_centres():
    filters = mel_filters(40, 4001, 16_000, 20, 4000)  # one bin per 2 Hz
    mel = lambda f: 1127 * np.log(1 + f / 700)
    edges = 700 * (np.exp(np.linspace(mel(20), mel(4000), 42) / 1127) - 1)
    peaks = filters.argmax(0) * 2
    assert np.abs(peaks.numpy() - edges[1:-1]).max() <= 2
    inside = slice(int(edges[1] / 2) + 1, int(edges[-2] / 2))
    torch.testing.assert_close(
        filters[inside].sum(1), torch.ones_like(filters[inside].sum(1))
    )  # between the outer centres they sum to one
    assert filters[: int(20 / 2)].sum() == 0
    assert filters[2001:].sum() == 0


def test_log_mel_equals_a_loop_over_bins():
    features, x = LogMel(channels=40), noise(4000)
    ours = features(x[None])[0].numpy()
    hz = np.arange(257) * 16_000 / 512
    mel = lambda f: 1127 * np.log1p(f / 700)
    points = np.linspace(mel(20), mel(8000), 42)
    for f in (0, 7, 22):
        window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(400) / 400)
        power = np.abs(np.fft.rfft(x.numpy().astype(np.float64)[160 * f : 160 * f + 400] * window, 512)) ** 2
        for m in range(40):
            weights = np.interp(mel(hz), points[m : m + 3], [0, 1, 0])
            np.testing.assert_allclose(ours[f, m], np.log((power * weights).sum() + 1e-6) / 7 + 1, atol=1e-5)


def test_log_mel_says_how_many_frames_are_free_of_padding():
    features, lengths = LogMel(), torch.tensor([16_000, 400, 559, 560, 100])
    assert features.frames(lengths).tolist() == [98, 1, 1, 2, 1]
    x = noise(1, 16_000)
    padded = torch.nn.functional.pad(x, (0, 5000))
    torch.testing.assert_close(features(padded)[:, :98], features(x))


def test_a_row_does_not_see_its_neighbours():
    features, x = LogMel(), noise(3, 8000) * torch.tensor([[0.01], [1.0], [0.3]])
    torch.testing.assert_close(features(x)[1:2], features(x[1:2]))


def test_gradients_are_finite_on_digital_silence():
    x = torch.zeros(1, 16_000, requires_grad=True)
    LogMel()(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_double_precision_gradients_match_finite_differences():
    features = LogMel(channels=5, rate_hz=1000)
    x = (noise(1, 60).double() * 0.1).requires_grad_()
    assert torch.autograd.gradcheck(features, (x,))

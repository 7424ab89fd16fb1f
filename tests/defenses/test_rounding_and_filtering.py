"""bit_depth, quantisation, low_pass and mp3: what the model sees."""

import math

import pytest
import torch
from torch import nn

from limen.core.errors import UserError
from limen.defenses.base import compose
from limen.models.base.model import Classifier

RATE_HZ = 16000


def seen(name, x, lengths=None, *, rate_hz=RATE_HZ, **options):
    """What the model sees: the model is the identity."""
    return defended(name, rate_hz, **options)(x, lengths)


def defended(name, rate_hz=RATE_HZ, **options):
    kind = "picture" if name == "bit_depth" else "clip"
    model = Classifier(nn.Identity(), kind, ["a", "b"], rate_hz=rate_hz)
    return compose.defended(model, [{"name": name, **options}])


def tone(hz, seconds=0.5):
    return 0.5 * torch.sin(2 * math.pi * hz * torch.arange(int(seconds * RATE_HZ)) / RATE_HZ)


def test_bit_depth_leaves_as_many_shades_as_bits_can_count():
    x = torch.linspace(0, 1, 1000).view(1, 1, 10, 100)
    for bits in (1, 3, 8):
        y = seen("bit_depth", x, bits=bits)
        assert len(y.unique()) == 2**bits
        assert (y - x).abs().max() <= 0.5 / (2**bits - 1) + 1e-6
        assert torch.equal(seen("bit_depth", y, bits=bits), y)


def test_quantisation_leaves_multiples_of_q_on_the_16_bit_scale():
    x = torch.linspace(-1, 1, 4001)[None]
    y = seen("quantisation", x, q=512) * 32768
    assert torch.equal(y, (y / 512).round() * 512)
    assert (y - x * 32768).abs().max() <= 256 + 1e-2


def test_a_q_of_1_leaves_16_bit_audio_as_it_is():
    x = torch.randint(-32768, 32768, (1, 999), generator=torch.Generator().manual_seed(0)) / 32768
    assert torch.equal(seen("quantisation", x, q=1), x)


@pytest.mark.parametrize(
    ("name", "x"),
    [
        ("bit_depth", torch.rand(2, 1, 4, 4)),
        ("quantisation", torch.rand(2, 300)),
        ("mp3", torch.rand(2, 3000)),
    ],
)
def test_roundings_have_the_gradient_of_the_identity(name, x):
    leaf = x.clone().requires_grad_()
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((seen(name, leaf) * weights).sum(), leaf)
    assert torch.equal(gradient, weights)


def test_a_tone_above_the_cutoff_dies_and_one_below_it_lives():
    middle = slice(2000, 6000)
    assert seen("low_pass", tone(5000)[None], cutoff_hz=3000)[0, middle].abs().max() < 0.5 * 10 ** (-60 / 20)
    assert torch.allclose(
        seen("low_pass", tone(1000)[None], cutoff_hz=3000)[0, middle], tone(1000)[middle], atol=1e-3
    )


def test_the_gradient_of_the_filter_is_the_filter():
    x = (0.1 * torch.randn(1, 800, generator=torch.Generator().manual_seed(0))).requires_grad_()
    weights = tone(5000, 0.05)[None]
    (gradient,) = torch.autograd.grad((seen("low_pass", x, cutoff_hz=3000) * weights).sum(), x)
    assert torch.allclose(gradient, seen("low_pass", weights, cutoff_hz=3000), atol=1e-5)


def test_a_cutoff_beyond_half_the_rate_is_refused_at_once():
    with pytest.raises(UserError, match="half the sample rate"):
        defended("low_pass", 8000, cutoff_hz=5000)


def test_mp3_keeps_the_sound_in_place_and_loses_more_at_fewer_bits():
    x = (tone(300) + 0.3 * tone(900) + 0.02 * torch.randn(8000, generator=torch.Generator().manual_seed(0)))[
        None
    ]
    errors = [float((seen("mp3", x, bitrate_kbps=k) - x).square().mean()) for k in (128, 32, 8)]
    assert errors[0] < errors[1] < errors[2] < 0.2 * float(x.square().mean())


def test_mp3_treats_each_clip_by_itself():
    g = torch.Generator().manual_seed(0)
    short, long = 0.3 * torch.randn(1000, generator=g), 0.3 * torch.randn(5000, generator=g)
    together = seen(
        "mp3", torch.nn.utils.rnn.pad_sequence([short, long], batch_first=True), torch.tensor([1000, 5000])
    )
    assert torch.equal(together[0, :1000], seen("mp3", short[None])[0])
    assert torch.equal(together[1], seen("mp3", long[None])[0])
    assert not together[0, 1000:].any()


@pytest.mark.parametrize(
    ("rate_hz", "kbps", "why"), [(16001, 32, "has the sample rates"), (8000, 128, "bit rates from 8 to 64")]
)
def test_a_rate_or_bit_rate_that_mp3_does_not_know_is_refused_at_once(rate_hz, kbps, why):
    with pytest.raises(UserError, match=why):
        defended("mp3", rate_hz, bitrate_kbps=kbps)


@pytest.mark.parametrize("name", ["mp3", "low_pass"])
def test_a_model_without_a_sample_rate_cannot_be_defended_by_what_needs_one(name):
    with pytest.raises(UserError, match="needs the sample rate"):
        defended(name, None)

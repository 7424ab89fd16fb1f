"""The metric masking: nothing where all is hidden, everything where nothing is."""

import math

import pytest
import torch

from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, measure
from limen.perception.masking import Masking

RATE_HZ = 16_000


def voice(n=16_000):
    t = torch.arange(n) / RATE_HZ
    return 0.2 * sum(torch.sin(2 * math.pi * 120 * k * t) / k for k in range(1, 40)) + 1e-4 * noise(n)


def noise(n, seed=0):
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def row(x, x_adv, rate_hz=RATE_HZ):
    batch = Batch("clip", ["a"], x[None], torch.zeros(1, dtype=torch.long), torch.tensor([len(x)]))
    (only,) = measure(
        Samples(batch, x_adv[None], rate_hz), applicable(["masking"], "clip", None, with_model=False)
    )
    return only


def test_what_was_not_changed_is_all_hidden():
    x = voice()
    assert (row(x, x)["masking_excess_db"], row(x, x)["audible_share"]) == (0, 0)


def test_the_louder_the_change_the_more_of_it_is_heard():
    x = voice()
    rows = [row(x, x + amount * noise(len(x), 1)) for amount in (1e-5, 1e-4, 1e-3, 1e-2)]
    for column in ("masking_excess_db", "audible_share"):
        values = [r[column] for r in rows]
        assert values == sorted(values)
        assert values[-1] > values[0]


def test_the_same_noise_is_better_hidden_under_the_voice_than_beside_it():
    """A tone on a harmonic of the voice, and the same tone far above all of them."""
    x, t = voice(), torch.arange(16_000) / RATE_HZ
    on, beside = (x + 0.003 * torch.sin(2 * math.pi * hz * t) for hz in (600, 7600))
    assert row(x, on)["masking_excess_db"] < row(x, beside)["masking_excess_db"]


def test_values_are_those_of_the_definition():
    x = voice(5000)
    x_adv = x + 1e-3 * noise(5000, 2)
    masking = Masking.of(x.double()[None], None, RATE_HZ)
    psd = masking.psd((x_adv.double() - x.double())[None])
    r = row(x, x_adv)
    assert r["audible_share"] == pytest.approx((psd > masking.theta).double().mean().item())
    assert r["masking_excess_db"] == pytest.approx(
        10 * math.log10(1 + (psd - masking.theta).clamp_min(0).mean().item())
    )


def test_silence_and_an_unknown_rate_are_told():
    x = voice(3000)
    assert "silent" in row(torch.zeros(3000), x)["missing"]["audible_share"]
    assert "rate" in row(x, x, None)["missing"]["masking_excess_db"]

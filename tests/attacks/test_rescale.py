"""Perturbations scaled to exactly a size."""

import math

import pytest
import torch
from limen.attacks.shared.rescale import rescale

from limen.core.errors import UserError


def clips():
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([60, 100])
    mask = torch.arange(100) < lengths[:, None]
    x = torch.randn(2, 100, generator=draw, dtype=torch.float64) * 0.1 * mask
    return x, x + torch.randn(2, 100, generator=draw, dtype=torch.float64) * 1e-3, lengths


SIZES = {
    "l2": lambda x, d: float(d.norm()),
    "linf": lambda x, d: float(d.abs().max()),
    "dissimilarity": lambda x, d: float(d.norm() / x.norm()),
    "peak_db": lambda x, d: 20 * math.log10(float(d.abs().max() / x.abs().max())),
    "snr_db": lambda x, d: 20 * math.log10(float(x.norm() / d.norm())),
}


@pytest.mark.parametrize(
    ("norm", "value"),
    [("l2", 0.7), ("linf", 0.02), ("dissimilarity", 0.25), ("peak_db", -32.0), ("snr_db", 17.0)],
)
def test_the_change_has_exactly_the_size_asked_for_on_the_valid_samples(norm, value):
    x, x_adv, lengths = clips()
    scaled = rescale(x, x_adv, norm, value, lengths)
    for i, n in enumerate(lengths.tolist()):
        assert SIZES[norm](x[i, :n], (scaled - x)[i, :n]) == pytest.approx(value, abs=1e-9)
        assert (scaled[i, n:] == x[i, n:]).all()
        ratio = (scaled - x)[i, :n] / (x_adv - x)[i, :n]
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))  # the same direction


def test_values_may_differ_from_sample_to_sample():
    x, x_adv, _ = clips()
    sizes = (rescale(x, x_adv, "l2", torch.tensor([0.1, 0.2])) - x).norm(dim=1)
    torch.testing.assert_close(sizes, torch.tensor([0.1, 0.2], dtype=torch.float64))


def test_no_change_stays_none_and_pictures_work():
    x = torch.rand(2, 3, 4, 4)
    assert torch.equal(rescale(x, x, "l2", 1.0), x)


def test_an_unknown_size_is_refused_in_words():
    x = torch.rand(1, 4)
    with pytest.raises(UserError, match="peak_db"):
        rescale(x, x, "l7", 1.0)

import math

import pytest
import torch

from limen.audio.loudness import loudness, mean_db, peak_db


def test_levels_are_decibels_of_16_bit_samples():
    x = torch.tensor([100.0, -300.0, 0.0, 1000.0], dtype=torch.float64) / 32768
    assert mean_db(x).item() == pytest.approx(20 * math.log10(350))
    assert peak_db(x).item() == pytest.approx(60)


def test_full_scale_is_90_decibels():
    assert mean_db(torch.ones(10)).item() == pytest.approx(90.309, abs=1e-3)


def test_digital_silence_is_minus_infinity_and_low():
    assert mean_db(torch.zeros(2, 5)).tolist() == [-math.inf, -math.inf]
    assert peak_db(torch.zeros(5)).item() == -math.inf
    assert loudness(-math.inf) == "low"


def test_padding_is_not_measured():
    x = torch.zeros(2, 8)
    x[0, :2], x[1] = 0.5, 0.5
    lengths = torch.tensor([2, 8])
    assert mean_db(x, lengths)[0] == mean_db(x, lengths)[1] == mean_db(x[1])
    x[0, 2:] = 1.0
    assert peak_db(x, lengths)[0] == peak_db(x[1])


def test_the_bins_are_those_of_the_study():
    assert [loudness(v) for v in (49.99, 50, 60, 70, 70.01)] == ["low", "medium", "medium", "medium", "high"]

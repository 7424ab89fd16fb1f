"""Changes scaled to exactly the bound of a budget."""

import math

import pytest
import torch

from limen.budgets.families.budget import BudgetContext
from limen.budgets.families.options import make_budget
from limen.core.components import parse


def clips():
    draw = torch.Generator().manual_seed(0)
    lengths = torch.tensor([60, 100])
    mask = torch.arange(100) < lengths[:, None]
    x = torch.randn(2, 100, generator=draw, dtype=torch.float64) * 0.1 * mask
    return x, torch.randn(2, 100, generator=draw, dtype=torch.float64) * 1e-3 * mask, lengths


SIZES = {
    "l2": lambda x, d: float(d.norm()),
    "linf": lambda x, d: float(d.abs().max()),
    "dissimilarity": lambda x, d: float(d.norm() / x.norm()),
    "peak_db": lambda x, d: 20 * math.log10(float(d.abs().max() / x.abs().max())),
    "snr": lambda x, d: 20 * math.log10(float(x.norm() / d.norm())),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [("l2", 0.7), ("linf", 0.02), ("dissimilarity", 0.25), ("peak_db", -32.0), ("snr", 17.0)],
)
def test_the_change_has_exactly_the_size_of_the_bound_on_the_valid_samples(name, value):
    x, delta, lengths = clips()
    budget = make_budget(
        parse("budgets", f"{name}:{value}"), BudgetContext(x=x, kind="clip", lengths=lengths)
    )
    scaled = budget.fill(delta)
    for i, n in enumerate(lengths.tolist()):
        assert SIZES[name](x[i, :n], scaled[i, :n]) == pytest.approx(value, abs=1e-9)
        assert (scaled[i, n:] == 0).all()
        ratio = scaled[i, :n] / delta[i, :n]
        torch.testing.assert_close(ratio, ratio[:1].expand_as(ratio))  # the same direction


def test_no_change_stays_none():
    x = torch.rand(2, 3, 4, 4)
    budget = make_budget(parse("budgets", "l2:1"), BudgetContext(x=x, kind="picture"))
    assert torch.equal(budget.fill(torch.zeros_like(x)), torch.zeros_like(x))

"""What the spectral attacks take out of a clip is counted to a hundredth of a decibel, whatever the clip."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from limen.attacks.engine.run import Attack
from limen.core.errors import UserError
from limen.core.types import Batch, Samples, collate
from limen.core.types import Sample as One
from limen.metrics.snr_db import SnrDb, snr_db
from limen.models.base.model import Classifier, Model

ATTACKS = ("kenansville", "yeehaw")


class Quiet(Model):
    """Says nothing: the attacks ask no model."""

    kind, output, classes = "clip", "class", ["a", "b"]

    def forward(self, x: Tensor, lengths: Tensor | None = None, generators=None) -> Tensor:
        return x.new_zeros(len(x), 2)


def batch_of(*clips: Tensor) -> Batch:
    return collate("clip", [One(f"c{i}", x, 0) for i, x in enumerate(clips)])


def run(
    name: str, batch: Batch, budget: dict | None = None, model: Model | None = None, **options: object
) -> Tensor:
    spec = {"name": name, "budget": budget, "goal": {"name": "untargeted"}, **options}
    return Attack.parse(spec)(model or Quiet(), batch).x_adv


def measured(batch: Batch, x_adv: Tensor) -> list:
    return snr_db(Samples(batch, x_adv, 16000), SnrDb())["snr_db"]


def coloured(n: int, seed: int, peak: float = 0.5, dtype: torch.dtype = torch.float32) -> Tensor:
    """Noise whose spectrum falls off, as speech's does."""
    rng = np.random.default_rng(seed)
    spectrum = np.fft.rfft(rng.standard_normal(n)) / (1 + np.arange(n // 2 + 1)) ** rng.uniform(0, 1.5)
    x = np.fft.irfft(spectrum, n=n) if n > 1 else np.ones(1)
    return torch.tensor(peak * x / np.abs(x).max(), dtype=dtype)


@pytest.mark.parametrize("db", [0.5, 3.0, 10.0, 20.0, 37.3, 55.0])
@pytest.mark.parametrize("name", ATTACKS)
def test_the_ratio_is_the_one_asked_for_over_clips_of_all_lengths(name, db):
    rng = np.random.default_rng(int(db))
    lengths = [1, 2, 3, 4, 5, 7, 16, 127, 1000, 4801, *rng.integers(2, 3000, 12).tolist()]
    batch = batch_of(*(coloured(n, seed, peak=float(rng.uniform(0.01, 1))) for seed, n in enumerate(lengths)))
    x_adv = run(name, batch, {"name": "snr", "snr_db": db})
    assert measured(batch, x_adv) == pytest.approx([db] * len(lengths), abs=0.01)
    assert (x_adv.abs() <= 1).all()
    for row, n in zip(x_adv, lengths, strict=True):
        assert (row[n:] == 0).all()


@pytest.mark.parametrize("name", ATTACKS)
def test_the_ratio_holds_where_the_range_cuts_into_the_clip(name):
    # a square wave at full scale: without its overtones it overshoots by 9 % (Gibbs) and more
    square = torch.tensor(np.sign(np.sin(2 * np.pi * 5 * (np.arange(999) + 0.5) / 999)), dtype=torch.float32)
    batch = batch_of(square, coloured(2000, 1, peak=1.0), torch.ones(50))
    for db in (3.0, 10.0, 20.0):
        x_adv = run(name, batch, {"name": "snr", "snr_db": db})
        assert (x_adv.abs() <= 1).all()
        assert measured(batch, x_adv) == pytest.approx([db] * 3, abs=0.01)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_pure_tone_and_a_constant_are_made_weaker_and_nothing_else(name):
    t = torch.arange(400, dtype=torch.float64)
    for x in (0.3 * torch.sin(2 * math.pi * 25 * t / 400), torch.full((400,), 0.2, dtype=torch.float64)):
        x_adv = run(name, batch_of(x), {"name": "snr", "snr_db": 20.0})[0]
        torch.testing.assert_close(x_adv, 0.9 * x, atol=1e-6, rtol=0)  # 20 dB: a tenth of the amplitude


@pytest.mark.parametrize("name", ATTACKS)
def test_silence_stays_silence_and_a_budget_beyond_the_clip_leaves_nothing(name):
    silence, clip = torch.zeros(300), coloured(301, 0)
    batch = batch_of(silence, clip)
    assert (run(name, batch, {"name": "snr", "snr_db": 10.0})[0] == 0).all()
    assert run(name, batch, {"name": "l2", "eps": 100.0}).abs().max() < 1e-6
    assert (run(name, batch_of(silence), {"name": "l2", "eps": 1.0}) == 0).all()


@pytest.mark.parametrize("name", ATTACKS)
def test_an_l2_radius_is_filled(name):
    batch = batch_of(*(coloured(n, n) for n in (500, 777)))
    x_adv = run(name, batch, {"name": "l2", "eps": 0.2})
    torch.testing.assert_close((x_adv - batch.x).norm(dim=1), torch.full((2,), 0.2), atol=1e-5, rtol=0)


def test_kenansville_is_the_decimation_that_numpy_writes_down():
    x = coloured(1001, 3, dtype=torch.float64)
    x_adv = run("kenansville", batch_of(x), {"name": "snr", "snr_db": 12.0})[0].numpy()
    before, after = np.fft.fft(x.numpy()), np.fft.fft(x_adv)
    order = np.argsort(np.abs(before[:501]))
    gone = np.abs(after[:501]) < 1e-9
    count = gone.sum()
    assert set(np.flatnonzero(gone)) == set(order[:count])  # the weakest are gone,
    assert np.abs(after[order[count]]) < np.abs(before[order[count]])  # the next is weaker,
    np.testing.assert_allclose(
        after[order[count + 1 :]], before[order[count + 1 :]], atol=1e-9
    )  # all others are as they were
    power = np.where(np.arange(501) == 0, 1, 2) * np.abs(before[:501]) ** 2
    assert power[order[:count]].sum() <= 10**-1.2 * power.sum() < power[order[: count + 1]].sum()


def test_yeehaw_lowers_the_strongest_bins_to_one_magnitude_and_keeps_their_phase():
    x = coloured(1000, 4, dtype=torch.float64)
    x_adv = run("yeehaw", batch_of(x), {"name": "snr", "snr_db": 10.0})[0].numpy()
    before, after = np.fft.rfft(x.numpy()), np.fft.rfft(x_adv)
    top = np.abs(after).max()
    lowered = np.abs(before) > top * (1 + 1e-9)
    assert lowered.sum() >= 1
    np.testing.assert_allclose(np.abs(after[lowered]), top, rtol=1e-7)
    np.testing.assert_allclose(np.angle(after[lowered] / before[lowered]), 0, atol=1e-7)
    weight = np.full(501, 2.0)
    weight[[0, -1]] = 1
    energy = weight * np.abs(after - before) ** 2
    assert 10 * np.log10(energy.sum() / energy[~lowered].sum()) == pytest.approx(
        20.0, abs=1e-6
    )  # what was dropped lies 20 dB below


def test_yeehaw_without_clipping_is_kenansville():
    batch = batch_of(coloured(900, 5), coloured(333, 6))
    budget = {"name": "snr", "snr_db": 15.0}
    torch.testing.assert_close(
        run("yeehaw", batch, budget, decimation_db=0.0), run("kenansville", batch, budget)
    )


def test_stretches_are_attacked_or_left_alone_and_the_whole_keeps_the_ratio():
    batch = batch_of(*(coloured(n, n) for n in (5000, 5250, 120, 4999)))
    x_adv = run("kenansville", batch, {"name": "snr", "snr_db": 15.0}, segment=500)
    assert measured(batch, x_adv) == pytest.approx([15.0] * 4, abs=0.01)
    touched = [
        [bool((part != 0).any()) for part in (a - x)[:n].split(500)]
        for a, x, n in zip(x_adv, batch.x, batch.lengths.tolist(), strict=True)
    ]
    many = [t for clip in touched for t in clip]
    assert 0.25 < sum(many) / len(many) < 0.75
    assert touched[0] != touched[1][:10]  # each clip draws for itself
    alone = run(
        "kenansville",
        Batch("clip", ["c1"], batch.x[1:2, :5250], batch.y[1:2], batch.lengths[1:2]),
        {"name": "snr", "snr_db": 15.0},
        segment=500,
    )
    assert torch.equal(alone[0], x_adv[1, :5250])


class Hears(Model):
    """Class b once the clip has lost a given share of its energy: the decimation that just suffices is
    known."""

    kind, output, classes = "clip", "class", ["a", "b"]

    def __init__(self, whole: Tensor, share: float):
        super().__init__()
        self.floor = (whole - share * whole)[0]

    def forward(self, x: Tensor, lengths: Tensor | None = None, generators=None) -> Tensor:
        lost = self.floor - x.square().sum(1)
        return torch.stack([-lost, lost], 1)


def test_the_search_finds_the_least_decimation_that_works_and_fills_the_budget_where_none_does():
    x = coloured(1500, 7, dtype=torch.float64)
    batch = batch_of(x)
    # bins that are dropped take their energy with them, so the energy lost is that of the change, up to the
    # one bin that is only weakened
    model = Hears(x.square().sum()[None], 10**-2.5)
    found = measured(batch, run("kenansville", batch, {"name": "snr", "snr_db": 10.0}, model, search=15))
    assert found == pytest.approx([25.0], abs=0.1)
    assert Attack.parse({"name": "kenansville", "search": 15, "budget": {"name": "snr", "snr_db": 10.0}})(
        model, batch
    ).success.all()
    assert measured(
        batch, run("kenansville", batch, {"name": "snr", "snr_db": 40.0}, model, search=15)
    ) == pytest.approx([40.0], abs=0.01)


@pytest.mark.parametrize("name", ATTACKS)
def test_other_budgets_and_pictures_are_refused_in_words(name):
    clip = batch_of(coloured(100, 0))
    with pytest.raises(UserError, match="snr_db: 30"):
        run(name, clip, {"name": "linf", "eps": 0.1})
    with pytest.raises(UserError, match="needs a budget"):
        run(name, clip, None)
    picture = Batch("picture", ["p"], torch.rand(1, 1, 4, 4), torch.zeros(1, dtype=torch.long))
    with pytest.raises(UserError, match="for clips"):
        run(
            name,
            picture,
            {"name": "l2", "eps": 0.1},
            Classifier(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), "picture", ["a", "b"]),
        )

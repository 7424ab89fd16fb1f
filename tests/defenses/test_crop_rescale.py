import pytest
import torch
import torch.nn.functional as F
from torch import nn

from limen.core import seeds
from limen.core.errors import UserError
from limen.defenses.base import compose
from limen.models.base.model import Classifier


class Watched(nn.Module):
    """Keeps every picture it saw."""

    def __init__(self, classes=4):
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.seen = nn.Linear(3, classes), []

    def forward(self, x):
        self.seen.append(x.detach().clone())
        return self.linear(10 * x.mean((2, 3)))


def defended(network=None, shape=None, **options):
    model = Classifier(network or Watched(), "picture", list("wxyz"), shape=shape)
    return compose.defended(model, [{"name": "crop_rescale", **options}])


X = torch.rand(3, 3, 16, 20, generator=torch.Generator().manual_seed(5))


def streams(seed=0):
    return seeds.generators(seed, ["a", "b", "c"], "crops")


def test_the_model_sees_num_samples_stretched_crops_of_three_quarters_of_the_shorter_side():
    network = Watched()
    defended(network, num_samples=6)(X, None, streams())
    assert len(network.seen) == 6
    side = 12  # int(0.75 * 16)
    for seen in network.seen:
        for picture, crop in zip(X, seen, strict=True):
            possible = [
                F.interpolate(
                    picture[None, :, i : i + side, j : j + side],
                    (16, 20),
                    mode="bilinear",
                    align_corners=False,
                )[0]
                for i in range(16 - side + 1)
                for j in range(20 - side + 1)
            ]
            assert any(torch.allclose(crop, p, atol=1e-6) for p in possible)


def test_every_corner_is_drawn_about_equally_often():
    network = Watched()
    x = torch.arange(4.0).view(1, 1, 2, 2).expand(1, 3, 2, 2) / 4
    defended(network, num_samples=2000, crop_size=1)(x, None, seeds.generators(0, ["a"]))
    values = torch.stack([s[0, 0, 0, 0] for s in network.seen])
    counts = torch.stack([(values == v).sum() for v in torch.arange(4.0) / 4])
    assert counts.sum() == 2000
    assert ((counts - 500).abs() < 5 * (2000 * 0.25 * 0.75) ** 0.5).all()


def test_logits_are_averaged_or_probabilities_if_asked():
    network = Watched()
    logits = defended(network)(X, None, streams())
    each = torch.stack([network.linear(10 * s.mean((2, 3))) for s in network.seen])
    assert torch.allclose(logits, each.mean(0), atol=1e-5)
    network.seen.clear()
    shares = defended(network, average="probabilities")(X, None, streams())
    assert torch.allclose(shares.exp(), each.softmax(2).mean(0), atol=1e-5)


def test_a_stream_moves_on_so_a_second_call_sees_other_crops():
    network, generators = Watched(), streams()
    model = defended(network, num_samples=1)
    model(X, None, generators)
    model(X, None, generators)
    assert not torch.equal(network.seen[0], network.seen[1])


def test_the_whole_picture_as_crop_changes_nothing():
    network = Watched()
    square = X[..., :16]
    assert torch.allclose(
        defended(network, crop_size_factor=1)(square, None, streams()), network(square), atol=1e-5
    )


def test_a_crop_larger_than_the_picture_is_refused_as_early_as_possible():
    with pytest.raises(UserError, match="crops of 30 pixels: the pictures have only 16"):
        defended(crop_size=30)(X)
    with pytest.raises(UserError, match="pictures have only 28"):
        defended(shape=(1, 28, 28), crop_size=30)


def test_attackers_average_over_as_many_calls_as_asked():
    model = defended(draws=5)
    assert (model.random, model.draws) == (True, 5)

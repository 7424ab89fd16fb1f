"""Structural similarity beside scikit-image, and pictures laid over each other."""

import math

import pytest
import torch
import torch.nn.functional as F

from limen.core.types import Batch, Samples
from limen.metrics.base.apply import applicable, measure
from limen.perception.similarity import homographies, moved, pass_score, ssim


def waves(colours, height, width):
    """A picture and the same with finer waves on top."""
    k, i, j = torch.meshgrid(
        *(torch.arange(n, dtype=torch.float64) for n in (colours, height, width)), indexing="ij"
    )
    x = 0.5 + 0.4 * torch.sin(0.7 * i + 0.3 * j + k)
    return x[None], (x + 0.1 * torch.cos(1.3 * i - 0.9 * j + 2 * k)).clamp(0, 1)[None]


def spots(side, n=1, seed=0):
    """Pictures of soft spots, large and small."""
    draw = torch.Generator().manual_seed(seed)
    parts = [
        F.interpolate(
            torch.rand(n, 1, k, k, generator=draw, dtype=torch.float64), (side, side), mode="bicubic"
        )
        for k in (3, 6, 10)
    ]
    return torch.stack(parts).mean(0).clamp(0, 1)


def turned(degrees, right=0.0, down=0.0):
    """Where a picture looks that is turned and shifted; shifts in halves of its side."""
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return torch.tensor([[[c, -s, right], [s, c, down], [0, 0, 1]]], dtype=torch.float64)


# skimage.metrics.structural_similarity 0.26.0 of the same two pictures: gaussian_weights=True, sigma=1.5,
# use_sample_covariance=False, data_range=1.0, channel_axis=0
@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 28, 28), 0.9578292249431384),
        ((3, 40, 56), 0.9578119929042973),
        ((1, 11, 13), 0.9538455806324726),
        ((3, 12, 12), 0.9587385554671277),
    ],
)
def test_structural_similarity_is_that_of_scikit_image(shape, expected):
    x, y = waves(*shape)
    assert float(ssim(x, y)) == pytest.approx(expected, abs=1e-12)
    assert float(ssim(x.float(), y.float())) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("side", [1, 2, 8, 9])
def test_pictures_smaller_than_a_window_are_compared_too(side):
    x, y = waves(3, side, side)
    assert float(ssim(x, x)) == pytest.approx(1)
    assert float(pass_score(x, x)) == pytest.approx(1)
    assert -1 <= float(ssim(x, y)) < 1


@pytest.mark.parametrize("homography", [turned(0, 0.1, -0.05), turned(8), turned(-15, 0.05, 0.1)])
def test_the_homography_that_moved_a_picture_is_found(homography):
    x = spots(48)
    x_adv = moved(x, homography)
    back = homographies(x_adv, x)[0] @ homography[0]  # looked up in x_adv, which itself was looked up in x
    torch.testing.assert_close(back / back[2, 2], torch.eye(3, dtype=torch.float64), atol=0.03, rtol=0)
    assert float(pass_score(x_adv, x)) > 0.97
    assert float(ssim(x_adv, x)) < 0.85


def test_the_score_is_never_below_structural_similarity_and_noise_lowers_it():
    x = spots(32, n=4)
    noise = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    scores = torch.stack([pass_score((x + size * noise).clamp(0, 1), x) for size in (0.0, 0.01, 0.05, 0.2)])
    plain = torch.stack([ssim((x + size * noise).clamp(0, 1), x) for size in (0.0, 0.01, 0.05, 0.2)])
    assert (scores >= plain).all()
    assert (scores.diff(dim=0) < 0).all()


def test_flat_pictures_have_nothing_to_lay_over_and_do_no_harm():
    flat = torch.full((2, 1, 20, 20), 0.5, dtype=torch.float64)
    torch.testing.assert_close(pass_score(flat, flat), torch.ones(2, dtype=torch.float64))
    x = spots(20, n=2)
    torch.testing.assert_close(pass_score(flat, x), ssim(flat, x))


def test_a_batch_gives_what_its_members_give_alone():
    x = spots(40, n=3)
    x_adv = torch.cat([moved(x[:1], turned(10)), moved(x[1:2], turned(0, 0.1)), x[2:].flip(3)])
    alone = torch.cat([pass_score(x_adv[i : i + 1], x[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(pass_score(x_adv, x), alone, atol=1e-9, rtol=0)


def test_the_metric_counts_a_shifted_picture_as_nearly_the_same():
    x = spots(48)
    batch = Batch("picture", ["a", "b"], torch.cat([x, x]), torch.zeros(2, dtype=torch.long))
    samples = Samples(batch, torch.cat([moved(x, turned(0, 0.1)), 1 - x]))
    shifted, inverted = measure(samples, applicable(["pass_score"], "picture", None, with_model=False))
    assert shifted["pass_score"] > 0.97
    assert inverted["pass_score"] < 0.5

import io

import kornia
import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from limen.core.components import parse
from limen.core.errors import UserError
from limen.defenses.base import compose
from limen.images.jpeg import CHROMINANCE, LUMINANCE, compress, smooth_jpeg, steps
from limen.models.base.model import Classifier


def photograph(height, width, channels=3, seed=0):
    """Smooth shapes with edges and a little grain, on the 8-bit grid."""
    g = torch.Generator().manual_seed(seed)
    coarse = torch.rand(1, channels, 5, 4, generator=g)
    x = nn.functional.interpolate(coarse, (height, width), mode="bicubic", align_corners=False)[0]
    x[:, height // 3 : height // 2, width // 4 : width // 2] += 0.3
    x = x + 0.02 * torch.randn(x.shape, generator=g)
    return (x.clamp(0, 1) * 255).round() / 255


def through_pil(x, quality):
    pixels = (x * 255).round().byte().permute(1, 2, 0).numpy()
    file = io.BytesIO()
    Image.fromarray(pixels.squeeze(2) if pixels.shape[2] == 1 else pixels).save(file, "JPEG", quality=quality)
    return np.array(Image.open(file)).reshape(pixels.shape).transpose(2, 0, 1) / 255


def defended(network=None, **options):
    model = Classifier(network or nn.Flatten(), "picture", ["a", "b"])
    return compose.defended(model, [{"name": "jpeg", **options}])


@pytest.mark.parametrize("quality", [10, 50, 75, 95])
@pytest.mark.parametrize(
    ("channels", "height", "width"), [(3, 32, 32), (1, 28, 28), (3, 37, 51), (1, 1, 1), (3, 5, 2)]
)
def test_what_the_model_sees_is_a_real_jpeg(quality, channels, height, width):
    x = photograph(height, width, channels)
    assert np.abs(compress(x, quality).numpy() - through_pil(x, quality)).max() < 1e-6


def test_the_tables_are_those_a_real_encoder_writes():
    x = photograph(16, 16)
    for quality in (1, 10, 49, 50, 75, 90, 100):
        file = io.BytesIO()
        Image.fromarray((x * 255).byte().permute(1, 2, 0).numpy()).save(file, "JPEG", quality=quality)
        written = Image.open(file).quantization
        for number, table in ((0, LUMINANCE), (1, CHROMINANCE)):
            assert sorted(written[number]) == sorted(steps(table, quality).flatten().tolist())


@pytest.mark.parametrize("quality", [30, 75, 95])
@pytest.mark.parametrize(("channels", "height", "width"), [(3, 64, 64), (1, 40, 56), (3, 37, 51), (1, 9, 13)])
def test_the_smooth_jpeg_is_close_to_the_real_one(quality, channels, height, width, monkeypatch):
    x = photograph(height, width, channels)
    real = through_pil(x, quality)
    lost = np.abs(real - x.numpy()).mean()
    assert np.abs(smooth_jpeg(x[None], quality)[0].numpy() - real).mean() < 0.5 * lost
    # with hard rounding all that is left is that a real codec keeps whole numbers between its steps; other
    # colours or another stretching of them would be off by more than 3
    monkeypatch.setattr("limen.images.jpeg.smooth_round", torch.round)
    assert (
        np.abs(smooth_jpeg(x[None], quality)[0].numpy() - real).mean()
        < (0.75 if channels == 1 else 1.25) / 255
    )


def test_the_smooth_jpeg_agrees_with_kornia(monkeypatch):
    x = photograph(64, 48)[None]
    theirs = kornia.enhance.jpeg_codec_differentiable(x, torch.tensor([75.0]))
    ours = smooth_jpeg(x, 75)
    real = torch.tensor(through_pil(x[0], 75))[None]
    # the two round coefficients and stretch colours differently; ours is the closer to the real one
    assert (ours - theirs).abs().mean() < 3 / 255
    assert (ours - real).abs().mean() < (theirs - real).abs().mean()


def test_the_smooth_gradient_is_that_of_small_differences():
    x = photograph(17, 18).double()[None].requires_grad_()
    g = torch.Generator().manual_seed(1)
    weights = torch.randn(x.shape, generator=g, dtype=torch.float64)
    direction = torch.randn(x.shape, generator=g, dtype=torch.float64)
    (gradient,) = torch.autograd.grad((smooth_jpeg(x, 75) * weights).sum(), x)
    with torch.no_grad():
        h = 1e-7
        slope = (
            (smooth_jpeg(x + h * direction, 75) - smooth_jpeg(x - h * direction, 75)) * weights
        ).sum() / (2 * h)
    assert float((gradient * direction).sum()) == pytest.approx(float(slope), rel=1e-4)


def test_both_gradients_leave_what_the_model_sees_alone():
    x = photograph(24, 24)[None]
    assert torch.allclose(defended()(x), defended(gradient="differentiable")(x), atol=1e-6)


def test_the_identity_gradient_is_the_model_s_own():
    x = photograph(8, 8)[None].requires_grad_()
    weights = torch.randn(3 * 64, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad((defended()(x) * weights).sum(), x)
    assert torch.equal(gradient.flatten(), weights)


def test_the_differentiable_gradient_is_that_of_the_smooth_jpeg():
    x = photograph(24, 24)[None].requires_grad_()
    weights = torch.randn(3 * 24 * 24, generator=torch.Generator().manual_seed(0))
    (ours,) = torch.autograd.grad((defended(gradient="differentiable")(x) * weights).sum(), x)
    (expected,) = torch.autograd.grad((smooth_jpeg(x, 75).flatten(1) * weights).sum(), x)
    assert torch.allclose(ours, expected, atol=1e-5)


def test_pictures_that_jpeg_cannot_hold_are_refused():
    with pytest.raises(UserError, match="got 4 channels"):
        defended()(torch.rand(1, 4, 8, 8))


def test_quality_must_be_one_that_jpeg_has():
    with pytest.raises(UserError, match="quality"):
        parse("defenses", {"name": "jpeg", "quality": 0})

"""The sticker: it changes a disc and nothing else, and on a linear model it becomes what the closed form
says."""

import pytest
import torch
from PIL import Image
from torch import nn

from limen.attacks.engine.run import Attack
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.models.base.model import Classifier

STILL = {"gradient_noise": 0.0, "random_noise": 0.0}


def colours(n: int = 6, side: int = 12) -> tuple[Classifier, Batch]:
    """Class b where red outweighs blue."""
    layer = nn.Linear(3 * side * side, 2)
    red = torch.tensor([1.0, 0.0, -1.0]).view(3, 1, 1).expand(3, side, side).reshape(1, -1)
    layer.weight.data, layer.bias.data = torch.cat([-red, red]), torch.zeros(2)
    model = Classifier(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"])
    x = torch.rand(n, 3, side, side, generator=torch.Generator().manual_seed(0)) * 0.1 + torch.tensor(
        [0.4, 0.5, 0.5]
    ).view(3, 1, 1)
    return model, Batch("picture", [f"p{i}" for i in range(n)], x, torch.zeros(n, dtype=torch.long))


def test_on_a_linear_model_the_sticker_turns_to_the_colour_that_fools():
    model, batch = colours(n=40)
    attack = Attack.parse(
        {"name": "patch", "alpha": 0.1, "at_once": 1, **STILL, "min_scale": 0.5, "max_scale": 0.6}
    )
    attack.craft(model, batch)
    result = attack(model, batch)
    middle = attack.crafted["sticker"][:, 4:8, 4:8].mean((1, 2))
    assert middle[0] > 0.5  # red, which the other class wants
    assert middle[2] == 0  # no blue
    assert result.success.float().mean() > 0.8


def test_it_never_succeeds_where_the_best_possible_sticker_cannot():
    model, batch = colours()
    reach = 3.15 * (0.1 * 12 / 2) ** 2 * 1.0  # pixels under the disc, each worth at most red 1 and blue 0
    with torch.no_grad():
        gap = model(batch.x)[:, 0] - model(batch.x)[:, 1]
    assert (gap > 2 * 1.2 * (reach + 1)).all()  # the problem is posed so that it cannot
    attack = Attack.parse({"name": "patch", "alpha": 0.2, **STILL, "min_scale": 0.1, "max_scale": 0.1})
    attack.craft(model, batch)
    assert not attack(model, batch).success.any()


def test_it_changes_one_disc_of_the_size_asked_for_and_nothing_else():
    model, batch = colours(side=40)
    attack = Attack.parse({"name": "patch", "iter_per_img": 1, **STILL, "min_scale": 0.3, "max_scale": 0.4})
    attack.craft(model, batch)
    changed = (attack(model, batch).x_adv != batch.x).any(1)
    for area in changed:
        ys, xs = area.nonzero().T
        height, width = int(ys.max() - ys.min()) + 1, int(xs.max() - xs.min()) + 1
        assert 11 <= height <= 17
        assert abs(height - width) <= 1
        assert int(area.sum()) == pytest.approx(torch.pi * (height / 2) ** 2, rel=0.15)


def test_a_sticker_made_before_is_laid_on_as_it_is_and_can_be_saved(tmp_path):
    model, batch = colours(side=40)
    Image.new("RGB", (40, 40), (255, 0, 0)).save(tmp_path / "red.png")
    spec = {"name": "patch", **STILL, "rotation_deg": 45.0}
    attack = Attack.parse({**spec, "sticker": str(tmp_path / "red.png")})
    attack.craft(model, batch)
    x_adv = attack(model, batch).x_adv
    changed = (x_adv != batch.x).any(1, keepdim=True).expand_as(x_adv)
    red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1).expand_as(x_adv)
    torch.testing.assert_close(x_adv[changed], red[changed])
    saved = Attack.parse(
        {
            **spec,
            "base_image": str(tmp_path / "red.png"),
            "save_path": str(tmp_path / "made.png"),
            "iter_per_img": 1,
        }
    )
    saved.craft(model, batch)
    assert Image.open(tmp_path / "made.png").size == (40, 40)


def test_mistakes_are_told_in_words(tmp_path):
    model, batch = colours()
    (tmp_path / "not.png").write_text("no picture")
    with pytest.raises(UserError, match="cannot be read as a picture"):
        Attack.parse({"name": "patch", "sticker": str(tmp_path / "not.png")}).craft(model, batch)
    with pytest.raises(UserError, match="min_scale must not exceed"):
        Attack.parse({"name": "patch", "min_scale": 0.5, "max_scale": 0.2})

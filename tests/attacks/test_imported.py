"""Adversarial samples made by others, taken from a table by their ids."""

import pytest
import torch
from PIL import Image
from torch import Tensor

from limen.attacks.engine.run import Attack
from limen.audio.files import write_clip
from limen.core.errors import UserError
from limen.core.types import Batch, Sample, collate
from limen.models.base.model import Model


class Louder(Model):
    """Tells loud samples from soft ones."""

    output = "class"

    classes, rate_hz = ["soft", "loud"], 8000

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def forward(self, x: Tensor, lengths=None, generators=None) -> Tensor:
        level = x.abs().flatten(1).amax(1)
        return torch.stack([0.5 - level, level - 0.5], 1)


def imported(folder, batch, **options):
    return Attack.parse({"name": "imported", "table": str(folder / "t.csv"), **options})(
        Louder(batch.kind), batch
    )


def clips(**levels):
    return collate("clip", [Sample(name, torch.full((n,), 0.25), 0) for name, n in levels.items()])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("id,adversarial\nb,x.wav\n", r"no row with the id 'a'. Its ids: b\. "),
        ("id,adversarial\na,x.wav\na,y.wav\n", "line 3 repeats the id 'a'"),
        ("id,adversarial\na,no.wav\n", "no.wav: there is no such file, but the table"),
        ("id,adversarial\na,short.wav\n", "has 100 samples, but the clean clip has 200"),
        ("id,adversarial\na,fast.wav\n", "has 16000 samples a second, but the model takes 8000"),
        ("id,adversarial\na,broken.wav\n", "broken.wav: cannot be decoded as audio"),
        ("id,file\na,x.wav\n", 'not the column "adversarial". Name the right one with the option column'),
        ("name,adversarial\na,x.wav\n", 'not the column "id". Name the right one with the option id_column'),
    ],
)
def test_a_set_that_does_not_fit_is_an_error_that_says_why(tmp_path, lines, words):
    (tmp_path / "t.csv").write_text(lines)
    for name, n, rate_hz in (("x", 200, 8000), ("short", 100, 8000), ("fast", 200, 16000)):
        write_clip(tmp_path / f"{name}.wav", torch.zeros(n), rate_hz)
    (tmp_path / "broken.wav").write_bytes(b"not audio at all")
    with pytest.raises(UserError, match=words):
        imported(tmp_path, clips(a=200))


def test_a_missing_table_and_a_budget_are_errors(tmp_path):
    with pytest.raises(UserError, match="there is no such file"):
        imported(tmp_path, clips(a=200))
    with pytest.raises(UserError, match="leave the budget out"):
        imported(tmp_path, clips(a=200), budget={"name": "linf", "eps": 0.1})


def test_columns_may_have_other_names_and_padding_stays_silent(tmp_path):
    (tmp_path / "t.csv").write_text("name;evil\nb;y.wav\na;deep/x.flac\n")
    write_clip(tmp_path / "deep" / "x.flac", torch.full((100,), 0.75), 8000)
    write_clip(tmp_path / "y.wav", torch.full((200,), 0.125), 8000)
    result = imported(tmp_path, clips(a=100, b=200), column="evil", id_column="name")
    assert result.success.tolist() == [True, False]
    assert torch.equal(result.x_adv[0], torch.cat([torch.full((100,), 0.75), torch.zeros(100)]))
    assert torch.equal(result.x_adv[1], torch.full((200,), 0.125))
    assert result.calls.forward.sum() == 0


def picture(folder, size):
    Image.new("RGB", size, (0, 51, 255)).save(folder / "x.png")
    (folder / "t.csv").write_text("id,adversarial\na,x.png\n")


def test_pictures_are_read_in_their_channels(tmp_path):
    picture(tmp_path, (5, 4))
    result = imported(tmp_path, Batch("picture", ["a"], torch.zeros(1, 3, 4, 5), torch.tensor([0])))
    assert torch.equal(result.x_adv[0], torch.tensor([0, 0.2, 1]).view(3, 1, 1).expand(3, 4, 5))


def test_a_picture_of_another_size_or_none_at_all_is_an_error(tmp_path):
    picture(tmp_path, (4, 4))
    batch = Batch("picture", ["a"], torch.zeros(1, 3, 4, 5), torch.tensor([0]))
    with pytest.raises(UserError, match=r"has the shape \(3, 4, 4\), but the clean picture has \(3, 4, 5\)"):
        imported(tmp_path, batch)
    (tmp_path / "x.png").write_bytes(b"not a picture")
    with pytest.raises(UserError, match="cannot be read as a picture"):
        imported(tmp_path, batch)

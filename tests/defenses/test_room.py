"""A clip in a room: where its words stand, how loud it is, what the noise is, and what gradients make of it.
Jitter beside it."""

import pytest
import torch
from torch import Tensor, nn

from limen.core import seeds
from limen.core.components import parse
from limen.core.errors import UserError
from limen.defenses.base.compose import defended
from limen.models.base.model import Classifier

RATE = 16_000


class Watched(nn.Module):
    """Keeps what it saw."""

    def __init__(self):
        super().__init__()
        self.seen = torch.zeros(0)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return torch.stack([x.flatten(1).sum(1), -x.flatten(1).sum(1)], 1)


def seen_through(
    x: Tensor, lengths: Tensor | None = None, seed: int = 0, name: str = "room", **options
) -> Tensor:
    network = Watched()
    bare = Classifier(network, "clip" if x.dim() == 2 else "picture", ["a", "b"], rate_hz=RATE)
    model = defended(bare, [{"name": name, **options}])
    model(x, lengths, seeds.generators(seed, [str(i) for i in range(len(x))], "test"))
    return network.seen


def words(n: int = 6) -> Tensor:
    """A burst of noise between silence and silence."""
    x = 0.1 * torch.randn(n, RATE, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x[:, :6000] = 0
    x[:, 9000:] = 0
    return x


DRY = {"snr_db": None, "low_hz": None}


def test_words_keep_their_place():
    x = torch.zeros(8, 4000, dtype=torch.float64)
    x[:, 1000] = 0.5
    y = seen_through(x, **DRY)
    assert (y.abs().argmax(1) == 1000).all()
    assert (y[:, :900].abs().amax(1) < 0.02 * y.abs().amax(1)).all()


def test_a_clip_keeps_its_loudness_on_average():
    x = words(40)
    gain = seen_through(x, snr_db=None).norm(dim=1) / x.norm(dim=1)
    assert 0.85 < gain.mean() < 1.15
    assert gain.std() > 0.01  # rooms differ


def test_a_room_of_swallowing_walls_and_no_noise_changes_nothing():
    x = words()
    torch.testing.assert_close(seen_through(x, rt60_s=[0.001, 0.001], **DRY), x, atol=1e-4, rtol=0)


def test_echoes_last_as_long_as_the_room_reverberates():
    x = words(20)
    after = slice(9000 + 1600, 9000 + 3200)
    level = [seen_through(x, rt60_s=[t, t], **DRY)[:, after].square().mean() for t in (0.2, 0.4, 0.8)]
    assert 10 * level[0] < level[1]
    assert 1.5 * level[1] < level[2]


def test_the_noise_stands_as_far_below_the_clip_as_asked():
    x = words()
    quiet, noisy = (seen_through(x, snr_db=snr, low_hz=None) for snr in (None, (12.0, 12.0)))
    found = 20 * (quiet.norm(dim=1) / (noisy - quiet).norm(dim=1)).log10()
    torch.testing.assert_close(found, torch.full_like(found, 12.0))


def test_the_loudspeaker_gives_no_low_tones():
    t = torch.arange(RATE, dtype=torch.float64) / RATE
    for hz, lives in ((40, False), (300, True)):
        x = 0.3 * torch.sin(2 * torch.pi * hz * t)[None]
        there = seen_through(x, snr_db=None)[0, 4000:12_000].norm() / x[0, 4000:12_000].norm()
        assert (there > 0.2) == lives
        assert lives or there < 1e-3


def test_a_stream_gives_its_rooms_again_and_another_stream_other_rooms():
    x = words()
    assert torch.equal(seen_through(x), seen_through(x))
    assert not torch.allclose(seen_through(x, seed=0, **DRY), seen_through(x, seed=1, **DRY))
    y = seen_through(x[:1].expand(2, -1), **DRY)
    assert not torch.allclose(y[0], y[1])  # each clip in a room of its own


def test_padding_stays_silent_and_a_clip_sounds_alone_as_beside_a_longer_one():
    x = words(2)
    lengths = torch.tensor([RATE, 9500])
    x[1, 9500:] = 0
    together = seen_through(x, lengths)
    assert (together[1, 9500:] == 0).all()
    alone = seen_through(x[:1], lengths[:1])
    torch.testing.assert_close(alone[0], together[0])


def test_without_noise_the_room_is_linear_and_so_is_its_gradient():
    x, other = words(2), words(4)[2:]
    options = {"snr_db": None}
    both = seen_through(x + 0.5 * other, **options)
    torch.testing.assert_close(both, seen_through(x, **options) + 0.5 * seen_through(other, **options))
    leaf = x.clone().requires_grad_()
    weights = torch.randn(2, RATE, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    (gradient,) = torch.autograd.grad((seen_through(leaf, **options) * weights).sum(), leaf)
    moved = ((seen_through(x + other, **options) - seen_through(x, **options)) * weights).sum()
    torch.testing.assert_close((gradient * other).sum(), moved)


def test_a_range_the_wrong_way_round_is_refused():
    with pytest.raises(UserError, match=r"side_m.*a range is \[lower, upper\], got \[8.0, 3.0\]"):
        parse("defenses", {"name": "room", "side_m": [8.0, 3.0]})
    with pytest.raises(UserError, match="the sample rate"):
        defended(Classifier(Watched(), "clip", ["a", "b"]), ["room"])


STILL = {"shift": 0, "rotation_deg": 0, "scale": 0, "brightness": 0, "noise": 0}


def pictures(n: int = 6) -> Tensor:
    return torch.rand(n, 1, 12, 20, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def test_jitter_of_nothing_leaves_a_picture_alone():
    torch.testing.assert_close(seen_through(pictures(), name="jitter", **STILL), pictures())


def test_jitter_moves_a_picture_by_at_most_the_share_asked_for():
    x = torch.zeros(200, 1, 21, 31, dtype=torch.float64)
    x[:, :, 10, 15] = 1.0
    y = seen_through(x, name="jitter", **{**STILL, "shift": 0.1}).squeeze(1)
    down = (y.sum(2) * torch.arange(21)).sum(1) / y.sum((1, 2)) - 10
    across = (y.sum(1) * torch.arange(31)).sum(1) / y.sum((1, 2)) - 15
    for way, side in ((down, 21), (across, 31)):
        assert way.abs().max() <= 0.1 * side + 1e-6
        assert way.max() > 0.08 * side
        assert way.min() < -0.08 * side


def test_jitter_turns_a_picture_that_is_not_square_without_bending_it():
    x = torch.zeros(100, 1, 41, 81, dtype=torch.float64)
    x[:, :, 20, 60] = 1.0  # 20 pixels right of the middle
    y = seen_through(x, name="jitter", **{**STILL, "rotation_deg": 40}).squeeze(1)
    down = (y.sum(2) * torch.arange(41)).sum(1) / y.sum((1, 2)) - 20
    across = (y.sum(1) * torch.arange(81)).sum(1) / y.sum((1, 2)) - 40
    assert ((down.square() + across.square()).sqrt() - 20).abs().max() < 0.5
    assert down.abs().max() > 10


def test_jitter_shifts_a_clip_by_whole_samples_and_changes_its_loudness():
    x = torch.zeros(300, 200, dtype=torch.float64)
    x[:, 100] = 0.5
    y = seen_through(x, name="jitter", shift_s=10 / RATE, gain_db=6.0, snr_db=None)
    place = y.abs().argmax(1) - 100
    assert set(place.tolist()) == set(range(-10, 11))
    assert ((y != 0).sum(1) == 1).all()
    gain = 20 * (y.abs().amax(1) / 0.5).log10()
    assert gain.abs().max() <= 6 + 1e-6
    assert gain.max() > 5
    assert gain.min() < -5

"""One stream per sample and purpose; nothing but the seed and the words decides what is drawn."""

import torch

from limen.core import seeds


def test_a_stream_depends_on_seed_purpose_and_id_alone():
    draw = lambda *a: torch.rand(3, generator=seeds.generators(*a)[0])
    assert torch.equal(draw(0, ["a"], "start"), draw(0, ["a", "b"], "start"))
    for other in ((1, ["a"], "start"), (0, ["b"], "start"), (0, ["a"], "goal")):
        assert not torch.equal(draw(0, ["a"], "start"), draw(*other))


def test_rows_and_slices_are_the_very_streams():
    streams = seeds.generators(0, ["a", "b", "c"])
    some = streams.rows([2, 0])
    assert some[0] is streams[2]
    assert streams[1:][0] is streams[1]
    assert len(some) == 2
    assert [g.initial_seed() for g in streams] == [seeds.number(0, i) for i in "abc"]


def test_padding_draws_nothing_so_a_clip_draws_alone_what_it_draws_beside_a_longer_one():
    for like in (seeds.uniform_like, seeds.normal_like):
        streams, alone = seeds.generators(0, ["a", "b"]), seeds.generators(0, ["a"])
        for _ in range(2):  # the second draw too: the stream has not moved further
            together = like(torch.zeros(2, 30), streams, torch.tensor([20, 30]))
            assert torch.equal(like(torch.zeros(1, 20), alone)[0], together[0, :20])
            assert (together[0, 20:] == 0).all()

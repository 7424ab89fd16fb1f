import pytest
import torch

from limen.audio.parts import vocal_mask, vocal_part


def brute_force(x, share=0.95):
    energy = x.double().square()
    best = (0, len(x))
    for a in range(len(x)):
        for b in range(a + 1, len(x) + 1):
            if energy[a:b].sum() >= share * energy.sum() and b - a < best[1] - best[0]:
                best = (a, b)
    return list(best)


@pytest.mark.parametrize("seed", range(12))
def test_the_part_is_the_shortest_of_all_segments(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 40, generator=g) * torch.rand(3, 40, generator=g) ** 4
    assert vocal_part(x).tolist() == [brute_force(row) for row in x]


def test_a_burst_in_silence_is_the_part():
    x = torch.zeros(1, 1000)
    x[0, 300:400] = 0.5
    start, end = vocal_part(x)[0].tolist()
    assert (start, end) == (300, 395)  # 95 of 100 equal samples; the first of equals


def test_a_single_click_is_one_sample():
    x = torch.zeros(2, 50)
    x[0, 0] = x[1, 49] = 1.0
    assert vocal_part(x).tolist() == [[0, 1], [49, 50]]


def test_digital_silence_has_no_vocal_part():
    assert vocal_part(torch.zeros(1, 100)).tolist() == [[0, 0]]
    assert not vocal_mask(torch.zeros(1, 100)).any()


def test_padding_counts_for_nothing():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(2, 60, generator=g)
    short = torch.tensor([35, 60])
    assert vocal_part(x, short).tolist() == [
        vocal_part(x[:1, :35])[0].tolist(),
        vocal_part(x[1:])[0].tolist(),
    ]


def test_the_mask_marks_the_part():
    x = torch.randn(4, 30, generator=torch.Generator().manual_seed(3))
    mask = vocal_mask(x)
    for row, (a, b) in zip(mask, vocal_part(x).tolist(), strict=True):
        assert row[a:b].all()
        assert row.sum() == b - a

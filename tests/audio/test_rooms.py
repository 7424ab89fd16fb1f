"""Image sources against pyroomacoustics 0.10.1, whose numbers stand here, and against what a room must do."""

import pytest
import torch
import torch.nn.functional as F

from limen.audio.filters import high_pass
from limen.audio.rooms import (
    SPEED_M_S,
    WALL_M,
    Rooms,
    arrivals,
    convolved,
    images,
    measured_rt60_s,
    placed,
    response,
)

RATE = 16_000
SIZE, SOURCE, MICROPHONE = [5.2, 4.1, 2.9], [1.3, 2.2, 1.5], [3.6, 1.4, 1.2]
RT60_S = 0.23942656550315605  # by Eyring, of walls that swallow 0.35 of the energy

# pyroomacoustics.ShoeBox(SIZE, fs=16000, materials=Material(0.35), max_order=1): direct sound and six first
# reflections
DELAYS_MS = [7.153262, 10.600384, 11.492947, 12.485489, 14.501259, 15.019530, 16.227310]
AMPLITUDES = [0.03243336, 0.01764538, 0.01627501, 0.01498122, 0.01289873, 0.01245364, 0.01152673]
# its response with max_order=40 and a high-pass at 100 Hz: RT60 from the decay between -5 and -25 dB
THEIR_RT60_S = 0.2695634


def rooms(rt60_s=RT60_S, n=1):
    rows = lambda v: torch.tensor([v], dtype=torch.float64).expand(n, -1)
    return Rooms(rows(SIZE), rows(SOURCE), rows(MICROPHONE), torch.full((n,), rt60_s, dtype=torch.float64))


def without_rumble(h):
    """Images that all have the same sign add up to a slow wave that no loudspeaker gives."""
    return high_pass(F.pad(h, (0, 3000)), 100, RATE)[:, : h.shape[1]]


def noise(n, taps):
    return torch.randn(n, taps, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_first_reflections_arrive_when_and_as_loud_as_in_pyroomacoustics():
    room = rooms()
    delays, amplitudes = images(room, 0.02)
    absolute = delays[0] + room.distance / SPEED_M_S
    for ms, amplitude in zip(DELAYS_MS, AMPLITUDES, strict=True):
        at = (absolute - ms / 1000).abs() < 1e-8
        assert at.sum() == 1
        assert float(amplitudes[0][at]) == pytest.approx(amplitude, rel=1e-6)


def test_nothing_arrives_before_the_direct_sound_or_after_the_end():
    delays, amplitudes = images(rooms(), 0.03)
    assert delays.min() == 0
    assert delays[amplitudes > 0].max() <= 0.03
    every, loud = images(rooms(), 0.06)  # a larger cut of the same lattice
    assert int(((every <= 0.03) & (loud > 0)).sum()) == int((amplitudes > 0).sum())


def test_a_response_of_images_alone_decays_as_in_pyroomacoustics():
    h = response(rooms(), RATE, torch.zeros(1, 6400, dtype=torch.float64), early_s=0.4)
    assert float(measured_rt60_s(without_rumble(h), RATE, high_db=-25)) == pytest.approx(
        THEIR_RT60_S, rel=0.03
    )


@pytest.mark.parametrize("rt60_s", [0.15, 0.3, 0.6])
def test_a_response_decays_in_the_time_asked_for(rt60_s):
    h = response(rooms(rt60_s, n=8), RATE, noise(8, int(rt60_s * RATE)))
    assert float(measured_rt60_s(without_rumble(h), RATE).mean()) == pytest.approx(rt60_s, rel=0.1)


def test_the_tail_goes_on_with_the_energy_that_the_images_would_have():
    taps = int(0.3 * RATE)
    exact = without_rumble(response(rooms(0.4), RATE, torch.zeros(1, taps, dtype=torch.float64), early_s=0.3))
    ours = without_rumble(response(rooms(0.4, n=16), RATE, noise(16, taps)))
    after = slice(int(0.055 * RATE), int(0.09 * RATE))
    ratio = ours[:, after].square().sum(1).mean() / exact[:, after].square().sum()
    assert 0.75 < ratio < 1.33


def test_the_energy_is_what_is_expected_of_the_room():
    h = without_rumble(response(rooms(0.4, n=16), RATE, noise(16, int(0.4 * RATE))))
    torch.testing.assert_close(h.square().sum(1).mean(), rooms(0.4).energy[0], rtol=0.15, atol=0)


def test_the_direct_sound_comes_at_once_and_alone_when_the_walls_swallow_everything():
    h = response(rooms(1e-3), RATE, noise(1, 1000))
    assert float(h[0, 0]) == pytest.approx(AMPLITUDES[0], rel=1e-4)
    assert h[0, 1:].abs().max() < 1e-4 * AMPLITUDES[0]


def test_an_arrival_between_samples_is_a_shifted_band_limited_impulse():
    n, delay = 400, 100.3
    h = arrivals(
        torch.tensor([[delay / RATE]], dtype=torch.float64),
        torch.tensor([[0.7]], dtype=torch.float64),
        n,
        RATE,
    )[0]
    sinc = 0.7 * torch.special.sinc(torch.arange(n, dtype=torch.float64) - delay)
    assert (h - sinc).abs().max() < 0.04 * 0.7  # the grid is 1 / 16 of a sample wide


def test_everything_stands_inside_the_room_at_the_distance_asked_for_if_it_fits():
    draw = torch.Generator().manual_seed(1)
    u = torch.rand(500, 5, generator=draw)
    size = torch.tensor([3.0, 4.0, 2.4]).expand(500, 3)
    for metres in (0.5, 2.0, 20.0):
        room = placed(u, size, torch.full((500,), metres), torch.full((500,), 0.3))
        for place in (room.source, room.microphone):
            assert (place >= WALL_M - 1e-4).all()
            assert (place <= size - WALL_M + 1e-4).all()
        if metres < 2.4:
            torch.testing.assert_close(room.distance, torch.full((500,), metres))
        else:
            assert (room.distance <= (size - 2 * WALL_M).norm(dim=1) + 1e-4).all()
            assert room.distance.min() > 1.7


def test_a_room_gives_alone_what_it_gives_beside_a_smaller_and_a_larger_one():
    draw = torch.Generator().manual_seed(2)
    size = torch.tensor([[6.0, 5.0, 3.0], [3.0, 3.1, 2.4], [9.0, 8.0, 4.0]], dtype=torch.float64)
    together = placed(
        torch.rand(3, 5, generator=draw, dtype=torch.float64),
        size,
        torch.tensor([1.0, 2.0, 4.0]).double(),
        torch.tensor([0.3, 0.2, 0.5]).double(),
    )
    tail = noise(3, 4000)
    h = response(together, RATE, tail)
    for i in range(3):
        one = Rooms(
            *(v[i : i + 1] for v in (together.size, together.source, together.microphone, together.rt60_s))
        )
        torch.testing.assert_close(response(one, RATE, tail[i : i + 1])[0], h[i])


def test_convolution_is_the_sum_of_echoes_and_its_gradient_is_exact():
    x = torch.randn(2, 50, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    h = torch.zeros(2, 30, dtype=torch.float64)
    h[:, 0], h[0, 7], h[1, 29] = 1.0, 0.5, -0.25
    y = convolved(x, h)
    torch.testing.assert_close(y[0], x[0] + 0.5 * F.pad(x[0], (7, 0))[:50])
    torch.testing.assert_close(y[1], x[1] - 0.25 * F.pad(x[1], (29, 0))[:50])
    assert torch.autograd.gradcheck(lambda v: convolved(v, h), (x.requires_grad_(),))

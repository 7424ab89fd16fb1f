"""Switching between A, B and X while they play: at the same place, without a click, and as part of one play;
and loops."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browsing import Person, Served, serving, until
from playwright.sync_api import Browser, Locator, expect
from studies import RATE_HZ
from tap import record, recorded, tapped

from limen.audio.files import WAV_HEADER
from limen.listening.design import screens

RAMP = round(0.008 * RATE_HZ)
SECONDS = 3.0
PLACE = "Number(document.querySelector('.on .fill')?.style.getPropertyValue('--place') ?? 0)"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    yield from serving(tmp_path, seconds=SECONDS)


def heard(server: Served) -> dict[str, np.ndarray]:
    """The samples of each sound of the first screen."""
    screen = screens(server.sessions.study, "", 0)[0]
    wavs = server.sessions.sounds.of(screen).wavs
    return {
        s.label: np.frombuffer(w[WAV_HEADER:], "<i2").astype(float)
        for s, w in zip(screen.sounds, wavs, strict=True)
    }


def runs(alike: np.ndarray) -> list[tuple[int, int]]:
    """Beginning and end of each stretch that no chance could make so long."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], alike, [0]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True) if b - a > 3 * RAMP]


def left(person: Person) -> Locator:
    return person.page.locator("#plays")


def stopped(person: Person) -> None:
    until(person.page, "!document.querySelector('.tile.on')")


def played(server: Served, name: str) -> dict[str, Any]:
    return {p["label"]: p[name] for p in server.answers()[-1]["playback"]}


@pytest.mark.parametrize("plays", [None, 2])
def test_what_reaches_the_output_goes_on_at_the_same_sample_and_has_no_click(
    plays: int | None, browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "abx", "trials": 1, "plays": plays})
    person = tapped(browser, server).begin()
    page = person.page
    person.hear("A")
    record(person)
    person.button("B").click()
    for key, place in (("x", 0.15), ("a", 0.35), ("b", 0.55)):
        until(page, f"{PLACE} > {place}")
        page.keyboard.press(key)
    expect(person.tile("B").locator(".state")).to_have_text("Playing")
    stopped(person)

    sounds, y = heard(server), recorded(person)
    n = len(sounds["A"])
    assert {len(x) for x in sounds.values()} == {n}
    assert abs(len(y) - n) < RAMP
    # where the recording begins in the sound: its very first samples are silent
    starts = [
        k for k in range(RAMP) if np.array_equal(y[RAMP : 3 * RAMP], sounds["B"][RAMP + k : 3 * RAMP + k])
    ]
    assert len(starts) == 1
    y = np.concatenate([np.zeros(starts[0]), y])
    y = np.pad(y, (0, n - len(y)))
    # every sample is that of one sound at this very place, but for the ramps
    spans = sorted((first, last, label) for label, x in sounds.items() for first, last in runs(y == x))
    assert [label for _, _, label in spans] == ["B", "X", "A", "B"]
    assert spans[0][0] <= RAMP
    assert n - spans[-1][1] <= RAMP
    assert all(
        -2 <= later[0] - earlier[1] <= RAMP for earlier, later in pairwise(spans)
    )  # dither: neighbours may agree for a sample or two
    # no jump is larger than those of the sounds, but for what a ramp adds by going over to the other
    jumps = max(np.abs(np.diff(x)).max() for x in sounds.values())
    apart = max(np.abs(sounds[a] - sounds[b]).max() for a, b in ("AB", "AX", "BX"))
    assert np.abs(np.diff(y)).max() <= jumps + apart / RAMP + 1

    person.hear("B", "X")
    person.reply()
    person.press_on()
    person.page.locator("#code").wait_for()
    assert played(server, "plays") == {"A": 1, "B": 2, "X": 1}
    assert played(server, "switches") == {"A": 1, "B": 1, "X": 1}
    assert sum(played(server, "played_s").values()) == pytest.approx(4 * SECONDS, abs=0.01)
    assert set(played(server, "proved").values()) == {True}


def test_plays_belong_to_all_sounds_together_and_switching_uses_none(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "abx", "trials": 1, "plays": 1}, seconds=1.5)
    person = Person(browser, server.url).begin()
    expect(left(person)).to_have_text("3 of 3 plays left. Switching during a play is free.")
    person.button("A").click()
    expect(left(person)).to_have_text("2 of 3 plays left. Switching during a play is free.")
    until(person.page, f"{PLACE} > 0.1")
    assert (
        person.button("A").get_attribute("aria-disabled") == "true"
    )  # a play that counts goes on to its end
    person.button("X").click()
    expect(person.button("A")).to_have_attribute("aria-label", "Switch to A")
    stopped(person)
    expect(left(person)).to_have_text("2 of 3 plays left. Switching during a play is free.")
    for label in "AX":
        expect(person.tile(label).locator(".state")).to_have_text("Heard in part")
    person.page.reload()
    person.hear("A", "X")
    expect(left(person)).to_have_text("0 of 3 plays left. Switching during a play is free.")
    assert person.button("A").get_attribute("aria-disabled") == "true"
    # what was never heard whole can still be heard, but is no way to hear more of the others
    person.button("B").click()
    until(person.page, f"{PLACE} > 0.1")
    assert person.button("A").get_attribute("aria-disabled") == "true"
    person.page.keyboard.press("x")
    person.page.keyboard.press("l")
    stopped(person)
    expect(person.tile("B").locator(".state")).to_have_text("Heard")
    assert {person.button(label).get_attribute("aria-disabled") for label in "ABX"} == {"true"}
    person.reply()
    person.press_on()
    person.page.locator("#code").wait_for()
    assert played(server, "plays") == {"A": 2, "B": 1, "X": 1}
    assert played(server, "switches") == {"A": 0, "B": 0, "X": 1}
    assert set(played(server, "proved").values()) == {True}


def test_a_sound_that_was_only_switched_to_was_heard(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve({"name": "preference", "trials": 1, "plays": 2}, seconds=1.5)
    person = Person(browser, server.url).begin()
    until(person.page, "document.querySelectorAll('.sound[aria-disabled=false]').length === 2")
    for _ in range(2):
        person.button("A").click()
        person.page.keyboard.press("b")  # at once: all of B is heard, but for what a ramp takes
        until(person.page, f"{PLACE} > 0.5")
        stopped(person)
    person.hear("A", "B")
    person.reply()
    person.press_on()
    person.page.locator("#code").wait_for()
    assert played(server, "plays")["A"] == 3
    assert played(server, "switches") == {"A": 0, "B": 2}
    assert set(played(server, "proved").values()) == {True}


def test_with_a_limit_every_time_round_is_a_play_and_the_loop_ends_with_the_last_one(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "naturalness", "trials": 1, "plays": 2}, seconds=0.8)
    person = Person(browser, server.url).begin()
    until(person.page, "document.querySelector('.sound').ariaDisabled === 'false'")
    person.page.keyboard.press("l")
    expect(
        person.page.get_by_role("checkbox", name="Repeat (each repetition counts as a play)")
    ).to_be_checked()
    person.page.keyboard.press("c")
    left = person.tile("Clip").locator(".left")
    expect(left).to_have_text("1 of 2 plays left")
    expect(left).to_have_text("0 of 2 plays left")
    expect(person.tile("Clip").locator(".state")).to_have_text("Playing")
    expect(person.tile("Clip").locator(".state")).to_have_text("Heard")
    assert person.button("Clip").get_attribute("aria-disabled") == "true"
    person.reply()
    person.press_on()
    person.page.locator("#code").wait_for()
    assert played(server, "plays") == {"Clip": 2}
    assert played(server, "played_s") == {"Clip": pytest.approx(1.6, abs=0.001)}


def test_the_loop_is_switched_on_and_off_while_the_sound_goes_on_where_it_is(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "abx", "trials": 1, "plays": 2})
    person = tapped(browser, server).begin()
    page = person.page
    person.hear("A")
    record(person)
    page.keyboard.press("a")
    until(page, f"{PLACE} > 0.4")
    page.keyboard.press("l")
    assert page.evaluate(PLACE) > 0.4  # it went on
    expect(left(person)).to_have_text("4 of 6 plays left. Switching during a play is free.")
    expect(left(person)).to_have_text("3 of 6 plays left. Switching during a play is free.")  # round the end
    page.keyboard.press("b")
    page.keyboard.press("l")
    assert 0 < page.evaluate(PLACE) < 0.9
    stopped(person)
    sounds, y = heard(server), recorded(person)
    n = len(sounds["A"])
    k = next(
        k for k in range(RAMP) if np.array_equal(y[RAMP : 3 * RAMP], sounds["A"][RAMP + k : 3 * RAMP + k])
    )
    y = np.concatenate([np.zeros(k), y])
    assert np.array_equal(
        y[3 * RAMP : n], sounds["A"][3 * RAMP :]
    )  # no fall at the end of the first time round
    assert abs(len(y) - 2 * n) <= RAMP
    assert np.array_equal(y[n + n // 2 : 2 * n - 2 * RAMP], sounds["B"][n // 2 : n - 2 * RAMP])
    person.hear("B", "X")
    person.reply()
    person.press_on()
    person.page.locator("#code").wait_for()
    assert played(server, "plays") == {"A": 3, "B": 1, "X": 1}
    assert played(server, "switches") == {"A": 0, "B": 1, "X": 0}

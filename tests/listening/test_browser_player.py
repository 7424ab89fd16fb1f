"""What the page plays: the very samples of the file, switched without a click, and a digest that proves
it."""

import base64
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from browsing import Person, Served, until
from playwright.sync_api import Browser, Page, expect
from studies import write

from limen.listening.stimuli import digest

RATE_HZ = 16_000
RAMP = round(0.008 * RATE_HZ)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(write(tmp_path_factory.mktemp("player"), [{"name": "mushra", "trials": 2}], seconds=1.0))
    yield server
    server.stop()


@pytest.fixture(scope="module")
def page(browser: Browser, server: Served) -> Page:
    return Person(browser, server.url).page


def wav(x: np.ndarray, subtype: str = "PCM_16", rate_hz: int = RATE_HZ) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, x, rate_hz, format="WAV", subtype=subtype)
    return file.getvalue()


def noise(seed: int, n: int = 4000) -> np.ndarray:
    return np.random.default_rng(seed).integers(-32768, 32768, n).astype(np.int16)


def ask(page: Page, script: str, *files: bytes) -> Any:
    """Runs a script that knows the page's modules and the bytes of files."""
    return page.evaluate(
        f"""async (files) => {{
          const bytes = files.map((f) => Uint8Array.from(atob(f), (c) => c.charCodeAt(0)));
          const [wav, player, {{ sha256 }}] = await Promise.all(["wav", "player", "sha256"].map((m) => import(`/static/${{m}}.js`)));
          {script}
        }}""",
        [base64.b64encode(f).decode() for f in files],
    )


RENDER = """
  const buffers = bytes.map((b) => wav.toBuffer(wav.parse(b.buffer)));
  const audio = new OfflineAudioContext(1, LENGTH, buffers[0].sampleRate);
  const voices = new player.Voices(audio, buffers, {begin_s: BEGIN, audible: 0, passes: PASSES});
  AFTER
  return [...(await audio.startRendering()).getChannelData(0)].map((v) => v * 32768);
"""


def rendered(
    page: Page,
    *sounds: np.ndarray,
    begin: str = "0",
    after: str = "",
    length: int = 4000,
    passes: str = "1",
    rate_hz: int = RATE_HZ,
) -> np.ndarray:
    words = {"BEGIN": begin, "LENGTH": str(length), "PASSES": passes, "AFTER": after}
    script = RENDER
    for word, value in words.items():
        script = script.replace(word, value)
    return np.array(ask(page, script, *(wav(x, rate_hz=rate_hz) for x in sounds)))


def test_samples_reach_the_output_exactly_as_they_stand_in_the_file(page: Page) -> None:
    x = noise(0)
    assert np.array_equal(rendered(page, x)[RAMP:-RAMP], x[RAMP:-RAMP])


@pytest.mark.parametrize("rate_hz", [8000, 11_025, 16_000, 22_050, 44_100, 48_000])
def test_a_start_between_two_samples_waits_for_the_next_one(page: Page, rate_hz: int) -> None:
    x, ramp = noise(7), round(0.008 * rate_hz)
    for begin in (1280, 1299, 5717):
        y = rendered(page, x, begin=f"({begin} - 0.4) / {rate_hz}", length=12_000, rate_hz=rate_hz)
        heard = y[begin : begin + len(x)]
        assert np.array_equal(heard[ramp + 1 : -ramp - 1], x[ramp + 1 : -ramp - 1])
        assert np.all(y[:begin] == 0)


def test_a_sound_begins_and_ends_with_a_ramp_of_8_ms(page: Page) -> None:
    x = np.full(4000, 20_000, np.int16)
    y = rendered(page, x)
    ramp = 20_000 * np.arange(RAMP) / RAMP
    assert y[:RAMP] == pytest.approx(ramp, abs=1)
    assert y[-RAMP:] == pytest.approx(20_000 - ramp, abs=1)


def test_switching_goes_on_at_the_same_sample_of_the_other_sound(page: Page) -> None:
    a, b, c = noise(1), noise(2), noise(3)
    at, back = 1600, 2400
    y = rendered(
        page, a, b, c, after=f"voices.switchTo(1, {at} / {RATE_HZ}); voices.switchTo(2, {back} / {RATE_HZ});"
    )
    assert np.array_equal(y[RAMP:at], a[RAMP:at])
    assert np.array_equal(y[at + RAMP : back], b[at + RAMP : back])
    assert np.array_equal(y[back + RAMP : -RAMP], c[back + RAMP : -RAMP])
    share = np.arange(RAMP) / RAMP
    assert y[at : at + RAMP] == pytest.approx(
        (1 - share) * a[at : at + RAMP] + share * b[at : at + RAMP], abs=2
    )


def test_switching_between_equal_sounds_cannot_be_heard_and_stopping_makes_no_click(page: Page) -> None:
    x = np.full(4000, 20_000, np.int16)
    hurried = (
        "for (const [i, t] of [[1, 0.1], [0, 0.101], [1, 0.102]]) voices.switchTo(i, t); voices.stop(0.2);"
    )
    y = rendered(page, x, x, after=hurried)
    assert y[RAMP:3200] == pytest.approx(
        20_000, abs=1
    )  # also when the next switch comes before the last one has ended
    assert np.abs(np.diff(y)).max() <= 20_000 / RAMP + 1
    assert np.all(y[3200 + RAMP :] == 0)


def test_a_repeated_sound_goes_round_without_a_gap(page: Page) -> None:
    x = noise(4, 2000)
    y = rendered(page, x, length=6000, passes="Infinity")
    assert np.array_equal(y[RAMP:], np.tile(x, 3)[RAMP:])


@pytest.mark.parametrize(
    ("first", "then", "ends"),
    [("1", "Infinity", 8000), ("Infinity", "2", 4000), ("3", "1", 2000), ("1", "2", 4000)],
)
def test_a_loop_is_begun_and_ended_while_the_sound_goes_on_where_it_is(
    page: Page, first: str, then: str, ends: int
) -> None:
    x = noise(8, 2000)
    y = rendered(page, x, length=8000, passes=first, after=f"voices.endAfter({then});")
    endless = then == "Infinity"
    assert np.array_equal(
        y[RAMP : ends if endless else ends - RAMP], np.tile(x, 4)[RAMP : ends if endless else ends - RAMP]
    )
    assert np.all(y[ends:] == 0)


@pytest.mark.parametrize("n", [1, 55, 56, 63, 64, 65, 119, 120, 4000])
def test_the_digest_is_that_of_the_server_with_and_without_https(page: Page, n: int) -> None:
    file = wav(noise(n, n))
    pcm = file[44:]
    got = ask(
        page,
        "return [await wav.digest(wav.parse(bytes[0].buffer).pcm), [...sha256(bytes[1])]];",
        file,
        pcm[: max(1, n)],
    )
    assert got[0] == digest(file) == hashlib.sha256(pcm).hexdigest()
    assert bytes(got[1]) == hashlib.sha256(pcm[: max(1, n)]).digest()


def test_two_channels_and_odd_chunks_are_read(page: Page) -> None:
    x = np.stack([noise(5, 100), noise(6, 100)], 1)
    file = wav(x, rate_hz=44_100)
    odd = file[:36] + b"LIST\x03\x00\x00\x00abc\x00" + file[36:]
    script = (
        "const w = wav.parse(bytes[0].buffer); return [w.rate_hz, w.channels.map((c) => [...c].map((v) "
        "=> v * 32768))];"
    )
    rate_hz, channels = ask(page, script, odd)
    assert rate_hz == 44_100
    assert np.array_equal(np.array(channels), x.T)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (b"", "Not a WAV file."),
        (b"ID3" + bytes(100), "Not a WAV file."),
        (wav(np.zeros(10)), None),
        (wav(np.zeros(10), "PCM_24"), "Expected 16-bit PCM, got 24 bits, 1 channels, format 1"),
        (wav(np.zeros(10), "FLOAT"), "Expected 16-bit PCM"),
        (wav(np.zeros((10, 3))), "3 channels"),
        (wav(np.zeros(10))[:50], "ends too early"),
        (wav(np.zeros(0)), "contains no samples"),
        (wav(np.zeros(10))[:30], "contains no samples"),
    ],
)
def test_other_files_are_refused_in_words(page: Page, file: bytes, words: str | None) -> None:
    said = ask(page, "try { wav.parse(bytes[0].buffer); return null; } catch (e) { return e.message; }", file)
    assert said is None if words is None else words in said


def test_spans_that_were_heard_are_merged(page: Page) -> None:
    spans = "[[1, 2], [0, 0.5], [0.5, 0.99], [3, 3], [4, 5], [1.5, 3]]"
    assert ask(page, f"return {spans}.reduce((s, [a, b]) => player.withSpan(s, a, b), []);") == [
        [0, 3],
        [4, 5],
    ]


def test_mushra_switches_while_it_plays_and_counts_what_was_heard(
    browser: Browser, server: Served, tmp_path: Path
) -> None:
    person = Person(browser, server.url).begin()
    page = person.page
    page.get_by_role("checkbox", name="Repeat").check()
    person.button("Reference").click()
    place = "Number(document.querySelector('.on .fill').style.getPropertyValue('--place'))"
    until(page, f"document.querySelector('.on') && {place} > 0.3")
    person.button("A").click()
    expect(person.button("A")).to_have_attribute("aria-label", "Stop A")
    assert page.evaluate(place) > 0.25  # it went on, it did not begin again
    assert page.locator(".tile.on").count() == 1
    expect(person.tile("A").locator(".state")).to_have_text("Playing")
    until(page, f"{place} < 0.2")  # round the end
    until(page, f"{place} > 0.6")
    person.button("A").click()
    expect(person.tile("A").locator(".state")).to_have_text("Heard")  # both parts of it together
    expect(person.tile("Reference").locator(".state")).to_have_text("Heard in part")
    page.get_by_role("checkbox", name="Repeat").uncheck()
    person.hear("Reference", "B", "C", "D")
    person.reply()
    person.go_on()
    played = {p["label"]: p for p in server.answers()[-1]["playback"]}
    # A began between 0.25 and 1 of the clip, which lasts a second, and was stopped between 0.6 and 1 of a
    # later round
    assert played["A"]["played_s"] - 0.75 < played["A"]["plays"] < played["A"]["played_s"] + 0.4
    assert {label: p["plays"] for label, p in played.items() if label != "A"} == {
        "Reference": 2,
        "B": 1,
        "C": 1,
        "D": 1,
    }
    assert {label: p["switches"] for label, p in played.items()} == {
        "Reference": 0,
        "A": 1,
        "B": 0,
        "C": 0,
        "D": 0,
    }
    assert all(p["proved"] for p in played.values())
    assert 1.25 < played["Reference"]["played_s"] < 2
    assert played["B"]["played_s"] == pytest.approx(1.0, abs=0.01)

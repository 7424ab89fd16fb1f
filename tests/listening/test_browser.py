"""A real browser takes whole studies: with the mouse, with keys alone, on a phone; and what it says it played
is what the server sent."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import PATIENCE_MS, PHONE, Person, Served, nameless, seed000, small
from playwright.sync_api import Browser, Response, expect
from studies import SECRETS, write

from limen.listening.design import screens
from limen.listening.stimuli import Stimuli, digest
from limen.listening.study import read_study

NASTY = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">"\'&é漢字🎧'
EVERY: list[Any] = [
    "consent",
    "level",
    {"name": "headphones", "screens": 1},
    {"name": "abx", "trials": 1, "teaching": 1, "plays": 2},
    {"name": "naturalness", "trials": 1, "identify": True},
    {"name": "same_different", "axes": ["noise"], "adaptive": {"min_trials": 1, "max_trials": 1}},
    {"name": "preference", "trials": 1},
    {"name": "mushra", "trials": 1},
    {"name": "transcription", "trials": 1},
    "pause",
    "demographics",
    "comments",
]
"""Every kind of screen once."""


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def make(*args: Any, **options: Any) -> Served:
        running.append(Served(*args, **options))
        return running[-1]

    yield make
    for server in running:
        server.stop()
    assert Person.trouble == []


def test_the_whole_study_of_seed_000_is_taken_to_its_completion_code(
    browser: Browser, serve: Callable[..., Served], tmp_path: Path
) -> None:
    path = seed000(tmp_path)
    server = serve(path)
    person = Person(browser, server.url).begin()
    kinds = []
    while not person.finished:
        kinds.append(person.kind)
        assert nameless(person.page) == []
        assert person.page.evaluate("document.activeElement.tagName") == "H1"
        person.answer()

    assert kinds == [
        "consent",
        "level",
        "instructions",
        *["naturalness"] * 12,
        "instructions",
        *["abx"] * 7,
        "demographics",
        "comments",
    ]
    study = read_study(path)
    stimuli, planned = Stimuli(study, tmp_path, tmp_path / "cache"), screens(study, "", 0)
    rows = server.answers()
    assert [row["kind"] for row in rows] == kinds
    for row, screen in zip(rows, planned, strict=True):
        said = {p["label"]: p["digest"] for p in row["playback"]}
        assert said == {
            s.label: digest(wav)
            for s, wav in zip(screen.sounds, stimuli.sounds(screen, study.seed), strict=True)
        }
        assert all(p["proved"] and p["plays"] == 1 and p["rate_hz"] >= 8000 for p in row["playback"])
        assert all(
            p["played_s"] == pytest.approx(0.2, abs=0.03)
            for p in row["playback"]
            if row["kind"] in ("naturalness", "abx")
        )
        assert row["response_ms"] >= 200 * len(said)
    (listener,) = server.sessions.store.listeners()
    assert listener["finished_at"] is not None
    code = person.page.evaluate("fetch('/api/state').then((r) => r.json()).then((s) => s.code)")
    assert person.page.locator("#code").inner_text() == code
    person.page.get_by_role("button", name="Copy").click()
    expect(person.page.get_by_role("status")).to_have_text("Copied.")


def test_keys_alone_take_a_threshold_study_to_its_completion_code(
    browser: Browser, serve: Callable[..., Served], tmp_path: Path
) -> None:
    step = {
        "name": "same_different",
        "axes": ["noise"],
        "adaptive": {"min_trials": 1, "max_trials": 6},
        "sentinels": 1,
    }
    server = serve(write(tmp_path, ["consent", step, "comments"]))
    person = Person(browser, server.url)
    page, press = person.page, person.page.keyboard.press

    def tab_to(name: str) -> None:
        for _ in range(30):
            if (
                page.evaluate(
                    "document.activeElement.getAttribute('aria-label') ?? document.activeElement.innerText "
                    "?? ''"
                )
                == name
            ):
                return
            press("Tab")
        raise AssertionError(f"{name} is not reached by tabbing")

    tab_to("Begin")
    press("Enter")
    page.locator("form[data-kind=consent]").wait_for()
    press("Tab")  # from the heading to the only choice
    press("Space")
    press("Enter")  # in a radio group it sends the form
    for n in range(7):
        page.locator("form[data-kind=same_different]").wait_for()
        expect(page.locator("#count")).to_have_text(f"{n + 2} of 9")
        expect(page.locator(".sound").first).to_have_attribute("aria-disabled", "false")
        if n % 2:
            tab_to("Play A")
            press("Space")
        else:
            press("a")
        expect(page.locator(".state").first).to_have_text("Heard")
        press("b")
        expect(page.locator(".state").last).to_have_text("Heard")
        press("2" if n % 3 else "1")
        tab_to("Continue")
        press("Enter")
    page.locator("form[data-kind=comments]").wait_for()
    press("Tab")
    page.keyboard.type("No mouse: 12 A")  # digits and letters are text here
    tab_to("Continue")
    press("Enter")
    page.locator("#code").wait_for()
    rows = [row for row in server.answers() if row["kind"] == "same_different"]
    assert [row["answer"]["answer"] for row in rows] == ["different" if n % 3 else "same" for n in range(7)]
    assert all(p["proved"] for row in rows for p in row["playback"])
    strengths = [row["facts"]["strength"] for row in rows if row["role"] == "trial"]
    assert len(strengths) == 6
    assert len(set(strengths)) > 1  # it adapts


class Walk:
    """Through every kind of screen on a phone, in the dark: what was seen on the way."""

    def __init__(self, browser: Browser, server: Served):
        self.kinds: list[str] = []
        self.wrong: list[str] = []
        self.told: list[str] = []
        person = Person(browser, server.url, **PHONE, color_scheme="dark")
        person.page.on("response", self.hear)
        person.begin()
        while not person.finished:
            self.kinds.append(person.kind)
            self.wrong += [f"{person.kind}: {what}" for what in small(person.page) + nameless(person.page)]
            self.wrong += (
                []
                if person.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
                else [f"{person.kind}: too wide"]
            )
            person.answer()
            self.told.append(person.page.content() + json.dumps(person.page.evaluate("({...localStorage})")))
        self.rows = server.answers()

    def hear(self, response: Response) -> None:
        self.told.append(response.url + json.dumps(response.headers))
        if "/api/" in response.url:
            self.told.append(response.text())


@pytest.fixture(scope="module")
def walk(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walk]:
    server = Served(write(tmp_path_factory.mktemp("every"), EVERY, seconds=0.2))
    yield Walk(browser, server)
    server.stop()
    assert Person.trouble == []


def test_every_kind_of_screen_works_under_a_thumb(walk: Walk) -> None:
    assert walk.wrong == []
    assert list(dict.fromkeys(walk.kinds)) == [
        "consent",
        "level",
        "headphones",
        "abx",
        "naturalness",
        "same_different",
        "preference",
        "mushra",
        "transcription",
        "pause",
        "demographics",
        "comments",
    ]
    assert all(p["proved"] for row in walk.rows for p in row["playback"])


def test_the_page_never_holds_what_the_listener_must_not_know(walk: Walk) -> None:
    everything = "".join(walk.told)
    assert all(row["kind"] in everything for row in walk.rows)  # it was listened to
    assert [word for word in (*SECRETS, "low-pass", "sentinel", "catch_") if word in everything] == []


def test_sounds_are_heard_to_the_end_and_questions_answered_before_it_goes_on(
    browser: Browser, serve: Callable[..., Served], tmp_path: Path
) -> None:
    server = serve(write(tmp_path, [{"name": "abx", "trials": 2, "catch": 0, "switch": False}], seconds=0.4))
    person = Person(browser, server.url).begin()
    hint = person.page.locator("#hint")
    person.press_on()
    expect(hint).to_have_text(
        re.compile(
            "^Before you continue: play A, B and X to the end; answer “X is the same clip.*”; answer “How sure "
            "are you.*”.$"
        )
    )
    assert person.page.evaluate("document.activeElement.getAttribute('aria-label')") == "Play A"
    person.button("A").click()
    expect(person.button("A")).to_have_attribute("aria-label", "Stop A")
    person.button("B").click()  # A breaks off: it was not heard to its end
    expect(person.tile("A").locator(".state")).to_have_text("Heard in part")
    expect(person.tile("B").locator(".state")).to_have_text("Heard")
    expect(hint).to_have_text(re.compile("^Before you continue: play A and X to the end;"))
    person.hear("A", "X")
    person.page.get_by_role("radio", name="B").check()
    person.press_on()
    expect(hint).to_have_text("Before you continue: answer “How sure are you?”.")
    assert server.answers() == []
    person.page.get_by_role("radio", name="high").check()
    expect(hint).to_have_text("")
    person.go_on()
    (row,) = server.answers()
    assert row["answer"] == {"answer": "B", "confidence": "high"}
    assert {p["label"]: p["plays"] for p in row["playback"]} == {"A": 2, "B": 1, "X": 1}


def test_play_limits_hold_and_a_reload_does_not_lift_them(
    browser: Browser, serve: Callable[..., Served], tmp_path: Path
) -> None:
    server = serve(write(tmp_path, [{"name": "abx", "trials": 1, "plays": 2, "switch": False}], seconds=1.0))
    person = Person(browser, server.url).begin()
    left = lambda label: person.tile(label).locator(".left")
    expect(left("A")).to_have_text("2 of 2 plays left")
    person.button("A").click()
    expect(left("A")).to_have_text("1 of 2 plays left")
    person.button("B").click(force=True)  # while one sounds, the others wait: a play is a whole one
    assert person.button("B").get_attribute("aria-disabled") == "true"
    expect(person.tile("A").locator(".state")).to_have_text("Heard")
    expect(left("B")).to_have_text("2 of 2 plays left")
    person.page.get_by_role("radio", name="medium").check()
    person.page.reload()
    expect(left("A")).to_have_text("1 of 2 plays left")
    expect(person.tile("A").locator(".state")).to_have_text("Heard")
    expect(person.page.get_by_role("radio", name="medium")).to_be_checked()
    person.hear("A")
    expect(left("A")).to_have_text("0 of 2 plays left")
    expect(person.button("A")).to_have_attribute("aria-disabled", "true")
    person.button("A").click(force=True)
    person.hear("B", "X")
    person.page.get_by_role("radio", name="A", exact=True).check()
    person.press_on()
    person.page.locator("#code").wait_for()
    (row,) = server.answers()
    assert {p["label"]: p["plays"] for p in row["playback"]} == {"A": 2, "B": 1, "X": 1}
    assert row["answer"] == {"answer": "A", "confidence": "medium"}


def test_sliders_must_be_touched_and_the_reference_is_not_rated(
    browser: Browser, serve: Callable[..., Served], tmp_path: Path
) -> None:
    server = serve(write(tmp_path, [{"name": "mushra", "trials": 1}], seconds=0.2))
    person = Person(browser, server.url).begin()
    sliders = person.page.get_by_role("slider")
    assert [s.get_attribute("aria-label") for s in sliders.all()] == [
        f"How good is each clip, compared with the reference? ({x})" for x in "ABCD"
    ]
    assert {s.get_attribute("aria-valuetext") for s in sliders.all()} == {"not rated yet"}
    person.hear()
    sliders.nth(0).fill("100")
    sliders.nth(1).focus()
    person.page.keyboard.press("ArrowLeft")
    sliders.nth(2).focus()
    person.page.keyboard.press("Space")  # where it stands
    person.press_on()
    expect(person.page.locator("#hint")).to_have_text("Before you continue: rate D.")
    expect(sliders.nth(3)).to_be_focused()
    sliders.nth(3).click(position={"x": 14, "y": 22})
    assert sliders.nth(0).get_attribute("aria-valuetext") == "100, excellent"
    person.press_on()
    person.page.locator("#code").wait_for()
    (row,) = server.answers()
    assert row["answer"]["rating"] == {"A": 100, "B": 49, "C": 50, "D": 0}
    assert [p["label"] for p in row["playback"]] == ["Reference", "A", "B", "C", "D"]


def test_other_needs_words_and_text_of_a_study_is_only_text(
    browser: Browser, serve: Callable[..., Served], tmp_path: Path
) -> None:
    page_step = {"name": "instructions", "title": NASTY, "text": f"{NASTY}\n\n{NASTY}"}
    steps = [
        page_step,
        {
            "name": "identification",
            "trials": 1,
            "choices": [NASTY, "no"],
            "other": NASTY[:60],
            "title": "Listen",
        },
    ]
    server = serve(write(tmp_path, steps, title=NASTY, contact=NASTY, seconds=0.2))
    person = Person(browser, server.url).begin()
    assert person.page.locator("h1").inner_text() == NASTY
    assert person.page.locator(".text p").all_inner_texts() == [NASTY, NASTY]
    assert person.page.locator("#contact").inner_text() == f"Questions? {NASTY}"
    person.go_on()
    person.hear()
    person.page.get_by_role("radio").last.check()
    person.press_on()
    expect(person.page.locator("#hint")).to_have_text(
        f"Before you continue: write what you mean by “{NASTY[:60]}”."
    )
    person.page.locator(".typed").fill(f"  {NASTY} ")
    person.press_on()
    person.page.locator("#code").wait_for(timeout=PATIENCE_MS)
    assert person.page.evaluate("window.hacked ?? 0") == 0
    assert person.page.locator("main img, main script").count() == 0
    assert server.answers()[-1]["answer"]["word"] == f"other:{NASTY}"


def test_nothing_plays_and_no_context_is_made_before_a_press(
    browser: Browser, serve: Callable[..., Served], tmp_path: Path
) -> None:
    server = serve(write(tmp_path, [{"name": "preference", "trials": 1}], seconds=0.2))
    context = browser.new_context()
    context.add_init_script(
        "const A = AudioContext; window.made = []; AudioContext = class extends A { constructor(o) { "
        "super(o); made.push(this); } };"
    )
    person = Person(context, server.url).begin()
    expect(person.button("A")).to_have_attribute("aria-disabled", "false")
    assert person.page.evaluate("made.length") == 0
    person.hear()
    # one asks for the device's rate, one plays at the files'
    assert person.page.evaluate("made.map((c) => [c.state, c.sampleRate === 16000])") == [
        ["closed", False],
        ["running", True],
    ]

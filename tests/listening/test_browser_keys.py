"""Keys: a whole ABX trial without a mouse, Enter that sends once, letters for every sound, and none taken
while somebody types."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Person, Served, serving, until
from playwright.sync_api import Browser, expect


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    yield from serving(tmp_path, seconds=0.3)


def ready(person: Person, sounds: int) -> None:
    until(person.page, f"document.querySelectorAll('.sound[aria-disabled=false]').length === {sounds}")


def test_keys_alone_take_an_abx_trial_from_the_first_page_to_the_code(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve("consent", {"name": "abx", "trials": 2, "teaching": 1, "plays": 4})
    person = Person(browser, server.url)
    page, press = person.page, person.page.keyboard.press
    page.wait_for_timeout(500)
    press("Enter")  # Begin
    page.locator("form[data-kind=consent]").wait_for()
    press("Tab")
    press("Space")
    press("Enter")
    for n in range(3):
        page.locator("form[data-kind=abx]").wait_for()
        expect(page.locator("#count")).to_have_text(f"{n + 2} of 4")
        ready(person, 3)
        assert (
            "Keys: A, B, X play and switch; L repeats; 1, 2, … choose; Enter continues."
            in page.locator(".keys").inner_text()
        )
        for key in "abx":
            press(key)
            expect(person.tile(key.upper()).locator(".state")).to_have_text("Heard")
        press("Enter")  # nothing is answered yet
        expect(page.locator("#hint")).to_contain_text("Before you continue: answer “X is")
        press("2")
        press("3")
        assert page.get_by_role("radio", name="B", exact=True).is_checked()
        assert page.get_by_role("radio", name="high").is_checked()
        press("Enter")
        if n == 0:
            expect(page.locator(".feedback h2")).to_be_focused()
            page.wait_for_timeout(500)
            press("Enter")
    page.locator("#code").wait_for()
    rows = [row for row in server.answers() if row["kind"] == "abx"]
    assert [row["answer"] for row in rows] == [{"answer": "B", "confidence": "high"}] * 3
    assert all(p["proved"] and p["plays"] == 1 for row in rows for p in row["playback"])


def test_enter_sends_once_from_wherever_it_is_pressed_but_not_from_a_text(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "preference", "trials": 2}, {"name": "transcription", "trials": 1}, "comments")
    person = Person(browser, server.url).begin()
    page, press = person.page, person.page.keyboard.press
    sent: list[Any] = []
    page.on("request", lambda r: sent.append(r.post_data_json) if r.url.endswith("/api/answer") else None)
    person.hear()
    page.get_by_role("radio", name="A").check()
    person.button("B").click()  # the focus stays in the answer: Enter does not play B again
    expect(person.tile("B").locator(".state")).to_have_text("Heard")
    enter = (
        "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: "
        "true, cancelable: true }));"
    )
    page.evaluate(enter * 3)  # faster than any finger
    expect(page.locator("#count")).to_have_text("2 of 4")
    assert len(sent) == 1
    # on a button that has the focus Enter is the button's
    ready(person, 2)
    page.locator(".sound").first.focus()
    press("Enter")
    expect(person.tile("A").locator(".state")).to_have_text("Heard")
    person.hear("B")
    press("1")
    page.locator(".sound").first.focus()
    press("Enter")
    expect(person.tile("A").locator(".state")).to_have_text("Playing")
    page.get_by_role("radio", name="A").focus()
    press("Enter")
    expect(page.locator("#count")).to_have_text("3 of 4")
    person.hear()
    page.locator(".type input, .type textarea").first.fill("a cab, 12 l")
    page.get_by_role("heading", level=1).focus()
    press("Enter")
    page.locator("form[data-kind=comments]").wait_for()
    page.get_by_role("textbox").first.click()
    page.keyboard.type("one\ntwo 0 L")
    assert page.get_by_role("textbox").first.input_value() == "one\ntwo 0 L"
    assert page.locator("form[data-kind=comments]").count() == 1
    person.press_on()
    page.locator("#code").wait_for()
    assert len(sent) == 4
    assert server.answers()[2]["answer"] == {"text": "a cab, 12 l"}


def test_an_enter_meant_for_the_screen_before_does_not_pass_over_a_page(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    pages = [{"name": "instructions", "title": f"Part {k}", "text": "Words."} for k in (1, 2)]
    server = serve(*pages)
    person = Person(browser, server.url).begin()
    page = person.page
    page.evaluate(
        """() => new Promise((done) => {
          const press = () => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
          new MutationObserver(() => {  // the moment the second page is there
            if (document.querySelector("h1").textContent === "Part 2") { press(); done(); }
          }).observe(document.getElementById("screen"), { childList: true });
          setTimeout(press, 500);
        })"""
    )
    expect(page.get_by_role("heading", level=1)).to_have_text("Part 2")
    assert len(server.answers()) == 1
    page.wait_for_timeout(500)
    page.keyboard.press("Enter")
    page.locator("#code").wait_for()


def test_mushra_has_a_key_for_the_reference_and_each_letter_takes_to_its_slider(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "mushra", "trials": 1}, seconds=0.6)
    person = Person(browser, server.url).begin()
    page, press = person.page, person.page.keyboard.press
    ready(person, 5)
    assert (
        "Keys: A, B, C, D play and switch; R or 0 plays Reference; L repeats; Enter continues."
        in page.locator(".keys").inner_text()
    )
    keys = [b.get_attribute("aria-keyshortcuts") for b in page.locator(".sound").all()]
    assert keys == ["R", "A", "B", "C", "D"]
    for key in "r0":
        press(key)
        expect(person.tile("Reference").locator(".state")).to_have_text("Playing")
        expect(person.tile("Reference").locator(".state")).to_have_text("Heard")
    for n, key in enumerate("abcd"):
        press(key)
        expect(page.get_by_role("slider").nth(n)).to_be_focused()
        press("End" if key == "a" else "ArrowLeft")
        expect(person.tile(key.upper()).locator(".state")).to_have_text("Heard")
    press("Enter")
    page.locator("#code").wait_for()
    (row,) = server.answers()
    assert row["answer"]["rating"] == {"A": 100, "B": 49, "C": 49, "D": 49}
    assert {p["label"]: p["plays"] for p in row["playback"]} == {
        "Reference": 2,
        "A": 1,
        "B": 1,
        "C": 1,
        "D": 1,
    }


def test_the_scale_that_stays_on_top_covers_no_sound_that_has_the_focus(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "mushra", "trials": 1})
    person = Person(browser, server.url, viewport={"width": 390, "height": 500}).begin()
    ready(person, 5)
    for sound in (".row .sound >> nth=0", ".row .sound >> nth=2", ".row input >> nth=0"):
        # half of it is behind the scale, where it counts as seen
        person.page.locator(sound).evaluate("e => window.scrollBy(0, e.getBoundingClientRect().top - 10)")
        person.page.locator(sound).focus()
        scale, focused = (person.page.locator(place).bounding_box() for place in (".row.scale", sound))
        assert scale is not None
        assert focused is not None
        assert focused["y"] >= scale["y"] + scale["height"]


def test_keys_can_be_switched_off_and_stay_off(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve({"name": "preference", "trials": 2})
    person = Person(browser, server.url).begin()
    page = person.page
    ready(person, 2)
    page.get_by_role("button", name="Turn shortcuts off").click()
    for key in "a1l":
        page.keyboard.press(key)
    assert page.locator(".tile.on").count() == page.locator("input:checked").count() == 0
    person.answer()
    ready(person, 2)
    page.keyboard.press("a")
    assert page.locator(".tile.on").count() == 0
    expect(page.locator(".keys")).to_contain_text("Keyboard shortcuts are off, except Enter.")
    page.get_by_role("button", name="Turn shortcuts on").click()
    page.keyboard.press("a")
    expect(person.tile("A").locator(".state")).to_have_text("Heard")


def test_a_tone_without_a_letter_of_its_own_gets_one_that_is_written_on_it(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve({"name": "headphones", "screens": 1}, "level")
    person = Person(browser, server.url).begin()
    ready(person, 3)
    assert person.page.locator(".sound kbd").all_inner_texts() == ["A", "B", "C"]
    assert person.page.get_by_role("checkbox").count() == 0  # one play each: nothing to repeat
    person.page.keyboard.press("b")
    expect(person.tile("2").locator(".state")).to_have_text("Heard")
    person.hear("1", "3")
    person.reply()
    person.go_on()
    ready(person, 2)
    assert person.page.locator(".sound kbd").all_inner_texts() == ["O", "S"]  # L is the loop's

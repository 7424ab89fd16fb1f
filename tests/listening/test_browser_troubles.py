"""What goes wrong at a listener's: connections, reloads, the back button, two tabs, impatient fingers. Every
answer is stored, once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import PATIENCE_MS, Person, Served
from playwright.sync_api import Browser, Dialog, Route, expect
from studies import write

from limen.listening.server.limits import Limits

PLAIN: list[Any] = [{"name": "instructions", "title": f"Part {k}", "text": "Words."} for k in (1, 2, 3)]
ASKED: list[Any] = [{"name": "preference", "trials": 2}]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    running: list[Served] = []

    def make(steps: list[Any], limits: Limits | None = None, **more: Any) -> Served:
        running.append(Served(write(tmp_path, steps, seconds=0.2, **more), limits))
        return running[-1]

    yield make
    for server in running:
        server.stop()
    assert Person.trouble == []


def lost(person: Person) -> None:
    expect(person.page.get_by_role("status").last).to_contain_text(
        "Connection lost. Your answer is kept", timeout=PATIENCE_MS
    )


def cut(person: Person) -> None:
    person.page.route("**/api/answer", lambda route: route.abort())


def mended(person: Person) -> None:
    person.page.unroute("**/api/answer")


def test_a_lost_connection_keeps_the_answer_and_sends_it_when_it_is_back(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(ASKED)
    person = Person(browser, server.url).begin()
    person.hear()
    person.page.get_by_role("radio", name="B").check()
    person.context.set_offline(True)
    person.press_on()
    lost(person)
    assert person.kept()["answer"] == {"answer": "B"}
    assert server.answers() == []
    person.context.set_offline(False)
    expect(person.page.locator("#count")).to_have_text("2 of 2", timeout=PATIENCE_MS)
    expect(person.page.get_by_role("status").last).to_have_text("")
    assert person.kept() is None
    assert [row["answer"] for row in server.answers()] == [{"answer": "B"}]


def test_an_answer_whose_acknowledgement_got_lost_is_stored_once(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(ASKED)
    person = Person(browser, server.url).begin()
    sent: list[Any] = []

    def swallow(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fetch()  # the server has it, the page never hears of it
        route.abort()

    person.page.route("**/api/answer", swallow, times=2)
    person.hear()
    person.reply()
    person.press_on()
    lost(person)
    assert len(server.answers()) == 1
    expect(person.page.locator("#count")).to_have_text("2 of 2", timeout=PATIENCE_MS)
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert [row["attempt"] for row in server.answers()] == [sent[0]["attempt"]]


def test_after_a_reload_the_unsent_answer_goes_first(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve(ASKED)
    person = Person(browser, server.url).begin()
    warned: list[str] = []

    def agree(dialog: Dialog) -> None:
        warned.append(dialog.type)
        dialog.accept()

    person.page.on("dialog", agree)
    person.page.reload()  # nothing unsent: nobody is asked
    assert warned == []
    person.hear()
    person.page.get_by_role("radio", name="B").check()
    cut(person)
    person.press_on()
    lost(person)
    attempt = person.kept()["attempt"]
    person.page.reload()
    assert warned == ["beforeunload"]
    expect(person.page.get_by_role("heading", name="One moment")).to_be_visible()
    assert server.answers() == []
    lost(person)
    mended(person)
    expect(person.page.locator("#count")).to_have_text("2 of 2", timeout=PATIENCE_MS)
    assert [(row["attempt"], row["answer"]) for row in server.answers()] == [(attempt, {"answer": "B"})]


def test_a_double_click_sends_once(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve(PLAIN)
    person = Person(browser, server.url).begin()
    sent: list[str] = []
    person.page.on("request", lambda r: sent.append(r.url) if r.url.endswith("/api/answer") else None)
    person.page.evaluate(
        "{ const go = document.querySelector('.go'); go.click(); go.click(); go.form.requestSubmit(); }"
    )
    expect(person.page.get_by_role("heading", name="Part 2")).to_be_focused()
    assert len(sent) == 1
    person.page.get_by_role("button", name="Continue").dblclick()
    expect(person.page.get_by_role("heading", name="Part 2")).to_have_count(0)
    rows = server.answers()
    assert [row["position"] for row in rows] == list(range(len(sent)))


def test_the_back_button_stays_in_the_study(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve(PLAIN)
    person = Person(browser, server.url).begin()
    person.go_on()
    for _ in range(3):
        person.page.go_back()
        expect(person.page.get_by_role("status").last).to_have_text(
            "Stored answers cannot be changed. This is the current screen."
        )
        expect(person.page.get_by_role("heading", level=1)).to_have_text("Part 2")
    person.page.reload()
    expect(person.page.get_by_role("heading", level=1)).to_have_text("Part 2")
    person.page.go_back()
    expect(person.page.get_by_role("heading", level=1)).to_have_text("Part 2")
    person.go_on()
    person.press_on()
    person.page.locator("#code").wait_for()
    person.page.go_back()
    assert person.finished
    assert [row["position"] for row in server.answers()] == [0, 1, 2]


def test_two_tabs_move_together_and_never_answer_twice(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(ASKED * 2)
    first = Person(browser, server.url).begin()
    second = Person(first.context, server.url)
    expect(second.page.locator("#count")).to_have_text("1 of 4")
    first.answer()
    expect(second.page.locator("#count")).to_have_text("2 of 4")
    expect(second.page.get_by_role("status").last).to_have_text(
        "The study continued in another window. This is the current screen."
    )
    second.answer()
    expect(first.page.locator("#count")).to_have_text("3 of 4")
    # both answer the third screen; the answer that was kept first is the one that is stored, whichever tab
    # delivers it
    first.hear()
    second.hear()
    second.page.get_by_role("radio", name="B").check()
    first.page.get_by_role("radio", name="A").check()
    cut(second)
    second.press_on()
    lost(second)
    first.press_on()
    expect(first.page.locator("#count")).to_have_text("4 of 4")
    mended(second)
    expect(second.page.locator("#count")).to_have_text("4 of 4", timeout=PATIENCE_MS)
    answers = [row["answer"]["answer"] for row in server.answers()]
    assert answers == ["A", "A", "B"]


def test_an_answer_given_on_another_device_stands(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve(ASKED)
    desk = Person(browser, server.url).begin()
    desk.page.locator("summary").click()
    address = desk.page.get_by_role("textbox", name="Your personal address").input_value()
    phone = Person(browser, address, path="")
    phone.page.get_by_role("button", name="Continue in this browser").click()
    expect(phone.page.locator("#count")).to_have_text("1 of 2")
    for person, choice in ((phone, "B"), (desk, "A")):
        person.hear()
        person.page.get_by_role("radio", name=choice).check()
    phone.go_on()
    desk.go_on()
    expect(desk.page.get_by_role("status").last).to_have_text(
        "This question was already answered; the first answer counts."
    )
    assert [row["answer"]["answer"] for row in server.answers()] == ["B"]


def test_a_listener_who_is_no_longer_known_begins_again_and_loses_nothing(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(PLAIN)
    person = Person(browser, server.url, path="/?PROLIFIC_PID=p1&utm=x").begin()
    person.go_on()
    person.context.clear_cookies()
    person.press_on()
    expect(person.page.get_by_role("heading", name="Welcome back")).to_be_focused()
    expect(person.page.locator("main")).to_contain_text("Your last answer is kept on this device")
    person.begin()
    expect(person.page.get_by_role("heading", level=1)).to_have_text("Part 3")
    assert [row["position"] for row in server.answers()] == [0, 1]
    assert len(server.sessions.store.listeners()) == 1


def test_a_closed_study_says_so(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve(PLAIN)
    person = Person(browser, server.url).begin()
    server.sessions.store.close_study()
    person.press_on()
    expect(person.page.get_by_role("heading", name="This study is closed")).to_be_focused()
    late = Person(browser, server.url)
    late.page.get_by_role("button", name="Begin").click()
    expect(late.page.get_by_role("heading", name="This study is closed")).to_be_visible()


def test_a_busy_server_is_waited_for_as_long_as_it_asks(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(PLAIN)
    person = Person(browser, server.url).begin()
    busy = {"status": 429, "headers": {"Retry-After": "2"}, "json": {"error": "Too many requests."}}
    person.page.route("**/api/answer", lambda route: route.fulfill(**busy), times=1)
    person.press_on()
    expect(person.page.get_by_role("status").last).to_contain_text(
        "Many people are taking part right now. Your answer is kept"
    )
    expect(person.page.get_by_role("button", name="Try now")).to_be_hidden()
    expect(person.page.get_by_role("heading", level=1)).to_have_text("Part 2", timeout=PATIENCE_MS)


def test_a_server_in_trouble_can_be_tried_now_instead_of_later(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(PLAIN)
    person = Person(browser, server.url).begin()
    trouble = {"status": 503, "headers": {"Retry-After": "300"}, "json": {"error": "The disk is full."}}
    person.page.route("**/api/answer", lambda route: route.fulfill(**trouble), times=1)
    person.press_on()
    expect(person.page.get_by_role("status").last).to_contain_text("Not stored yet: the server has a problem")
    assert server.answers() == []
    person.page.get_by_role("button", name="Try now").click()
    expect(person.page.get_by_role("heading", level=1)).to_have_text("Part 2", timeout=PATIENCE_MS)
    assert len(server.answers()) == 1


def test_an_answer_the_server_refuses_can_be_mended(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve(["comments", *PLAIN])
    person = Person(browser, server.url).begin()
    refused = {"status": 422, "json": {"error": "comments: expected something else."}}
    person.page.route("**/api/answer", lambda route: route.fulfill(**refused), times=1)
    person.page.get_by_role("textbox").first.fill("First try")
    person.press_on()
    expect(person.page.locator("#hint")).to_have_text("comments: expected something else.")
    assert person.kept() is None
    person.page.get_by_role("textbox").first.fill("Second try")
    person.go_on()
    assert len(server.answers()) == 1


def test_the_way_back_opens_only_after_the_last_acknowledgement(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(
        PLAIN[:1], recruitment={"redirect": "https://site.example/done?cc={code}&who={PROLIFIC_PID}"}
    )
    person = Person(browser, server.url, path="/?PROLIFIC_PID=p%201")
    person.begin()
    went: list[str] = []

    def arrive(route: Route) -> None:
        went.append(route.request.url)
        route.fulfill(body="back")

    person.page.route("https://site.example/**", arrive)
    cut(person)
    person.press_on()
    lost(person)
    assert went == []
    mended(person)
    person.page.locator("#code").wait_for()
    code = person.page.locator("#code").inner_text()
    assert went == []
    person.page.get_by_role("button", name="Go back now").click()
    person.page.wait_for_url("https://site.example/**")
    assert went == [f"https://site.example/done?cc={code}&who=p%201"]


def test_a_sound_that_does_not_come_can_be_asked_for_again(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve(ASKED)
    person = Person(browser, server.url)
    broken = {"status": 200, "body": b"RIFF....WAVEfmt ", "content_type": "audio/wav"}
    person.page.route("**/audio/**", lambda route: route.fulfill(**broken), times=1)
    person.begin()
    bad = person.page.locator(".tile.broken")
    expect(bad.locator(".state")).to_have_text("This sound could not be loaded.")
    person.press_on()
    expect(person.page.locator("#hint")).to_contain_text("play A and B to the end")
    bad.get_by_role("button", name="Try again").click()
    expect(person.page.locator(".tile.broken")).to_have_count(0)
    person.answer()
    assert all(p["proved"] for p in server.answers()[0]["playback"])
    assert [event["kind"] for event in server.sessions.store.events()] == ["sound.broken"]

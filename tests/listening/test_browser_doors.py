"""The pages before and beside the study, in a real browser: a preview, the personal address, the administrator's login, two studies."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import studies
from browsing import PATIENCE_MS, Person, Served
from playwright.sync_api import Browser

SHORT: list[Any] = ["consent", {"name": "naturalness", "trials": 1}]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    servers: list[Served] = []

    def start(steps: list[Any] = SHORT, **more: Any) -> Served:
        servers.append(Served(studies.write(tmp_path / f"s{len(servers)}", steps=steps, **more)))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
    assert Person.trouble == []


def test_a_preview_shows_what_is_agreed_to_and_has_nothing_to_press(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve()
    person = Person(browser, server.url, "/?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h")
    main = person.page.locator("main")
    assert "This is a preview: nothing is stored." in main.inner_text()
    assert "Taking part is voluntary." in main.inner_text()
    assert main.get_by_role("button").count() == 0
    assert person.context.cookies() == []
    assert server.sessions.store.listeners() == []


def test_whoever_previewed_takes_part_after_accepting(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve()
    person = Person(browser, server.url, "/?assignmentId=ASSIGNMENT_ID_NOT_AVAILABLE&hitId=h")
    person.page.goto(server.url + "/?assignmentId=a&hitId=h&workerId=w")
    person.begin()
    assert person.kind == "consent"
    assert server.sessions.store.recruits()[0]["data"] == {"workerId": "w", "assignmentId": "a", "hitId": "h"}


def test_the_second_person_at_a_browser_is_welcomed_and_not_shown_the_first_persons_place(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve()
    first = Person(browser, server.url, "/?PROLIFIC_PID=p").begin()
    first.answer()
    second = Person(first.context, server.url, "/?PROLIFIC_PID=q")
    assert second.page.get_by_role("button", name="Begin").count() == 1
    second.begin()
    assert second.kind == "consent"
    assert len(server.sessions.store.listeners()) == 2


def test_the_personal_address_asks_before_it_takes_the_place_of_another_listener(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve()
    mine = Person(browser, server.url).begin()
    mine.answer()
    address = mine.page.locator("#resume").input_value()
    theirs = Person(browser, server.url).begin()
    theirs.page.goto(address)
    assert "Another listener's session is going on in this browser." in theirs.page.locator("main").inner_text()
    theirs.page.get_by_role("link", name="Back to the session that is going on").click()
    theirs.page.locator("form").wait_for()
    assert theirs.kind == "consent"
    theirs.page.goto(address)
    theirs.page.get_by_role("button", name="Go on instead of the other listener").click()
    theirs.page.locator("form[data-kind=naturalness]").wait_for()
    fresh = Person(browser, address, "")
    fresh.page.get_by_role("button", name="Go on in this browser").click()
    fresh.page.locator("form[data-kind=naturalness]").wait_for()
    assert fresh.page.url == f"{server.url}/"


def test_two_studies_in_one_browser_go_on_side_by_side(browser: Browser, serve: Callable[..., Served]) -> None:
    one, two = serve(name="one"), serve(name="two")
    first = Person(browser, one.url).begin()
    first.answer()
    Person(first.context, two.url).begin()
    first.page.reload()
    first.page.locator("form[data-kind=naturalness]").wait_for()
    first.answer()
    first.page.locator("#code").wait_for(timeout=PATIENCE_MS)


def test_the_administrator_logs_in_with_the_token(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve()
    page = browser.new_page()
    page.goto(server.url + "/admin")
    page.get_by_label("Token").fill(server.site.state.token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Answers as CSV").wait_for(timeout=PATIENCE_MS)
    assert "0 of 20 listeners have finished" in page.locator("main").inner_text()

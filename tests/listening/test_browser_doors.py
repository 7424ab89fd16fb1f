"""The pages before and beside the study, in a real browser: a preview, the personal address, the
administrator's login, two studies."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx2
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


def test_a_preview_shows_what_is_agreed_to_and_has_nothing_to_press(
    browser: Browser, serve: Callable[..., Served]
) -> None:
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


def test_the_personal_address_asks_before_it_takes_the_place_of_another_listener(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    server = serve()
    mine = Person(browser, server.url).begin()
    mine.answer()
    address = mine.page.locator("#resume").input_value()
    theirs = Person(browser, server.url).begin()
    theirs.page.goto(address)
    assert "Another listener is taking part in this browser." in theirs.page.locator("main").inner_text()
    theirs.page.get_by_role("link", name="Return to the other listener's session").click()
    theirs.page.locator("form").wait_for()
    assert theirs.kind == "consent"
    theirs.page.goto(address)
    theirs.page.get_by_role("button", name="Continue instead of the other listener").click()
    theirs.page.locator("form[data-kind=naturalness]").wait_for()
    fresh = Person(browser, address, "")
    fresh.page.get_by_role("button", name="Continue in this browser").click()
    fresh.page.locator("form[data-kind=naturalness]").wait_for()
    assert fresh.page.url == f"{server.url}/"


def test_two_studies_in_one_browser_go_on_side_by_side(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    one, two = serve(name="one"), serve(name="two")
    first = Person(browser, one.url).begin()
    first.answer()
    Person(first.context, two.url).begin()
    first.page.reload()
    first.page.locator("form[data-kind=naturalness]").wait_for()
    first.answer()
    first.page.locator("#code").wait_for(timeout=PATIENCE_MS)


class Prefixes(BaseHTTPRequestHandler):
    """A reverse proxy: /one/... and /two/... of one host lead to servers of their own."""

    servers: ClassVar[dict[str, Served]] = {}
    protocol_version = "HTTP/1.1"

    def forward(self) -> None:
        _, name, path = self.path.split("/", 2)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        url = f"http://127.0.0.1:{self.servers[name].port}/{path}"
        reply = httpx2.request(
            self.command, url, content=body, headers=dict(self.headers.items()), timeout=60
        )
        self.send_response(reply.status_code)
        for header, value in reply.headers.multi_items():
            if header.lower() not in ("date", "content-length", "connection"):
                self.send_header(header, value)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)

    do_GET = do_POST = forward

    def log_message(self, *_: object) -> None:
        pass


def test_two_studies_under_paths_of_one_host_go_on_side_by_side(
    browser: Browser, serve: Callable[..., Served]
) -> None:
    Prefixes.servers = {"one": serve(name="one"), "two": serve(name="two")}
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Prefixes)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{proxy.server_port}"
    try:
        first = Person(browser, url, "/one/").begin()
        second = Person(first.context, url, "/two/").begin()
        first.page.bring_to_front()
        first.page.route("**/api/answer", lambda route: route.abort())
        first.reply()
        first.press_on()
        first.page.get_by_text("Your answer is kept").wait_for()
        second.answer()  # what one study keeps on the device is not sent to the other
        first.page.unroute("**/api/answer")
        first.page.reload()
        first.page.locator("form[data-kind=naturalness]").wait_for()
        address = first.page.locator("#resume").input_value()
        for person in (first, second):
            person.answer()
            person.page.locator("#code").wait_for()
        phone = Person(browser, address, "")
        phone.page.get_by_role("button", name="Continue in this browser").click()
        phone.page.locator("#code").wait_for()
        admin = browser.new_page()
        admin.goto(f"{url}/one/admin")
        for token in ("wrong", Prefixes.servers["one"].site.state.token):
            admin.get_by_label("Token").fill(token)
            admin.get_by_role("button", name="Log in").click()
        admin.get_by_role("link", name="Answers as CSV").wait_for()
    finally:
        proxy.shutdown()
    assert [len(server.answers()) for server in Prefixes.servers.values()] == [2, 2]


def test_the_administrator_logs_in_with_the_token(browser: Browser, serve: Callable[..., Served]) -> None:
    server = serve()
    page = browser.new_page()
    page.goto(server.url + "/admin")
    page.get_by_label("Token").fill(server.site.state.token)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("link", name="Answers as CSV").wait_for(timeout=PATIENCE_MS)
    assert "0 of 20 listeners have finished" in page.locator("main").inner_text()

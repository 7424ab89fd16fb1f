"""Who does not agree leaves nothing but a number, keeps no place, and may change their mind."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import studies
from browsing import Person, Served
from fastapi.testclient import TestClient
from playwright.sync_api import Browser, expect

from limen.listening.server.app import app
from limen.listening.server.limits import Limits

MANY = Limits(begin_burst=1000)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    made: list[Any] = []

    def make(database: str, **more: Any) -> Any:
        made.append(app(studies.write(tmp_path / "s", **more), database, limits=MANY))
        return made[-1]

    yield make
    for site in made:
        site.state.sessions.store.close()


def client(site: Any, **parameters: str) -> tuple[TestClient, dict[str, Any]]:
    """Somebody who has begun, and what their page shows."""
    one = TestClient(site, headers={"X-Limen": "1"})
    reply = one.post("/api/begin", json={"parameters": parameters})
    assert reply.status_code == 200, reply.text
    return one, reply.json()


def send(one: TestClient, state: dict[str, Any]) -> dict[str, Any]:
    body = {"screen": state["screen"]["id"], "attempt": "a", "answer": studies.replies(state["screen"])}
    reply = one.post("/api/answer", json=body)
    assert reply.status_code == 200, reply.text
    return dict(reply.json()["state"])


def test_a_refusal_deletes_everything_and_is_counted(serve: Callable[..., Any], database: str) -> None:
    site = serve(database, listeners=1)
    store = site.state.sessions.store
    one, state = client(site, PROLIFIC_PID="p1")
    assert state["screen"]["decline"] == "I do not agree"
    assert one.post("/api/event", json={"kind": "hidden", "screen": state["screen"]["id"]}).json() == {
        "stored": False
    }
    reply = one.post("/api/decline")
    assert (reply.status_code, reply.json()) == (200, {"declined": True})
    assert (
        store.listeners() == store.recruits() == store.events() == store.answers() == store.personal() == []
    )
    assert (store.progress()["declined"], store.progress()["active"]) == (1, 0)
    assert not dict(one.cookies)
    assert one.get("/api/state").status_code == 401
    assert one.post("/api/decline").status_code == 401
    # the only place is free, and the same person may take it after all
    again, state = client(site, PROLIFIC_PID="p1")
    assert send(again, state)["position"] == 1
    assert [r["data"] for r in store.recruits()] == [{"PROLIFIC_PID": "p1"}]
    assert store.progress()["declined"] == 1


def test_who_has_agreed_cannot_be_erased_by_a_refusal(serve: Callable[..., Any], database: str) -> None:
    site = serve(database)
    one, state = client(site)
    send(one, state)
    reply = one.post("/api/decline")
    assert reply.status_code == 422
    assert reply.json()["error"] == "You have agreed already. To stop taking part, close the page."
    store = site.state.sessions.store
    assert len(store.answers()) == len(store.listeners()) == 1
    assert store.decline(store.listeners()[0]["id"], 0) is False  # an answer that came in between
    assert store.progress()["declined"] == 0


def test_an_answer_that_was_on_its_way_while_another_window_declined_finds_nobody(
    serve: Callable[..., Any], database: str
) -> None:
    site = serve(database)
    sessions = site.state.sessions
    one, state = client(site)
    key = next(iter(one.cookies.values()))
    session = sessions.find(key)
    assert one.post("/api/decline").status_code == 200
    sessions.cache.put(key, session)  # as the window that is slower still has it
    body = {"screen": state["screen"]["id"], "attempt": "a", "answer": {"consent": "agree"}}
    assert one.post(
        "/api/answer", json=body, headers={"Cookie": f"{sessions.identifiers.cookie_name()}={key}"}
    ).status_code in (401, 409)
    assert sessions.store.answers() == sessions.store.listeners() == []


def test_answers_given_before_consent_stay_without_a_person(serve: Callable[..., Any], database: str) -> None:
    site = serve(database, steps=["demographics", "consent", {"name": "abx", "trials": 1}])
    store = site.state.sessions.store
    one, state = client(site, PROLIFIC_PID="p1")
    send(one, state)
    assert len(store.personal()) == 1
    assert one.post("/api/decline").status_code == 200
    assert store.personal() == store.recruits() == []
    assert len(store.answers()) == 1
    assert one.get("/api/state").status_code == 401
    assert (store.progress()["active"], store.progress()["declined"]) == (0, 1)
    client(site, PROLIFIC_PID="p1")
    assert len(store.listeners()) == 2  # nothing leads to the first one any more


def test_the_page_says_goodbye_and_a_reload_begins_anew(browser: Browser, tmp_path: Path) -> None:
    server = Served(studies.write(tmp_path, seconds=0.2), MANY)
    person = Person(browser, server.url, path="/?PROLIFIC_PID=p1").begin()
    page = person.page
    page.get_by_role("radio", name="I agree").check()
    page.get_by_role("button", name="I do not agree").click()
    expect(page.get_by_role("heading", name="You are not taking part")).to_be_focused()
    assert page.evaluate("Object.keys(localStorage)") == []
    assert (server.sessions.store.listeners(), server.sessions.store.progress()["declined"]) == ([], 1)
    page.reload()
    expect(page.get_by_role("heading", name="Welcome", exact=True)).to_be_visible()
    person.begin()
    assert person.kind == "consent"
    assert page.locator("input:checked").count() == 0
    page.get_by_role("button", name="I do not agree").click()
    page.get_by_role("button", name="I have changed my mind").click()
    expect(page.get_by_role("heading", name="Welcome", exact=True)).to_be_visible()
    person.begin()
    person.reply()
    person.go_on()
    assert person.kind == "abx"
    assert [r["data"] for r in server.sessions.store.recruits()] == [{"PROLIFIC_PID": "p1"}]
    assert server.sessions.store.progress()["declined"] == 2
    server.stop()
    assert Person.trouble == []


def test_a_refusal_waits_for_the_connection(browser: Browser, tmp_path: Path) -> None:
    server = Served(studies.write(tmp_path, seconds=0.2), MANY)
    person = Person(browser, server.url).begin()
    person.context.set_offline(True)
    person.page.get_by_role("button", name="I do not agree").click()
    expect(person.page.get_by_role("status").last).to_contain_text("Connection lost.")
    person.context.set_offline(False)
    expect(person.page.get_by_role("heading", name="You are not taking part")).to_be_visible(timeout=60_000)
    assert server.sessions.store.progress()["declined"] == 1
    server.stop()
    assert Person.trouble == []

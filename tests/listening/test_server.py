"""The API, on SQLite and on PostgreSQL: begin, answer, resume, restart, close."""

import hashlib
import io
import json
import re
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import studies
from fastapi.testclient import TestClient

from limen.listening.server.app import app
from limen.listening.server.limits import Limits
from limen.listening.stimuli import digest

HEADERS = {"X-Limen": "1"}
CLASSROOM = Limits(begin_burst=1000)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    redirect = "https://site.example/done?cc={code}&who={PROLIFIC_PID}&x={hitId}"
    return studies.write(tmp_path / "s", groups=("g1", "g2"), recruitment={"redirect": redirect})


@pytest.fixture
def site(study: Path, database: str) -> Iterator[Any]:
    made = app(study, database, limits=CLASSROOM)
    yield made
    made.state.sessions.store.close()


def browser(site: Any) -> TestClient:
    return TestClient(site, headers=HEADERS, base_url="http://testserver")


def begin(client: TestClient, **parameters: str) -> dict[str, Any]:
    reply = client.post("/api/begin", json={"parameters": parameters})
    assert reply.status_code == 200, reply.text
    return reply.json()


def send(client: TestClient, state: dict[str, Any], attempt: str = "a", **more: Any) -> Any:
    screen = state["screen"]
    body = {
        "screen": screen["id"],
        "attempt": attempt,
        "answer": studies.replies(screen),
        "response_ms": 900,
    } | more
    return client.post("/api/answer", json=body)


def hear(client: TestClient, state: dict[str, Any]) -> dict[str, Any]:
    """Goes on until the first answer to sounds, which are proved to be played."""
    while True:
        heard = bool(state["screen"]["sounds"])
        reply = send(client, state, playback=[proof(client, sound) for sound in state["screen"]["sounds"]])
        assert reply.status_code == 200, reply.text
        state = reply.json()["state"]
        if heard:
            return state


def proof(client: TestClient, sound: dict[str, Any]) -> dict[str, Any]:
    """What the page says of a sound that it has played."""
    return {
        "label": sound["label"],
        "digest": digest(client.get(sound["url"]).content),
        "rate_hz": 48000,
        "plays": 1,
        "played_s": 0.3,
    }


def finish(client: TestClient, state: dict[str, Any]) -> dict[str, Any]:
    while not state["done"]:
        reply = send(client, state)
        assert reply.status_code == 200, reply.text
        state = reply.json()["state"]
    return state


def test_a_listener_goes_through_the_whole_study_and_gets_a_code_at_the_end_alone(site):
    client = browser(site)
    state = begin(client, PROLIFIC_PID="pid 1&", other="dropped")
    positions = []
    while not state["done"]:
        assert "code" not in json.dumps(state)
        positions.append(state["position"])
        assert client.get("/api/state").json() == state
        reply = send(client, state).json()
        assert (reply["stored"], reply["again"]) == (True, False)
        state = reply["state"]
    assert positions == list(range(state["total"]))
    assert re.fullmatch(r"[A-Z2-7]{8}", state["code"])
    assert state["redirect"] == f"https://site.example/done?cc={state['code']}&who=pid%201%26&x="
    store = site.state.sessions.store
    assert [a["position"] for a in store.answers()] == positions
    assert store.listeners()[0]["finished_at"] is not None
    assert store.recruits()[0]["data"] == {"PROLIFIC_PID": "pid 1&"}


def test_what_is_stored_says_what_was_asked_and_whether_it_was_right(site):
    client = browser(site)
    finish(client, begin(client))
    rows = site.state.sessions.store.answers()
    abx = [r for r in rows if r["kind"] == "abx"]
    assert [r["role"] for r in abx] == ["teaching", "trial", "trial", "trial", "catch"]
    assert all(r["correct"] == (r["answer"]["answer"] == r["truth"]["answer"]) for r in abx[:-1])
    assert abx[-1]["correct"] is None
    assert {r["facts"]["group"] for r in rows} == {"g1"}
    assert all(r["facts"]["item"].startswith("okapi") for r in abx)
    about = next(r for r in rows if r["kind"] == "demographics")
    assert about["answer"] == {}
    assert {p["position"] for p in site.state.sessions.store.personal()} >= {about["position"]}


def test_the_right_answer_is_told_in_teaching_trials_alone_and_again_when_asked_again(site):
    client = browser(site)
    state = begin(client)
    for _ in range(3):
        kind, role = state["screen"]["kind"], state["screen"]["role"]
        reply = send(client, state).json()
        if role == "teaching":
            assert reply["feedback"]["truth_text"] in ("A", "B")
            assert reply["feedback"]["correct"] == (reply["feedback"]["truth_text"] == "A")
            assert send(client, state, "b").json()["feedback"] == reply["feedback"]
        else:
            assert reply["feedback"] is None, kind
        state = reply["state"]


def test_an_answer_sent_again_is_acknowledged_again_and_stored_once(site):
    client = browser(site)
    state = begin(client)
    first = send(client, state, "attempt-1").json()
    for attempt in ("attempt-1", "attempt-2"):
        again = send(client, state, attempt).json()
        assert (again["stored"], again["again"]) == (True, True)
        assert again["state"] == first["state"]
    assert [a["attempt"] for a in site.state.sessions.store.answers()] == ["attempt-1"]


def test_after_a_restart_the_same_screen_with_the_same_ids_is_shown(study, database):
    first = app(study, database)
    client = browser(first)
    state = begin(client)
    for _ in range(4):
        state = send(client, state).json()["state"]
    first.state.sessions.store.close()
    second = app(study, database)
    other = TestClient(second, headers=HEADERS, cookies=client.cookies)
    assert other.get("/api/state").json() == state
    assert other.get(state["screen"]["sounds"][0]["url"]).status_code == 200
    assert finish(other, state)["done"]
    assert len(second.state.sessions.store.answers()) == state["total"]
    second.state.sessions.store.close()


def test_the_resume_address_goes_on_in_another_browser_when_its_button_is_pressed(site):
    client, other = browser(site), browser(site)
    state = send(client, begin(client)).json()["state"]
    page = other.get(state["resume"], follow_redirects=False)
    assert page.status_code == 200
    assert "set-cookie" not in page.headers
    assert other.get("/api/state").status_code == 401  # looking at the address has changed nothing
    assert '<form method="post">' in page.text  # to its own address
    reply = other.post(state["resume"], follow_redirects=False)
    assert (reply.status_code, reply.headers["location"]) == (303, "../")
    assert other.get("/api/state").json() == state
    assert other.get(state["resume"], follow_redirects=False).status_code == 303  # it is theirs already
    assert other.get("/resume/nobody").status_code == 404
    assert other.post("/resume/nobody").status_code == 404


def test_the_resume_address_asks_before_it_replaces_the_session_of_another_listener(site):
    mine, theirs = browser(site), browser(site)
    state, other = begin(mine), begin(theirs)
    page = theirs.get(state["resume"])
    assert "Another listener" in page.text
    assert theirs.get("/api/state").json() == other
    # a page opened from another site does not send the cookie, and could not know: its button is not enough
    assert "Another listener" in theirs.post(state["resume"]).text
    assert theirs.post(state["resume"], data={"instead": "guessed"}).status_code == 200
    assert theirs.get("/api/state").json() == other
    name, value = re.search(r'name="(\w+)" value="(\w+)"', page.text).groups()
    assert theirs.post(state["resume"], data={name: value}, follow_redirects=False).status_code == 303
    assert theirs.get("/api/state").json() == state
    assert begin(theirs) == state


def test_a_finished_listener_is_replaced_without_a_question(site):
    mine, theirs = browser(site), browser(site)
    state = begin(mine)
    finish(theirs, begin(theirs))
    assert "Another listener" not in theirs.get(state["resume"]).text
    assert theirs.post(state["resume"], follow_redirects=False).status_code == 303
    assert theirs.get("/api/state").json() == state


def test_a_recruit_returns_to_their_place_on_any_device_and_another_recruit_begins_anew(site):
    one, two = browser(site), browser(site)
    state = send(one, begin(one, PROLIFIC_PID="p")).json()["state"]
    assert begin(two, PROLIFIC_PID="p") == state
    assert begin(two, PROLIFIC_PID="q")["position"] == 0  # the same computer, another person
    assert begin(one) == state  # known by the cookie
    assert len(site.state.sessions.store.listeners()) == 2


def test_an_answer_on_one_device_moves_the_other_on(site):
    one, two = browser(site), browser(site)
    state = begin(one, PROLIFIC_PID="p")
    begin(two, PROLIFIC_PID="p")
    after = send(one, state).json()["state"]
    reply = send(two, state, "other").json()
    assert (reply["again"], reply["state"]) == (True, after)
    assert two.get("/api/state").json() == after


def test_two_servers_of_one_study_never_store_an_answer_twice(study, database):
    sites = [app(study, database) for _ in range(2)]
    one, two = map(browser, sites)
    state = begin(one, PROLIFIC_PID="p")
    assert begin(two, PROLIFIC_PID="p") == state
    for k in range(4):
        new = send((one, two)[k % 2], state, f"a{k}").json()
        old = send((two, one)[k % 2], state, f"b{k}").json()  # this one has not heard of it yet
        assert (new["again"], old["again"]) == (False, True)
        assert new["state"] == old["state"]
        state = new["state"]
    assert [a["attempt"] for a in sites[0].state.sessions.store.answers()] == ["a0", "a1", "a2", "a3"]
    for site in sites:
        site.state.sessions.store.close()


def test_sounds_are_wav_files_of_equal_length_and_their_hash_is_proof_of_playback(site):
    client = browser(site)
    state = begin(client)
    while not state["screen"]["sounds"]:
        state = send(client, state).json()["state"]
    wavs = {s["label"]: client.get(s["url"]) for s in state["screen"]["sounds"]}
    assert {r.headers["content-type"] for r in wavs.values()} == {"audio/wav"}
    assert {r.headers["cache-control"] for r in wavs.values()} == {"no-store"}
    assert len({len(r.content) for r in wavs.values()}) == 1
    hashes = {}
    for label, reply in wavs.items():
        with wave.open(io.BytesIO(reply.content)) as file:
            hashes[label] = hashlib.sha256(file.readframes(file.getnframes())).hexdigest()
    assert len(set(hashes.values())) == 3  # not even equal sounds are equal files
    playback = [
        {"label": label, "digest": h, "rate_hz": 48000, "plays": 1, "switches": 0, "played_s": 0.3}
        for label, h in hashes.items()
    ]
    playback[0]["digest"] = "0" * 64
    playback[1]["plays"] = 0
    assert send(client, state, playback=playback).status_code == 200
    stored = site.state.sessions.store.answers()[-1]["playback"]
    assert [p["proved"] for p in stored] == [False, False, True]
    assert stored[2] == playback[2] | {"proved": True, "length_s": 0.3}


def test_an_adaptive_study_goes_on_after_a_restart_as_if_nothing_had_happened(
    tmp_path, new_database: Callable[[], str]
):
    study = studies.write(tmp_path / "jnd", steps=studies.JND)

    def levels(restart: bool) -> list[float]:
        url = new_database()
        site = app(study, url)
        client = browser(site)
        state = begin(client, participant="same")
        while not state["done"]:
            state = send(
                client, state, answer={"answer": "different" if state["position"] % 2 else "same"}
            ).json()["state"]
            if restart:
                site.state.sessions.store.close()
                site = app(study, url)
                client = TestClient(site, headers=HEADERS, cookies=client.cookies)
        rows = site.state.sessions.store.answers()
        site.state.sessions.store.close()
        return [r["facts"]["strength"] for r in rows]

    steady = levels(restart=False)
    assert len(steady) == 7
    assert len(set(steady)) > 3
    assert levels(restart=True) == steady


def test_wrong_answers_are_refused_with_a_sentence_and_nothing_is_stored(site):
    client = browser(site)
    state = begin(client)
    good = {"screen": state["screen"]["id"], "attempt": "a", "answer": {"consent": "agree"}}
    for wrong, words in [
        ({"answer": {}}, "consent: an answer is needed"),
        ({"answer": {"consent": "no"}}, "expected one of agree"),
        ({"answer": []}, "answer"),
        ({"screen": "0" * 32}, "was not shown to you"),
        ({"attempt": ""}, "attempt"),
        ({"attempt": "a b"}, "attempt"),
        ({"response_ms": -1}, "response_ms"),
        ({"playback": [{"label": "Z"}]}, "no sound 'Z'"),
        ({"playback": [{"label": "A", "digest": "xyz"}]}, "digest"),
        ({"strange": 1}, "strange"),
    ]:
        reply = client.post("/api/answer", json=good | wrong)
        assert reply.status_code == 422, (wrong, reply.text)
        assert words in reply.json()["error"]
    assert site.state.sessions.store.answers() == []
    assert client.post("/api/answer", json=good).status_code == 200


def test_the_door_closes_when_enough_have_come_and_lets_those_inside_finish(tmp_path, database):
    site = app(studies.write(tmp_path / "two", listeners=2), database, limits=CLASSROOM)
    one, two, three, four = (browser(site) for _ in range(4))
    states = [begin(client) for client in (one, two, three)]
    states[:2] = [hear(client, state) for client, state in zip((one, two), states, strict=False)]
    reply = four.post("/api/begin", json={})
    assert reply.status_code == 403
    assert "all the listeners" in reply.json()["error"]
    with pytest.raises(AssertionError, match="all the listeners"):
        hear(three, states[2])  # has read for too long
    for client, state in zip((one, two), states, strict=False):
        assert finish(client, state)["done"]
    assert site.state.sessions.store.progress()["finished"] == 2
    site.state.sessions.store.close()


def test_a_closed_study_says_so(site):
    client = browser(site)
    state = begin(client)
    site.state.sessions.store.close_study()
    assert send(client, state).status_code == 403
    assert browser(site).post("/api/begin", json={}).status_code == 403
    assert "closed" in send(client, state).json()["error"]


def test_without_a_cookie_there_is_no_state(site):
    client = browser(site)
    for reply in (
        client.get("/api/state"),
        client.get("/audio/x"),
        client.post("/api/event", json={"kind": "hidden", "screen": "x"}),
    ):
        assert reply.status_code == 401
        assert "begin" in reply.json()["error"]
    assert TestClient(site, cookies={site.state.cookie: "made-up"}).get("/api/state").status_code == 401


def test_events_of_the_page_are_noted_from_consent_to_the_last_answer(site):
    client = browser(site)

    def note(state: Any, kind: str = "hidden") -> Any:
        return client.post("/api/event", json={"kind": kind, "screen": state["screen"]["id"]})

    asked = begin(client)
    assert note(asked).json() == {"stored": False}
    agreed = send(client, asked).json()["state"]
    assert note(agreed).json() == note(agreed, "sound.broken").json() == {"stored": True}
    for strange in (
        {"kind": "simulated"},
        {"kind": "hidden", "screen": "no screen"},
        {"kind": "hidden", "data": {}},
    ):
        assert client.post("/api/event", json={"screen": agreed["screen"]["id"]} | strange).status_code == 422
    finish(client, agreed)
    assert note(agreed).json() == {"stored": False}
    site.state.sessions.store.close_study()
    noted = [(e["listener"], e["position"], e["kind"]) for e in site.state.sessions.store.events()]
    assert noted == [(1, 1, "hidden"), (1, 1, "sound.broken")]


def test_the_administrator_sees_progress_and_answers_but_nothing_personal(site):
    client = browser(site)
    finish(client, begin(client, PROLIFIC_PID="secret-pid"))
    begin(browser(site))
    hear(other := browser(site), begin(other))
    bearer = {"Authorization": f"Bearer {site.state.token}"}
    progress = client.get("/api/admin/progress", headers=bearer).json()
    assert (progress["finished"], progress["active"], progress["starting"], progress["wanted"]) == (
        1,
        1,
        1,
        20,
    )
    assert progress["groups"]["g1"] == {"finished": 1, "active": 1, "dropped": 0, "starting": 0, "left": 0}
    assert progress["storage_problem"] == ""
    table = client.get("/api/admin/export.csv", headers=bearer)
    assert table.headers["content-type"].startswith("text/csv")
    assert len(table.text.strip().splitlines()) == progress["answers"] + 1
    assert "secret-pid" not in table.text


def test_too_many_requests_are_asked_to_wait(study, database):
    site = app(study, database, limits=Limits(listener_per_s=0.01, listener_burst=5))
    client, other = browser(site), browser(site)
    begin(client)
    begin(other)
    replies = [client.get("/api/state") for _ in range(8)]
    assert [r.status_code for r in replies] == [200] * 5 + [429] * 3
    assert int(replies[-1].headers["retry-after"]) > 50
    assert "Wait" in replies[-1].json()["error"]
    assert other.get("/api/state").status_code == 200
    site.state.sessions.store.close()


def test_the_page_and_its_parts_are_served(site):
    client = browser(site)
    page = client.get("/?PROLIFIC_PID=p")
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
    for name in re.findall(r'(?:src|href)="(static/[^"]+)"', page.text):
        assert client.get(f"/{name}").status_code == 200, name

"""What a listener, or anyone else, must not be able to learn or do."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import studies
from fastapi.testclient import TestClient

from limen.core.errors import UserError
from limen.listening.server.app import app
from limen.listening.server.limits import Limits

HEADERS = {"X-Limen": "1"}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Any]:
    steps = [
        *studies.STEPS[:-2],
        {"name": "mushra", "trials": 1},
        {"name": "preference", "trials": 1},
        *studies.JND,
        *studies.STEPS[-2:],
    ]
    made = app(studies.write(tmp_path / "s", steps=steps, title="A <b>small</b> study & more"))
    yield made
    made.state.sessions.store.close()


def browser(site: Any, **more: Any) -> TestClient:
    return TestClient(site, headers=HEADERS, **more)


def begin(client: TestClient, **parameters: str) -> dict[str, Any]:
    return client.post("/api/begin", json={"parameters": parameters}).json()


def answer(client: TestClient, state: dict[str, Any], **more: Any) -> Any:
    body = {
        "screen": state["screen"]["id"],
        "attempt": "a",
        "answer": studies.replies(state["screen"]),
    } | more
    return client.post("/api/answer", json=body)


def test_no_reply_of_a_whole_run_holds_a_file_name_a_condition_an_id_or_a_factor(site):
    client = browser(site)
    seen: list[bytes] = []

    def keep(reply: Any) -> Any:
        seen.append(reply.content + repr(reply.headers.multi_items()).encode() + str(reply.url).encode())
        return reply

    state = keep(client.post("/api/begin", json={})).json()
    while not state["done"]:
        keep(client.get("/api/state"))
        for sound in state["screen"]["sounds"]:
            keep(client.get(sound["url"]))
        keep(
            client.post(
                "/api/answer", json={"screen": state["screen"]["id"], "attempt": "x", "answer": {"no": 1}}
            )
        )
        state = keep(answer(client, state)).json()["state"]
    for path in ("/", "/admin", "/api/openapi.json", "/audio/x", "/api/admin/progress", "/nothing"):
        keep(client.get(path))
    assert len(seen) > 60
    everything = b"\n".join(seen).lower()
    for word in (*studies.SECRETS, ".wav", "low-pass", "catch", "sentinel"):
        if word in ("catch", "sentinel"):  # the words of the API's own schema are no secret
            everything_but_schema = b"\n".join(s for s in seen if b"openapi" not in s).lower()
            assert word.encode() not in everything_but_schema, word
        else:
            assert word.encode() not in everything, word


def test_ids_and_lengths_of_sounds_do_not_tell_what_x_is(site):
    client = browser(site)
    state = begin(client)
    urls: set[str] = set()
    while not state["done"]:
        sounds = state["screen"]["sounds"]
        assert len({len(client.get(s["url"]).content) for s in sounds}) <= 1
        assert not urls & {s["url"] for s in sounds}
        urls |= {s["url"] for s in sounds}
        state = answer(client, state).json()["state"]


def test_sounds_and_screens_of_another_listener_or_another_screen_are_out_of_reach(site):
    one, two = browser(site), browser(site)
    first, second = begin(one), begin(two)
    while not first["screen"]["sounds"]:
        first = answer(one, first).json()["state"]
    url = first["screen"]["sounds"][0]["url"]
    assert one.get(url).status_code == 200
    assert two.get(url).status_code == 404
    assert TestClient(site).get(url).status_code == 401
    assert answer(two, second, screen=first["screen"]["id"]).status_code == 422
    after = answer(one, first).json()["state"]
    assert one.get(url).status_code == 404  # the screen is past
    assert one.get(after["screen"]["sounds"][0]["url"]).status_code == 200
    assert [a["listener"] for a in site.state.sessions.store.answers()] == [1] * after["position"]


@pytest.mark.parametrize(
    "path",
    [
        "/../study.yaml",
        "/static/../study.yaml",
        "/static/..%2f..%2fserver.py",
        "/static/%2e%2e/%2e%2e/server.py",
        "/static/....//server.py",
        "/audio/../study.yaml",
        "/audio/..%2fstudy.yaml",
        "/audio/audio%2fzebra_7f_0.wav",
        "/audio/%00",
        "/static/%00",
        "/static//etc/passwd",
        "/static/",
        "/static",
        "/audio/",
        "/resume/",
        "/resume/..%2f",
        "/small.db",
        "/.limen_sounds/",
        "/static/\\..\\..\\server.py",
    ],
)
def test_no_path_leads_out_of_the_pages_or_lists_a_folder(site, path):
    client = browser(site)
    begin(client)
    reply = client.get(path, follow_redirects=False)
    assert reply.status_code in (401, 404, 405), reply.text
    assert b"zebra" not in reply.content
    assert b"import" not in reply.content


def test_a_study_file_cannot_play_files_outside_its_folder(tmp_path):
    studies.tone(tmp_path / "outside.wav", 300)
    (tmp_path / "s").mkdir()
    for file in ("../outside.wav", str(tmp_path / "outside.wav"), "link.wav", "no\0name.wav"):
        item = {"id": "i", "files": {"a": file, "b": file}}
        path = studies.write(tmp_path / "s", steps=["abx"], items=[item])
        (tmp_path / "s" / "link.wav").unlink(missing_ok=True)
        (tmp_path / "s" / "link.wav").symlink_to(tmp_path / "outside.wav")
        with pytest.raises(
            UserError, match=r"no such file in the folder of the study|must not contain the character NUL"
        ):
            app(path)


@pytest.mark.parametrize("method", ["POST"])
@pytest.mark.parametrize("path", ["/api/begin", "/api/answer", "/api/event"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-Limen": "0"},
        {"X-Limen": "1", "Origin": "https://evil.example"},
        {"X-Limen": "1", "Origin": "null"},
        {"X-Limen": "1", "Origin": "http://testserver.evil.example"},
        {"X-Limen": "1", "Sec-Fetch-Site": "cross-site"},
        {"X-Limen": "1", "Origin": "http://testserver:81"},
    ],
)
def test_requests_forged_by_another_site_are_refused(site, method, path, headers):
    client = browser(site)
    begin(client)
    forged = TestClient(site, cookies=client.cookies)
    reply = forged.request(method, path, json={}, headers=headers)
    assert reply.status_code == 403
    assert reply.json()["error"]


def test_the_operator_is_told_once_of_a_proxy_that_changes_the_host(site, caplog):
    for _ in range(3):
        client = TestClient(
            site, headers={"X-Limen": "1", "Origin": "https://study.example", "Sec-Fetch-Site": "same-origin"}
        )
        assert client.post("/api/begin", json={}).status_code == 403
    (said,) = [record.getMessage() for record in caplog.records if record.name == "limen.listening"]
    assert "https://study.example was refused" in said
    assert "arrived with the host testserver" in said


def test_one_customer_of_ipv6_has_one_share_of_requests_and_of_wrong_tokens(tmp_path):
    limits = Limits(address_per_s=0.001, address_burst=5, token_per_s=0.001, token_burst=2)
    site = app(studies.write(tmp_path / "s"), token="right", limits=limits)

    def status(host: str) -> int:
        client = TestClient(site, client=(host, 5000), headers={"Authorization": "Bearer wrong"})
        return client.get("/api/admin/progress").status_code

    assert [status(f"2001:db8::{k}") for k in range(7)] == [401, 401, 429, 429, 429, 429, 429]
    assert status("2001:db8:0:1::1") == 401
    reply = TestClient(site, client=("2001:db8::99", 5000)).get("/")
    assert (reply.status_code, "Too many requests" in reply.text) == (429, True)
    site.state.sessions.store.close()


def test_our_own_page_is_believed(site):
    client = TestClient(
        site, headers={"X-Limen": "1", "Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}
    )
    assert client.post("/api/begin", json={}).status_code == 200


def test_bodies_have_a_longest_length_however_they_are_sent(site):
    client = browser(site)
    begin(client)
    long = json.dumps({"kind": "x", "data": {"x": "y" * 70_000}}).encode()
    assert client.post("/api/event", content=long).status_code == 413
    assert (
        client.post("/api/event", content=iter([long[:1000], long[1000:]])).status_code == 413
    )  # no length said beforehand
    assert client.post("/admin", content=b"token=" + b"x" * 70_000).status_code == 413
    lie = client.post("/api/event", content=long, headers={"Content-Length": "10"})
    assert lie.status_code == 413


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"null",
        b"[]",
        b"5",
        b'"x"',
        b'{"kind": "\\u0000"}',
        b'{"kind": "x", "data": {"a": "\\u0000"}}',
        b'{"kind": "x", "data": {"a": "\\ud800"}}',
        b'{"kind": "x", "data": {"\\ud800": 1}}',
        b'{"kind": "x", "data": {"a": NaN}}',
        b'{"kind": "x", "data": {"a": 1e999}}',
        b'{"kind": "x", "data": {"a": ' + b"9" * 5000 + b"}}",
        b'{"kind": "x", "data": {"a": ' + b"9" * 400 + b"}}",
        b'{"kind": "x", "data": {"a": ' + b"[" * 20_000 + b"]" * 20_000 + b"}}",
        b'{"kind": "x", "data": ' + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b"}",
        b'{"kind": "\xc3\x28"}',
        b'{"\\ud800": 1}',
    ],
)
@pytest.mark.parametrize("path", ["/api/begin", "/api/answer", "/api/event"])
def test_hostile_bodies_get_a_sentence_and_never_a_server_error(site, path, body):
    client = browser(site)
    begin(client)
    reply = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert 400 <= reply.status_code < 500, reply.text
    assert reply.json()["error"]


def test_hostile_text_is_stored_as_it_came_and_escaped_where_it_is_shown(site):
    client = browser(site)
    text = "<script>alert(1)</script>' OR 1=1; DROP TABLE answers; --"
    state = begin(client, PROLIFIC_PID=text)
    while state["screen"]["kind"] != "naturalness":
        state = answer(client, state).json()["state"]
    reply = answer(client, state, answer=studies.replies(state["screen"]) | {"word": f"other:{text}"})
    assert reply.status_code == 200
    assert site.state.sessions.store.answers()[-1]["answer"]["word"] == f"other:{text}"
    assert site.state.sessions.store.recruits()[0]["data"] == {"PROLIFIC_PID": text}
    page = client.get("/admin", headers={"Authorization": f"Bearer {site.state.token}"}).text
    assert "A &lt;b&gt;small&lt;/b&gt; study &amp; more" in page
    assert "<script" not in page


def test_every_reply_carries_the_headers_that_keep_a_page_shut(site):
    client = browser(site)
    for reply in (
        client.get("/"),
        client.get("/api/state"),
        client.get("/nothing"),
        client.post("/api/begin", content=b"{"),
        TestClient(site).post("/api/begin"),
        client.get("/admin"),
    ):
        policy = reply.headers["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "same-origin"


def test_the_cookie_is_out_of_reach_of_scripts_and_of_other_sites(site):
    plain = browser(site).post("/api/begin", json={}).headers["set-cookie"].lower()
    assert "httponly" in plain
    assert "samesite=strict" in plain
    assert "secure" not in plain
    assert (
        "secure"
        in browser(site, base_url="https://testserver")
        .post("/api/begin", json={})
        .headers["set-cookie"]
        .lower()
    )


@pytest.mark.parametrize(
    "path", ["/api/admin/progress", "/api/admin/export.csv", "/api/admin/codebook.csv", "/admin"]
)
def test_the_administrators_side_needs_the_token(site, path):
    client = browser(site)
    begin(client)
    assert client.get(path).status_code == 401
    for wrong in (
        "Bearer x",
        f"Bearer {site.state.token}x",
        "Bearer ",
        f"Basic {site.state.token}",
        site.state.token,
        "Bearer é".encode(),
    ):
        assert client.get(path, headers={"Authorization": wrong}).status_code == 401
    assert client.get(path, headers={"Authorization": f"Bearer {site.state.token}"}).status_code == 200


def test_the_token_can_be_typed_into_a_form_and_the_cookie_then_does_not_hold_it(site):
    client = TestClient(site)
    assert client.post("/admin", data={"token": "wrong"}).status_code == 401
    assert (
        client.post(
            "/admin", data={"token": site.state.token}, headers={"Origin": "https://evil.example"}
        ).status_code
        == 403
    )
    reply = client.post("/admin", data={"token": site.state.token}, follow_redirects=False)
    assert reply.status_code == 303
    assert site.state.token not in reply.headers["set-cookie"]
    assert client.get("/admin").status_code == 200
    assert client.get("/api/admin/progress").json()["name"] == "small"


def test_tokens_cannot_be_tried_without_end(tmp_path):
    site = app(studies.write(tmp_path / "s"), token="right", limits=Limits(token_per_s=0.001, token_burst=3))
    client = browser(site)
    replies = [
        client.get("/api/admin/progress", headers={"Authorization": f"Bearer {k}"}).status_code
        for k in range(6)
    ]
    assert replies == [401] * 3 + [429] * 3
    # an operator who shares the address is let in
    assert client.get("/api/admin/progress", headers={"Authorization": "Bearer right"}).status_code == 200
    site.state.sessions.store.close()


def test_a_listeners_key_is_no_token_and_cannot_be_guessed_from_another(site):
    one, two = browser(site), browser(site)
    begin(one)
    begin(two)
    assert one.cookies[site.state.cookie] != two.cookies[site.state.cookie]
    key = one.cookies[site.state.cookie]
    assert len(key) == 32
    assert one.get("/api/admin/progress", headers={"Authorization": f"Bearer {key}"}).status_code == 401


def test_a_sound_that_cannot_be_made_is_not_named_to_the_listener(tmp_path):
    path = studies.write(tmp_path / "s")
    site = app(path)
    client = TestClient(site, headers=HEADERS, raise_server_exceptions=False)
    state = begin(client)
    for file in (tmp_path / "s" / "audio").iterdir():
        file.write_bytes(b"no audio")
    while not state["screen"]["sounds"]:
        state = answer(client, state).json()["state"]
    reply = client.get(state["screen"]["sounds"][0]["url"])
    assert reply.status_code == 500
    assert not any(word in reply.text for word in studies.SECRETS)
    assert "tell the people who run the study" in reply.json()["error"]
    site.state.sessions.store.close()

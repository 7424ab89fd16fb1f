"""Requests made from the server's own description, right ones and wrong ones: none ends in a server error,
and replies are as described."""

import json
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import studies
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from limen.listening.server.app import app
from limen.listening.server.limits import Limits

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
OPERATIONS = {
    "/api/begin": "POST",
    "/api/state": "GET",
    "/api/answer": "POST",
    "/api/event": "POST",
    "/audio/{opaque}": "GET",
    "/resume/{key}": "GET",
    "/api/admin/progress": "GET",
    "/api/admin/export.csv": "GET",
    "/api/admin/codebook.csv": "GET",
    "/api/decline": "POST",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    endless = {
        f"{who}_{what}": 10**6
        for who in ("listener", "address", "begin", "token")
        for what in ("per_s", "burst")
    }
    made = app(
        studies.write(Path(tmp_path_factory.mktemp("api")), listeners=100_000), limits=Limits(**endless)
    )
    yield made
    made.state.sessions.store.close()


@pytest.fixture(scope="module")
def listener(site: Any) -> dict[str, str]:
    client = TestClient(site, headers={"X-Limen": "1"})
    client.post("/api/begin", json={})
    return dict(client.cookies)


@pytest.fixture(scope="module")
def schema(site: Any) -> Any:
    return schemathesis.openapi.from_asgi("/api/openapi.json", site)


def test_the_description_names_every_path(site):
    assert sorted(site.openapi()["paths"]) == sorted(OPERATIONS)


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        (path, mode)
        for path, method in OPERATIONS.items()
        for mode in GenerationMode
        if (method == "POST" and path != "/api/decline")  # it has no body: nothing could be wrong with it
        or mode is GenerationMode.POSITIVE
    ],
)
def test_no_request_ends_in_a_server_error(path, mode, schema, site, listener):
    operation = schema[path][OPERATIONS[path]]

    @seed(5)
    @settings(
        max_examples=120,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        case.call_and_validate(
            headers={"X-Limen": "1", "Authorization": f"Bearer {site.state.token}"},
            cookies=listener,
            checks=CHECKS,
        )

    run()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


def test_no_answer_to_a_screen_that_is_shown_ends_in_a_server_error(site):
    client = TestClient(site, headers={"X-Limen": "1"})
    state = client.post("/api/begin", json={}).json()
    while not state["screen"]["sounds"]:
        body = {"screen": state["screen"]["id"], "attempt": "a", "answer": studies.replies(state["screen"])}
        state = client.post("/api/answer", json=body).json()["state"]
    names = [w["name"] for w in state["screen"]["widgets"]]

    @seed(5)
    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        answer=st.dictionaries(st.sampled_from(names) | st.text(max_size=3), JSON, max_size=3) | JSON,
        playback=JSON,
    )
    def run(answer: Any, playback: Any) -> None:
        body = {"screen": state["screen"]["id"], "attempt": "a", "answer": answer, "playback": playback}
        reply = client.post(
            "/api/answer", content=json.dumps(body), headers={"Content-Type": "application/json"}
        )
        assert reply.status_code in (400, 413, 422), reply.text
        assert reply.json()["error"]

    run()

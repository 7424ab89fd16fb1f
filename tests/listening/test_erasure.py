"""`limen listen erase` holds against a server that goes on: what is personal does not come back, and nothing
of it is left in the file."""

from pathlib import Path
from typing import Any

import pytest
import studies
from serving import Server, Visitor

from limen.listening.server.store import Store

STEPS: list[Any] = ["consent", {"name": "abx", "trials": 1}, "demographics", "comments"]


def note(visitor: Visitor, state: dict[str, Any]) -> int:
    return visitor.ask("POST", "/api/event", {"kind": "hidden", "screen": state["screen"]["id"]})[0]


def test_a_listener_who_was_erased_while_at_it_can_add_nothing_any_more(
    tmp_path: Path, database: str
) -> None:
    with Server(studies.write(tmp_path / "s", STEPS), database_url=database) as server:
        visitor, store = Visitor(server), Store(database)
        state = visitor.begin(PROLIFIC_PID="p1")[1]
        while state["screen"]["kind"] != "demographics":
            state = visitor.answer(state)[1]["state"]
        assert note(visitor, state) == 200
        before = store.answers()
        store.erase(1)
        status, refusal = visitor.answer(state)
        assert (status, "to begin" in refusal["error"]) == (401, True)
        assert note(visitor, state) == visitor.ask("GET", "/api/state")[0] == 401
        assert store.personal() == store.recruits() == store.events() == []
        assert store.answers() == before
        status, again = visitor.begin(PROLIFIC_PID="p1")
        assert (status, again["position"]) == (200, 0)  # as somebody new
        assert visitor.take(again)["done"]
        assert {row["listener"] for row in store.personal()} == {2}
        store.close()


@pytest.mark.parametrize("forget", [lambda store: store.erase(1), lambda store: store.decline(1, 2)])
def test_what_was_erased_is_in_no_file_of_sqlite_while_others_have_it_open(
    tmp_path: Path, forget: Any
) -> None:
    with Server(studies.write(tmp_path / "s", ["demographics", "comments", "consent"])) as server:
        visitor, store = Visitor(server), Store(tmp_path / "s" / "small.db")
        state = visitor.begin(PROLIFIC_PID="an-identifier-of-a-person")[1]
        for words in ({"gender": "other:a-rare-word"}, {"comments": "a-rare-remark"}):
            body = {"screen": state["screen"]["id"], "attempt": "a", "answer": words}
            status, reply = visitor.ask("POST", "/api/answer", body)
            assert status == 200, reply
            state = visitor.state()
        told = (b"an-identifier", b"a-rare-word", b"a-rare-remark")
        assert all(any(word in held for held in files(tmp_path)) for word in told)
        forget(store)
        assert not [word for word in told if any(word in held for held in files(tmp_path))]
        store.close()


def files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.glob("s/small.db*")]

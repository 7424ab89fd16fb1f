"""What a stranger could do to a study, on a real server over HTTP: fill it, hold it, or be taken for another
listener."""

import csv
import json
import socket
import time
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import studies
from serving import Server, Visitor
from typer.testing import CliRunner

from limen.cli.app import app
from limen.listening.server.limits import network_of
from limen.listening.study import Recruitment

SHORT: list[Any] = ["consent", {"name": "abx", "trials": 1}]


def listen(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["listen", *map(str, arguments)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def progress(server: Server) -> dict[str, Any]:
    return dict(
        json.loads(Visitor(server).ask("GET", "/api/admin/progress", Authorization="Bearer sesame")[1])
    )


def test_empty_begin_calls_from_one_address_fill_no_place_and_thirty_others_still_take_the_study(
    tmp_path: Path,
) -> None:
    with Server(studies.write(tmp_path / "s", SHORT, listeners=30)) as server:
        statuses = Counter(Visitor(server).begin()[0] for _ in range(25))
        assert statuses == {200: 3, 429: 22}  # a tenth of thirty
        assert "127.0.0.1: a new listener has to wait" in server.log("--per-address")
        told = progress(server)
        assert (told["starting"], told["active"]) == (3, 0)
        for k in range(30):
            visitor = Visitor(server, f"127.0.1.{k + 1}")
            status, state = visitor.begin()
            assert status == 200, state
            assert visitor.take(state)["done"]
        assert progress(server)["finished"] == 30
        status, refusal = Visitor(server, "127.0.2.1").begin()
        assert (status, "all the listeners" in refusal["error"]) == (403, True)


def test_a_place_is_taken_with_the_first_sound_heard_and_not_with_consent(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", SHORT, listeners=1)) as server:
        first, second = Visitor(server), Visitor(server, "127.0.1.1")
        agreed = first.answer(first.begin()[1])[1]["state"]
        status, state = second.begin()
        assert status == 200
        assert second.take(state)["done"]
        status, refusal = first.answer(agreed)
        assert (status, "all the listeners" in refusal["error"]) == (403, True)
        assert progress(server)["answers"] == 3


def test_without_a_consent_page_the_first_sound_takes_the_place_too(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", SHORT[1:], listeners=1)) as server:
        visitor = Visitor(server)
        state = visitor.begin()[1]
        assert progress(server)["starting"] == 1
        visitor.answer(state)
        assert progress(server)["finished"] == 1


def test_a_classroom_behind_one_address_begins_at_once_when_the_operator_says_so(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", SHORT, listeners=30), limits={"begin_burst": 20}) as server:
        assert [Visitor(server).begin()[0] for _ in range(21)] == [200] * 20 + [429]


def test_who_has_finished_leaves_room_for_the_next_from_the_same_address(tmp_path: Path) -> None:
    with Server(
        studies.write(tmp_path / "s", SHORT, listeners=30), limits={"begin_burst": 2, "begin_per_s": 1000}
    ) as server:
        visitors = [Visitor(server) for _ in range(4)]
        states = [visitor.begin() for visitor in visitors]
        assert [status for status, _ in states] == [200, 200, 429, 429]
        visitors[0].take(states[0][1])
        assert [visitor.begin()[0] for visitor in visitors[2:]] == [200, 429]


def test_a_page_that_only_asks_for_its_screen_keeps_no_place_from_others(tmp_path: Path) -> None:
    study = studies.write(tmp_path / "s", [SHORT[0], {"name": "abx", "trials": 2}], listeners=1)
    with Server(study, idle_timeout_min=0.05, limits={"begin_burst": 1000}) as server:
        idle, other = Visitor(server), Visitor(server, "127.0.1.1")
        state = idle.begin()[1]
        for _ in range(2):
            state = idle.answer(state)[1]["state"]
        deadline = time.monotonic() + 60
        while (begun := other.begin())[0] == 403 and time.monotonic() < deadline:
            time.sleep(0.25)
            idle.state()
            idle.begin()
        assert begun[0] == 200, begun
        assert other.take(begun[1])["done"]
        assert idle.take(idle.state())["done"]  # who returns goes on all the same


def test_one_address_holds_few_places_at_once_and_others_still_come(tmp_path: Path) -> None:
    study = studies.write(tmp_path / "s", [SHORT[0], {"name": "abx", "trials": 2}], listeners=30)
    with Server(study, limits={"begin_per_s": 1000}) as server:
        held = []
        for _ in range(3):  # a tenth of thirty
            visitor = Visitor(server)
            state = visitor.begin()[1]
            for _ in range(2):
                state = visitor.answer(state)[1]["state"]
            held.append((visitor, state))
        assert progress(server)["active"] == 3
        status, refusal = Visitor(server).begin()
        assert (status, "from your network are taking part" in refusal["error"]) == (429, True)
        assert Visitor(server, "127.0.1.1").begin()[0] == 200
        visitor, state = held[0]
        assert visitor.take(state)["done"]
        assert [Visitor(server).begin()[0] for _ in range(2)] == [200, 429]


def test_the_number_of_who_left_without_an_answer_goes_to_the_next_soon_and_coming_back_begins_again(
    tmp_path: Path,
) -> None:
    with Server(
        studies.write(tmp_path / "s", SHORT, listeners=30), start_timeout_min=0.02, limits={"begin_burst": 9}
    ) as server:
        first, second = Visitor(server), Visitor(server)
        state = first.begin()[1]
        time.sleep(1.5)
        following = second.begin()[1]
        assert progress(server)["left"] == 1
        status, refusal = first.answer(state)
        assert (status, "begins again" in refusal["error"]) == (409, True)
        assert first.take(first.state())["done"]
        assert second.take(following)["done"]


@pytest.mark.parametrize("shared", ["STUDY_ID", "SESSION_ID", "hitId", "assignmentId"])
def test_people_who_come_with_the_same_identifier_of_a_study_or_visit_are_different_listeners(
    tmp_path: Path, shared: str
) -> None:
    with Server(studies.write(tmp_path / "s", SHORT), limits={"begin_burst": 9}) as server:
        one, two = Visitor(server), Visitor(server)
        agreed = one.answer(one.begin(**{shared: "the same"})[1])[1]["state"]
        state = two.begin(**{shared: "the same"})[1]
        assert (agreed["position"], state["position"]) == (1, 0)  # the second has not agreed yet
        assert one.cookies != two.cookies


@pytest.mark.parametrize("who", ["PROLIFIC_PID", "workerId", "participantId"])
def test_a_person_is_one_listener_with_any_session_and_two_persons_are_two_with_the_same(
    tmp_path: Path, who: str
) -> None:
    with Server(studies.write(tmp_path / "s", SHORT), limits={"begin_burst": 9}) as server:
        one, again, other = Visitor(server), Visitor(server), Visitor(server)
        agreed = one.answer(one.begin(**{who: "p", "SESSION_ID": "s", "assignmentId": "a"})[1])[1]["state"]
        assert again.begin(**{"assignmentId": "b", "SESSION_ID": "t", who: "p"})[1] == agreed
        assert other.begin(**{who: "q", "SESSION_ID": "s"})[1]["position"] == 0


def test_another_person_at_the_same_browser_is_not_shown_the_session_of_the_first(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", SHORT)) as server:
        visitor = Visitor(server)
        visitor.answer(visitor.begin(PROLIFIC_PID="p")[1])
        assert visitor.ask("GET", "/api/state?PROLIFIC_PID=p")[0] == 200
        assert visitor.ask("GET", "/api/state?STUDY_ID=s")[0] == 200
        assert visitor.ask("GET", "/api/state?PROLIFIC_PID=q")[0] == 401


def test_another_site_names_its_own_parameters(tmp_path: Path) -> None:
    recruitment = {"person": ["panelist"], "parameters": ["wave"], "preview": ["demo"]}
    with Server(
        studies.write(tmp_path / "s", SHORT, recruitment=recruitment), limits={"begin_burst": 9}
    ) as server:
        one, two, three = (Visitor(server) for _ in range(3))
        agreed = one.answer(one.begin(panelist="7", wave="2")[1])[1]["state"]
        assert two.begin(panelist="7", wave="3")[1] == agreed
        assert three.begin(panelist="8", PROLIFIC_PID="7", wave="2")[1]["position"] == 0
        assert three.begin(wave="demo")[1]["preview"]


PREVIEWS = [
    {"assignmentId": "ASSIGNMENT_ID_NOT_AVAILABLE", "hitId": "h"},
    {"PROLIFIC_PID": "{{%PROLIFIC_PID%}}"},
    {"workerId": "${workerId}"},
]


@pytest.mark.parametrize("parameters", PREVIEWS)
def test_a_preview_shows_the_consent_text_and_stores_nothing(
    tmp_path: Path, parameters: dict[str, str]
) -> None:
    with Server(studies.write(tmp_path / "s", SHORT)) as server:
        for _ in range(25):
            visitor = Visitor(server)
            status, shown = visitor.begin(**parameters)
            assert (status, shown["preview"], visitor.cookies) == (200, True, {})
        assert [screen["kind"] for screen in shown["screens"]] == ["consent"]
        assert "Taking part is voluntary" in shown["screens"][0]["text"]
        assert json.loads(visitor.ask("GET", f"/api/state?{urlencode(parameters)}")[1]) == shown
        told = progress(server)
        assert {told[name] for name in ("starting", "active", "left", "answers")} == {0}


def test_no_stranger_can_have_the_answers_of_people_taken_for_simulated_ones(tmp_path: Path) -> None:
    study = studies.write(tmp_path / "s", SHORT, hypotheses=[])
    with Server(study) as server:
        visitor = Visitor(server)
        state = visitor.begin()[1]
        for body in (
            {"kind": "simulated", "data": {}},
            {"kind": "simulated", "screen": state["screen"]["id"]},
        ):
            assert visitor.ask("POST", "/api/event", body)[0] == 422
        assert visitor.take(state)["done"]
    assert "SIMULATED" not in listen("monitor", study)
    listen("export", study, tmp_path / "answers.csv")
    table = (tmp_path / "answers.csv").read_text().splitlines()
    assert [row["simulated"] for row in csv.DictReader(table)] == ["false"] * 2
    assert "SIMULATED" not in listen("analyze", study)
    assert (study.parent / "results.html").is_file()


def test_blanks_around_an_identifier_make_nobody_another_person() -> None:
    one, two = (Recruitment().who({"PROLIFIC_PID": words}) for words in ("Q1", " Q1 "))
    assert one == two == ("PROLIFIC_PID", "Q1")
    assert Recruitment().read({"PROLIFIC_PID": "Q1 ", "workerId": " "}) == {"PROLIFIC_PID": "Q1"}
    assert Recruitment().who({"PROLIFIC_PID": " "}) is None


def test_what_different_people_share_cannot_be_declared_to_name_one() -> None:
    with pytest.raises(ValueError, match="study_id, which different people share"):
        Recruitment(person=["STUDY_ID"])


def test_two_studies_on_one_host_do_not_log_each_other_out(tmp_path: Path) -> None:
    paths = [studies.write(tmp_path / name, SHORT, name=name) for name in ("one", "two")]
    paths.append(studies.write(tmp_path / "copy", SHORT, name="one"))  # the same name, another database
    servers = [Server(path) for path in paths]
    try:
        jar: dict[str, str] = {}  # browsers share cookies between all ports of a host
        visitors = [Visitor(server, cookies=jar) for server in servers]
        agreed = [visitor.answer(visitor.begin()[1])[1]["state"] for visitor in visitors]
        assert [visitor.state() for visitor in visitors] == agreed
        assert len(jar) == 3
        assert all(visitor.take(state)["done"] for visitor, state in zip(visitors, agreed, strict=True))
    finally:
        for server in servers:
            server.stop()


HALF = (
    b"POST /api/begin HTTP/1.1\r\nHost: x\r\nX-Limen: 1\r\nContent-Type: "
    b"application/json\r\nContent-Length: 1000\r\n\r\n{"
)
WHOLE = b"GET /api/state HTTP/1.1\r\nHost: x\r\n\r\n"
SLOW = {
    "half a body": (HALF, b""),
    "a body by the byte": (HALF, b"x"),
    "a chunk that never comes": (HALF.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked"), b""),
    "nothing": (b"", b""),
    "half a line": (b"GET / HT", b""),
    "endless headers": (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X-A: b\r\n"),
    "half of the next request": (WHOLE + b"GET /api/st", b"a"),
    "a body nobody reads": (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b""),
}
"""What is sent at once, and then every now and then."""


def test_half_a_request_is_given_up_in_time_while_others_are_served(tmp_path: Path) -> None:
    with Server(studies.write(tmp_path / "s", SHORT), limits={"request_s": 2}) as server:
        slow = [
            (kind, socket.create_connection(("127.0.0.1", server.port))) for kind in SLOW for _ in range(4)
        ]
        for kind, connection in slow:
            connection.sendall(SLOW[kind][0])
            connection.settimeout(0.05)
        visitor = Visitor(server, "127.0.1.1")
        assert visitor.take(visitor.begin()[1])["done"]
        deadline, still = time.monotonic() + 60, list(slow)
        while still and time.monotonic() < deadline:
            still = [
                (kind, connection) for kind, connection in still if not _ended(connection, SLOW[kind][1])
            ]
        assert not still, f"still open: {sorted({kind for kind, _ in still})}"
        assert progress(server)["finished"] == 1


def _ended(connection: socket.socket, drip: bytes) -> bool:
    """Whether the server has closed it; else something more is sent."""
    try:
        if connection.recv(65536) == b"":
            return True
        connection.sendall(drip)
    except TimeoutError:
        try:
            connection.sendall(drip)
        except OSError:
            return True
    except OSError:
        return True
    return False


def test_one_customer_with_many_addresses_of_ipv6_is_one_sender() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:2") != network_of("2001:db8:0:1::1")
    assert network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("::ffff:192.0.2.1") != network_of("::ffff:192.0.2.2")

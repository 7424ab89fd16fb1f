"""The store, on SQLite and on PostgreSQL: every sentence here holds for both."""

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import DBAPIError, ResourceClosedError

from limen.core.errors import UserError
from limen.listening.server import tables
from limen.listening.server.enrolment import NumberReassigned, StudyClosed
from limen.listening.server.store import Store
from limen.listening.server.tables import Record
from limen.listening.study import Study


def study(listeners: int = 12, groups: tuple[str, ...] = ("low", "high"), **more) -> Study:
    return Study(name="s", listeners=listeners, groups=list(groups), steps=["consent"], **more)


@pytest.fixture
def store(database):
    made = Store(database)
    yield made
    made.close()


def join(
    store: Store,
    plan: Study,
    key: str,
    returning: str | None = None,
    parameters: dict[str, str] | None = None,
):
    choose = lambda s, counts: min(s.cells, key=lambda c: counts[c])
    return store.join(plan, key, returning, parameters or {}, choose, lambda group, number: 100 + number)


def record(listener: int, position: int, attempt: str = "a", **more) -> Record:
    return Record(
        listener,
        position,
        attempt,
        0,
        "abx",
        "trial",
        **{
            "answer": {"answer": "A"},
            "facts": {"item": "i", "strength": 2.5},
            "truth": {"answer": "B"},
            "correct": False,
            "playback": [],
            "response_ms": 1234.5,
        }
        | more,
    )


def test_an_answer_comes_back_as_it_was_stored(store):
    who = join(store, study(), "k").id
    told = {
        "answer": {"x": "ünïcode 漢字 🎧 <b>'\"\\"},
        "playback": [{"label": "A", "plays": 2, "proved": True}],
    }
    assert store.append(record(who, 3, **told))
    (row,) = store.answers()
    assert {name: row[name] for name in told} == told
    assert (row["listener"], row["position"], row["attempt"], row["step"], row["kind"], row["role"]) == (
        who,
        3,
        "a",
        0,
        "abx",
        "trial",
    )
    assert row["facts"] == {"item": "i", "strength": 2.5}
    assert row["truth"] == {"answer": "B"}
    assert row["correct"] is False
    assert row["response_ms"] == 1234.5
    assert abs(row["received_at"] - time.time()) < 60


def test_a_second_answer_to_a_position_is_not_stored(store):
    who = join(store, study(), "k").id
    assert store.append(record(who, 0, "first"))
    assert not store.append(record(who, 0, "first"))
    assert not store.append(record(who, 0, "second", answer={"answer": "B"}))
    assert [(a["attempt"], a["answer"]) for a in store.answers()] == [("first", {"answer": "A"})]


def test_of_many_answers_at_once_each_position_keeps_exactly_one(store):
    plan = study()
    people = [join(store, plan, f"k{i}").id for i in range(5)]
    jobs = [
        record(who, position, f"{attempt}")
        for who in people
        for position in range(10)
        for attempt in range(4)
    ]
    with ThreadPoolExecutor(16) as pool:
        stored = list(pool.map(store.append, jobs))
    assert sum(stored) == 50
    rows = store.answers()
    assert Counter((r["listener"], r["position"]) for r in rows) == {
        (who, p): 1 for who in people for p in range(10)
    }
    told = {(j.listener, j.position, j.attempt) for j, new in zip(jobs, stored, strict=True) if new}
    assert told == {(r["listener"], r["position"], r["attempt"]) for r in rows}


def test_an_acknowledged_answer_is_seen_by_another_connection_at_once(store, database):
    who = join(store, study(), "k").id
    other = Store(database)
    for position in range(20):
        assert store.append(record(who, position))
        assert len(other.history(who)) == position + 1
    other.close()


def test_a_job_that_fails_takes_nothing_of_the_others_with_it(store):
    who = join(store, study(), "k").id
    gate = threading.Event()
    store._writer.submit(
        lambda connection: gate.wait(10)
    )  # holds the writer, so that all that follow share a transaction
    with ThreadPoolExecutor(3) as pool:
        good = pool.submit(store.append, record(who, 0))
        bad = pool.submit(store.append, record(10**6, 0))  # nobody has this number
        also = pool.submit(store.append, record(who, 1))
        time.sleep(0.2)
        gate.set()
        assert good.result()
        assert also.result()
        with pytest.raises(DBAPIError):
            bad.result()
    assert [a.position for a in store.history(who)] == [0, 1]


@pytest.mark.parametrize(
    "statement",
    ["UPDATE answers SET correct = NULL", "DELETE FROM answers", "DELETE FROM answers WHERE position = 0"],
)
def test_answers_can_neither_be_changed_nor_deleted(store, statement):
    who = join(store, study(), "k").id
    store.append(record(who, 0))
    with pytest.raises(DBAPIError, match=tables.REFUSED), store.engine.begin() as connection:
        connection.execute(text(statement))
    assert len(store.answers()) == 1


def test_new_listeners_join_the_least_filled_group_and_are_numbered_within_it(store):
    plan = study(groups=("a", "b", "c"))
    rows = [join(store, plan, f"k{i}") for i in range(7)]
    assert [r.group_ for r in rows] == ["a", "b", "c", "a", "b", "c", "a"]
    assert [r.number for r in rows] == [0, 0, 0, 1, 1, 1, 2]
    assert [r.seed for r in rows] == [100 + r.number for r in rows]


def test_listeners_who_come_at_once_are_spread_evenly_and_no_more_take_a_place_than_are_wanted(
    store, database
):
    plan, others = study(listeners=30, groups=("a", "b", "c")), Store(database)  # two servers of one study

    with ThreadPoolExecutor(16) as pool:
        joined = [join((store, others)[i % 2], plan, f"k{i}") for i in range(30)]
        entered = list(pool.map(lambda who: store.append(record(who.id, 0, places=30)), joined))
    assert all(entered)
    with pytest.raises(StudyClosed, match="all the listeners"):
        join(store, plan, "late")
    rows = store.listeners()
    assert Counter(r["group"] for r in rows) == {"a": 10, "b": 10, "c": 10}
    assert {(r["group"], r["number"]) for r in rows} == {(g, n) for g in "abc" for n in range(10)}
    others.close()


def test_of_sixty_who_have_begun_thirty_take_a_place_however_they_race_for_it(store, database):
    plan, others = study(listeners=30, groups=("a", "b", "c")), Store(database)
    begun = [join((store, others)[i % 2], plan, f"k{i}") for i in range(60)]
    assert store.progress()["starting"] == 60

    def take(k: int) -> bool:
        try:
            return (others, store)[k % 2].append(record(begun[k].id, 0, places=30))
        except StudyClosed:
            return False

    with ThreadPoolExecutor(16) as pool:
        entered = list(pool.map(take, range(60)))
    assert sum(entered) == 30
    assert (store.progress()["active"], len(store.answers())) == (30, 30)
    others.close()


def back(listener: int | None, seconds: float, store: Store) -> None:
    """A listener, or everybody, was not seen for so long."""
    which = tables.listeners.c.id == listener if listener else tables.listeners.c.id > 0
    with store.engine.connect().execution_options(write=True) as connection, connection.begin():
        connection.execute(update(tables.listeners).where(which).values(seen_at=time.time() - seconds))


def test_whoever_only_begins_takes_no_place(store):
    plan = study(listeners=2)
    for i in range(10):
        store.append(record(join(store, plan, f"k{i}").id, 0))  # consent, and not a sound heard
    assert store.progress() | {"groups": 0} == {
        "finished": 0,
        "active": 0,
        "dropped": 0,
        "starting": 10,
        "left": 0,
        "declined": 0,
        "groups": 0,
        "answers": 10,
        "closed": False,
        "last_answer_at": store.progress()["last_answer_at"],
    }
    for i in range(2):
        store.append(record(join(store, plan, f"new{i}").id, 0, places=2))
    with pytest.raises(StudyClosed, match="all the listeners"):
        join(store, plan, "one_too_many")


def test_the_number_of_a_listener_who_left_before_the_first_answer_goes_to_the_next(store):
    plan = study(listeners=9, groups=("a",))
    first, second, third = (join(store, plan, f"k{i}", f"r{i}") for i in range(3))
    store.append(record(third.id, 0, enrolled_as=("a", 2)))
    for who in (first, second, third):
        back(who.id, 601, store)
    assert (store.progress()["left"], store.progress()["starting"]) == (3, 0)
    assert [join(store, plan, f"new{i}").number for i in range(3)] == [
        0,
        1,
        3,
    ]  # who has answered keeps theirs
    with pytest.raises(NumberReassigned, match="begins again"):
        store.append(record(first.id, 0, enrolled_as=("a", 0)))
    assert not store.history(first.id)
    again = join(store, plan, "key of no matter", "r0")
    assert (again.id, again.number, again.seed) == (first.id, 4, 104)
    assert (
        store.readmit(plan, second.id, lambda s, counts: "a", lambda group, number: 100 + number).number == 5
    )
    assert store.append(record(first.id, 0, enrolled_as=("a", 4)))
    assert sorted(r["number"] for r in store.listeners()) == list(range(6))


def test_whoever_dropped_out_leaves_their_place_to_another_and_may_still_return(store):
    plan = study(listeners=2)
    first = join(store, plan, "k0", "r0")
    for who in (first, join(store, plan, "k1")):
        store.append(record(who.id, 0, places=2))
    with pytest.raises(StudyClosed, match="all the listeners"):
        join(store, plan, "k2")
    back(first.id, 3601, store)
    assert store.progress()["dropped"] == 1
    assert join(store, plan, "k2").group_ == first.group_
    assert join(store, plan, "k9", "r0").id == first.id
    assert store.append(record(first.id, 1, places=2))


def test_whoever_finished_counts_however_long_ago(store):
    plan = study(listeners=1, groups=())
    who = join(store, plan, "k").id
    store.append(record(who, 0, last=True))
    back(None, 1e9, store)
    with pytest.raises(StudyClosed):
        join(store, plan, "other")
    one = {"finished": 1, "active": 0, "dropped": 0, "starting": 0, "left": 0}
    assert store.progress() | {"last_answer_at": None} == {
        **one,
        "groups": {"": one},
        "answers": 1,
        "declined": 0,
        "last_answer_at": None,
        "closed": False,
    }


def test_the_same_recruit_is_the_same_listener_even_when_they_come_twice_at_once(store):
    plan = study(listeners=30)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda i: join(store, plan, "key", "hash", {"PROLIFIC_PID": "p"}), range(16)))
    assert len({r.id for r in rows}) == 1
    assert store.recruits() == [{"listener": rows[0].id, "data": {"PROLIFIC_PID": "p"}}]


def test_personal_answers_are_kept_apart_and_erased_without_touching_the_others(store):
    who, other = (join(store, study(), k, k, {"PROLIFIC_PID": k}).id for k in ("k", "l"))
    for listener in (who, other):
        store.append(record(listener, 0))
        store.append(record(listener, 1, answer={"age": "33"}, personal=True))
    assert [a["answer"] for a in store.answers()] == [{"answer": "A"}, {}] * 2
    before = store.answers()
    store.erase(who)
    assert store.personal() == [{"listener": other, "position": 1, "data": {"age": "33"}}]
    assert store.recruits() == [{"listener": other, "data": {"PROLIFIC_PID": "l"}}]
    assert store.parameters(who) == {}
    assert store.answers() == before
    again = join(store, study(), "k", "k", {"PROLIFIC_PID": "k"})
    assert again.id not in (who, other)  # nothing leads from the person to the answers any more
    with pytest.raises(UserError, match="no listener 999"):
        store.erase(999)


def test_a_closed_study_takes_neither_listeners_nor_answers_but_lets_itself_be_read(store):
    who = join(store, study(), "k").id
    store.append(record(who, 0))
    store.close_study()
    store.close_study()
    with pytest.raises(StudyClosed, match="closed"):
        store.append(record(who, 1))
    with pytest.raises(StudyClosed, match="closed"):
        join(store, study(), "l")
    assert store.closed()
    assert len(store.answers()) == 1


def test_a_changed_study_is_refused_once_there_are_answers(store):
    store.bind(study())
    store.bind(study(title="changed before the first answer"))
    assert store.fingerprint() == study(title="changed before the first answer").fingerprint()
    store.append(record(join(store, study(), "k").id, 0))
    store.bind(study(title="changed before the first answer"))
    with pytest.raises(UserError, match="Undo the change"):
        store.bind(study(exclude=[]))


def test_the_secret_stays_the_same_for_a_database_and_differs_between_two(new_database):
    url = new_database()
    first, again, other = Store(url), Store(url), Store(new_database())
    assert first.secret == again.secret != other.secret
    for made in (first, again, other):
        made.close()


def test_a_closed_store_refuses_to_write_rather_than_to_wait(database):
    made = Store(database)
    who = join(made, study(), "k").id
    made.close()
    with pytest.raises(ResourceClosedError):
        made.append(record(who, 0))


def test_events_of_a_listener_are_kept_up_to_a_limit(store):
    who, other = (join(store, study(), k).id for k in "kl")
    assert [store.event(who, "k", 3, "hidden") for _ in range(102)] == [True] * 100 + [False] * 2
    assert store.event(other, "l", 3, "visible")
    assert Counter((e["listener"], e["position"], e["kind"]) for e in store.events()) == {
        (who, 3, "hidden"): 100,
        (other, 3, "visible"): 1,
    }


def test_after_the_last_answer_and_after_the_close_no_event_is_kept(store):
    who, other = (join(store, study(), k).id for k in "kl")
    store.append(record(who, 0, last=True))
    assert not store.event(who, "k", 0, "hidden")
    store.close_study()
    with pytest.raises(StudyClosed, match="closed"):
        store.event(other, "l", 0, "hidden")
    assert store.events() == []


def test_only_who_is_marked_as_simulated_is(store):
    made_up, person = (join(store, study(), k).id for k in "kl")
    store.mark_simulated(made_up)
    assert [(who["id"], who["simulated"]) for who in store.listeners()] == [(made_up, True), (person, False)]


@pytest.mark.parametrize(
    "older", ["DELETE FROM meta WHERE key = 'schema'", "UPDATE meta SET value = '1' WHERE key = 'schema'"]
)
def test_a_database_of_another_version_is_refused_and_left_alone(database, older):
    made = Store(database)
    with made.engine.connect().execution_options(write=True) as connection, connection.begin():
        connection.execute(text(older))
    with pytest.raises(UserError, match=r"expected tables of version 2, got version 1.*or use another one"):
        Store(database)
    assert made.listeners() == []
    made.close()


def test_neither_hashes_of_keys_nor_the_secret_are_read_out(store):
    join(store, study(), "the_key_hash", "the_returning_hash", {"PROLIFIC_PID": "p"})
    out = str([store.listeners(), store.answers(), store.progress(), store.personal()])
    assert "the_key_hash" not in out
    assert "the_returning_hash" not in out
    assert store.secret.hex() not in out


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("nonsense", "not a database URL"),
        ("mysql://u@h/d", "SQLite"),
        ("sqlite://", "SQLite"),
        ("sqlite:////no/such/folder/a.db", "cannot be opened"),
        ("postgresql://limen@/x?host=/no/such/folder", "cannot be used"),
    ],
)
def test_a_database_that_cannot_be_opened_is_named(where, message):
    with pytest.raises(UserError, match=message):
        Store(where)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.db"
    path.write_text("these are my notes, not a database\n" * 100)
    with pytest.raises(UserError, match="cannot be used"):
        Store(path)
    assert path.read_text().startswith("these are my notes")


def test_only_the_owner_can_read_a_study_in_sqlite(tmp_path: Path):
    made = Store(tmp_path / "s.db")
    join(made, study(), "k")
    assert {p.name: p.stat().st_mode & 0o777 for p in tmp_path.iterdir()} == {
        "s.db": 0o600,
        "s.db-wal": 0o600,
        "s.db-shm": 0o600,
    }
    made.close()

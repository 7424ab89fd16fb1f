"""A program that fetches the sounds of a listener can tell what X is; what it leaves behind is found unless
it takes its time."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import answering
import httpx2
import numpy as np
import pytest
import studies
from test_simulate import running

from limen.audio.files import WAV_HEADER
from limen.listening.analysis.analyse import analyse
from limen.listening.analysis.exclusions import by_listener, exclusions
from limen.listening.analysis.export import rows
from limen.listening.server.app import app
from limen.listening.server.limits import Limits
from limen.listening.server.store import Store
from limen.listening.statistics.plausibility import at_least, implausible
from limen.listening.stimuli import digest
from limen.listening.study import Study, read_study
from limen.report.study.page import build_study
from limen.trials.base.screen import Screen

TRIALS = 12
LISTENING = 1.25
"""Answering takes this many times the sounds' length; a program on a busy machine still needs a small part of
it."""
STEPS: list[Any] = ["consent", {"name": "abx", "trials": TRIALS}]


def samples(wav: bytes) -> np.ndarray:
    return np.frombuffer(wav[WAV_HEADER:], "<i2").astype(float)


def compared(wavs: dict[str, bytes]) -> dict[str, str]:
    """What a program answers: X is the one whose samples are nearer."""
    far = {label: float(np.square(samples(wavs["X"]) - samples(wavs[label])).sum()) for label in "AB"}
    return {"answer": min(far, key=lambda label: far[label]), "confidence": "high"}


async def take(url: str, who: str, program: bool, wait_s: float = 0.0) -> None:
    """From the first screen to the end, with nothing but what any browser gets; people answer at random after
    they have listened."""
    client = httpx2.AsyncClient(base_url=url, headers={"X-Limen": "1"}, timeout=60)
    chance = random.Random(who)
    state = (await client.post("/api/begin", json={"parameters": {"participant": who}})).json()
    while not state["done"]:
        screen = state["screen"]
        wavs = {s["label"]: (await client.get(s["url"])).content for s in screen["sounds"]}
        guess = {"answer": chance.choice("AB"), "confidence": "low"}
        answer = (compared(wavs) if program else guess) if wavs else studies.replies(screen)
        length_s = sum((len(wav) - WAV_HEADER) / 2 / studies.RATE_HZ for wav in wavs.values())
        await asyncio.sleep(wait_s * length_s)
        playback = [
            {"label": k, "digest": digest(wav), "rate_hz": 48_000, "plays": 1, "played_s": length_s / 3}
            for k, wav in wavs.items()
        ]
        body = {
            "screen": screen["id"],
            "attempt": f"{state['position']}",
            "answer": answer,
            "playback": playback,
            "response_ms": 9000.0,
        }
        state = (await client.post("/api/answer", json=body)).json()["state"]
    await client.aclose()


@contextmanager
def taken(
    folder: Path, people: int, programs: int, wait_s: float = 0.0, noise: float = 0.05, **more: Any
) -> Iterator[Study]:
    """A study on the web that so many people and programs took; people listen to the sounds."""
    path = studies.write(folder, STEPS, n=TRIALS, seconds=0.4, **more)

    async def everybody(url: str) -> None:
        program = [take(url, f"program {k}", True, wait_s) for k in range(programs)]
        await asyncio.gather(*(take(url, f"person {k}", False, LISTENING) for k in range(people)), *program)

    with running(app(path, limits=Limits(begin_burst=people + programs))) as url:
        asyncio.run(everybody(url))
    yield read_study(path)


def table(folder: Path, plan: Study) -> list[dict[str, Any]]:
    store = Store(folder / "small.db")
    out = rows(store.answers(), store.listeners(), plan)
    store.close()
    return out


def right(table: list[dict[str, Any]]) -> dict[int, int]:
    return {
        who: sum(bool(r["correct"]) for r in mine if r["role"] == "trial")
        for who, mine in by_listener(table).items()
    }


@pytest.mark.parametrize("dither", [True, False])
def test_a_program_that_compares_samples_answers_12_of_12(dither: bool, tmp_path: Path) -> None:
    with taken(tmp_path, 0, 3, dither=dither) as plan:
        assert list(right(table(tmp_path, plan)).values()) == [TRIALS] * 3


def test_a_program_in_a_hurry_is_flagged_left_out_by_the_rule_and_named_on_the_page(tmp_path: Path) -> None:
    # the fast program says that it took nine seconds a trial and played everything, but the server has a
    # clock
    with taken(tmp_path, 5, 1, exclude=[{"name": "implausible"}]) as plan:
        found = table(tmp_path, plan)
        (program,) = [who for who, n in right(found).items() if n == TRIALS]
        report = exclusions(plan, found)
        assert [(e.listener, e.reason) for e in report.excluded] == [
            (program, "right although others guess, in less time than the sounds last")
        ]
        assert "12 of 12 right" in report.excluded[0].evidence
        assert "12 answers in less time than the sounds last" in report.excluded[0].evidence
        assert {row["listener"] for row in found if row["implausible"]} == {program}
        page = build_study(analyse(plan, found), found, tmp_path / "page.html").read_text()
        assert page.count("12 answers in less time than the sounds last") >= 2


def test_a_program_that_sits_out_the_sounds_is_not_found(tmp_path: Path) -> None:
    # what no rule can promise; the docs say so
    with taken(tmp_path, 5, 1, wait_s=LISTENING, exclude=[{"name": "implausible"}]) as plan:
        found = table(tmp_path, plan)
        assert TRIALS in right(found).values()
        assert exclusions(plan, found).excluded == ()


def listeners(tmp_path: Path, ears: dict[int, float], hasty: set[int], n: int = 20) -> dict[int, str]:
    """Flags of listeners who are right with the given probability, some of them in less time than the sounds
    last."""
    plan = answering.study([{"name": "abx", "trials": TRIALS}], TRIALS)

    def respond(k: int, screen: Screen) -> dict[str, Any]:
        hears = random.Random(f"{k} {screen.facts['item']}").random() < ears.get(k, 0.5)
        truth = screen.truth["answer"]
        return {"answer": truth if hears else "AB".replace(truth, ""), "confidence": "low"}

    found = answering.table(plan, tmp_path / "a.db", n, respond, seconds=lambda k: 0.5 if k in hasty else 9.0)
    timed = [
        {
            **row,
            "sounds_s": 3.0,
            "played_s": 3.0,
            "received_at": f"2026-01-01T{row['position'] // 2:02d}:00:00+00:00",
        }
        for row in found
    ]
    return {who: flag for who, flag in implausible(by_listener(timed)).items() if flag}


def test_a_good_ear_is_no_offence(tmp_path: Path) -> None:
    assert listeners(tmp_path, {0: 1.0, 1: 1.0, 2: 1.0}, hasty=set()) == {}


def test_haste_without_success_is_left_to_other_rules(tmp_path: Path) -> None:
    assert listeners(tmp_path, {}, hasty=set(range(10))) == {}


def test_both_together_are_flagged(tmp_path: Path) -> None:
    flags = listeners(tmp_path, {4: 1.0}, hasty={4, 5, 6})
    assert list(flags) == [5]
    assert flags[5].startswith("12 of 12 right (others 5")


def test_all_right_is_no_wonder_where_others_are_right_too(tmp_path: Path) -> None:
    assert listeners(tmp_path, dict.fromkeys(range(20), 0.95), hasty=set(range(20))) == {}


def test_the_chance_of_so_many_right_answers_is_that_of_the_binomial() -> None:
    assert at_least(12, [0.5] * 12) == pytest.approx(2**-12)
    assert at_least(0, [0.5] * 12) == pytest.approx(1)
    assert at_least(2, [0.5, 0.9]) == pytest.approx(0.45)
    assert at_least(1, [0.5, 0.9]) == pytest.approx(0.95)

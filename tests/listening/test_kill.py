"""`kill -9` at any moment: every answer that was acknowledged is there, once, and everybody finishes."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import studies

from limen.listening.server.store import Store
from limen.listening.simulation.simulate import simulate

SERVER = """
import sys
from limen.listening.server.limits import Limits
from limen.listening.server.app import serve
serve(sys.argv[1], port=int(sys.argv[2]), limits=Limits(address_per_s=1e6, address_burst=10**6, begin_per_s=1e6, begin_burst=10**6))
"""


def start(study: Path, port: int) -> subprocess.Popen[bytes]:
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(study), str(port)], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server
        assert server.poll() is None
        time.sleep(0.05)


def test_nothing_acknowledged_is_lost_or_doubled_when_the_server_is_killed_again_and_again(tmp_path):
    study = studies.write(
        tmp_path / "s", steps=[*studies.STEPS[:3], *studies.JND, *studies.STEPS[3:]], listeners=40
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = start(study, port)
    people: list = []
    visitors = threading.Thread(
        target=lambda: people.extend(
            simulate(study, 40, url=f"http://127.0.0.1:{port}", think_s=(0.0, 0.6), informed=False)
        )
    )
    visitors.start()
    try:
        for _ in range(2):
            time.sleep(1.5)
            assert visitors.is_alive()
            server.send_signal(signal.SIGKILL)
            server.wait()
            server = start(study, port)
        visitors.join()
    finally:
        server.kill()
        server.wait()
    store = Store(tmp_path / "s" / "small.db")
    rows = store.answers()
    finished = store.progress()["finished"]
    store.close()
    assert len(people) == 40
    assert sum(p.participation.retries for p in people) > 0
    assert finished == 40
    assert all(p.participation.code for p in people)
    told = Counter((a["attempt"], a["position"]) for p in people for a in p.participation.acknowledged)
    stored = Counter((r["attempt"], r["position"]) for r in rows)
    assert stored == told
    assert set(stored.values()) == {1}
    assert set(Counter((r["listener"], r["position"]) for r in rows).values()) == {1}
    answers = {a["attempt"]: a["answer"] for p in people for a in p.participation.acknowledged}
    assert all(
        r["answer"] == answers[r["attempt"]] for r in rows if r["kind"] not in ("demographics", "comments")
    )

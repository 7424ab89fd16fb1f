"""Latency of the listening-study server under load, and whether answers are lost or stored twice when it is
killed.

    python benchmarks/bench_listening.py [--listeners 200,500] [--kills 3] [--ramp-up 10] [--think 1,3]

The real server (uvicorn, SQLite) runs in a process of its own; simulated listeners in another process take
the study over HTTP at the same time: they fetch every sound, wait, answer, and repeat requests that were not
acknowledged. During the first run the server is killed three times with `kill -9`. Then the acknowledged
answers are compared with the database. The table is printed and written to docs/benchmarks_listening.md.
"""

import argparse
import multiprocessing
import os
import platform
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import yaml

ROOT = Path(__file__).resolve().parent.parent
RATE_HZ = 16_000
SERVER = """
import sys from limen.listening.server.limits import Limits from limen.listening.server.app import serve
limits = Limits(address_per_s=1e6, address_burst=10**6, begin_per_s=1e6, begin_burst=10**6)  # all listeners
have one address serve(sys.argv[1], port=int(sys.argv[2]), limits=limits)
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--listeners",
        default="200,500",
        help="simultaneous listeners of each run; the server is killed in the first run",
    )
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument(
        "--ramp-up",
        type=float,
        default=10,
        help="seconds within which all listeners begin, uniformly distributed (default 10)",
    )
    parser.add_argument(
        "--think",
        default="1,3",
        help="range of seconds between fetching a screen and answering it, drawn uniformly (default 1,3)",
    )
    parser.add_argument("--no-write", action="store_true", help="do not write docs/benchmarks_listening.md")
    arguments = parser.parse_args()
    counts = [int(n) for n in arguments.listeners.split(",")]
    low, high = (float(s) for s in arguments.think.split(","))
    runs = [(counts[0], arguments.kills), *((n, 0) for n in counts)]
    rows = []
    for listeners, kills in runs:
        rows.append(measured(listeners, kills, arguments.ramp_up, (low, high)))
        print(line(rows[-1]), flush=True)
    if not arguments.no_write:
        (ROOT / "docs" / "benchmarks_listening.md").write_text(page(rows, arguments.ramp_up, (low, high)))


def measured(listeners: int, kills: int, ramp_up_s: float, think_s: tuple[float, float]) -> dict[str, Any]:
    """One run with a fresh study and a fresh database."""
    with tempfile.TemporaryDirectory(prefix="limen-bench-") as folder:
        study = write_study(Path(folder), listeners)
        port = free_port()
        busy_s, own_s, begun = machine_s(), own_cpu_s(), time.perf_counter()
        server = started(study, port)
        context = multiprocessing.get_context("spawn")
        try:
            with context.Pool(1) as pool:  # listeners and this process must not wait for each other
                result = pool.apply_async(
                    simulated_listeners,
                    (str(study), listeners, f"http://127.0.0.1:{port}", ramp_up_s, think_s),
                )
                for _ in range(kills):
                    time.sleep(12)
                    kill(server)
                    server = started(study, port)
                participations = result.get()
                seconds, cpu_s = time.perf_counter() - begun, cpu_of(server.pid)
                pool.close()
                pool.join()
        finally:
            kill(server)
        others_s = machine_s() - busy_s - (own_cpu_s() - own_s)
        return {
            "listeners": listeners,
            "kills": kills,
            "seconds": seconds,
            "cpu": cpu_s / seconds,
            "others": max(0.0, others_s / (time.perf_counter() - begun)),
            **compared(study, participations),
            **times(participations),
        }


def simulated_listeners(
    study: str, listeners: int, url: str, ramp_up_s: float, think_s: tuple[float, float]
) -> list[dict[str, Any]]:
    from limen.listening.simulation.simulate import simulate

    people = simulate(study, listeners, url=url, ramp_up_s=ramp_up_s, think_s=think_s, informed=False)
    return [vars(person.participation) for person in people]


def compared(study: Path, participations: list[dict[str, Any]]) -> dict[str, int]:
    """Compare the acknowledged answers with the database."""
    from limen.listening.server.store import Store

    store = Store(study.parent / "bench.db")
    stored = [(a["attempt"], a["position"]) for a in store.answers()]
    places = [(a["listener"], a["position"]) for a in store.answers()]
    finished = store.progress()["finished"]
    store.close()
    known = [(a["attempt"], a["position"]) for p in participations for a in p["acknowledged"]]
    return {
        "answers": len(known),
        "lost": len(set(known) - set(stored)),
        "doubled": len(places) - len(set(places)) + len(stored) - len(set(stored)),
        "unacknowledged": len(set(stored) - set(known)),
        "finished": min(finished, sum(p["code"] is not None for p in participations)),
        "retries": sum(p["retries"] for p in participations),
    }


def times(participations: list[dict[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in ("latency_s", "audio_s"):
        points = statistics.quantiles([s for p in participations for s in p[name]], n=1000)
        out[name] = [points[k - 1] * 1000 for k in (500, 950, 990, 999)]
    return out


def write_study(folder: Path, listeners: int) -> Path:
    """Write a study like that of spoken commands: 12 clips to rate, 6 ABX trials and a catch trial, then a
    threshold in 8 trials."""
    chance = np.random.default_rng(0)
    items = []
    for k in range(12):
        clean = 0.2 * np.sin(2 * np.pi * (200 + 40 * k) * np.arange(RATE_HZ) / RATE_HZ)
        for name, x in (("clean", clean), ("noisy", clean + 0.02 * chance.standard_normal(RATE_HZ))):
            soundfile.write(folder / f"{name}{k}.wav", x, RATE_HZ)
        items.append(
            {
                "id": f"item{k}",
                "files": {"clean": f"clean{k}.wav", "noisy": f"noisy{k}.wav"},
                "answer": ("yes", "no")[k % 2],
            }
        )
    steps = [
        "consent",
        {"name": "naturalness", "trials": 12, "identify": True},
        {"name": "abx", "trials": 6, "catch": 1},
        {"name": "same_different", "axes": ["noise"], "adaptive": {"max_trials": 8}},
        "demographics",
    ]
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump({"name": "bench", "listeners": listeners, "items": items, "steps": steps}))
    return path


def started(study: Path, port: int) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(study), str(port)], env=environment)
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return server
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def kill(server: subprocess.Popen[bytes]) -> None:
    server.send_signal(signal.SIGKILL)
    server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def cpu_of(pid: int) -> float:
    """Processor time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_s() -> float:
    """Processor time of all programs on this machine, in seconds."""
    user, nice, system, _, _, irq, softirq = (int(v) for v in Path("/proc/stat").read_text().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own_cpu_s() -> float:
    """Processor time of this process and its finished child processes, in seconds."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def line(row: dict[str, Any]) -> str:
    latency = " | ".join(f"{ms:.0f}" for ms in row["latency_s"])
    audio = " | ".join(f"{row['audio_s'][k]:.0f}" for k in (0, 2))
    share = "" if row["kills"] else f"{row['cpu']:.0%}"
    counts = " | ".join(
        str(row[name]) for name in ("listeners", "kills", "finished", "answers", "lost", "doubled", "retries")
    )
    return (
        f"| {counts} | {row['answers'] / row['seconds']:.0f} | {latency} | {audio} | {share} | "
        f"{row['others']:.2f} |"
    )


def page(rows: list[dict[str, Any]], ramp_up_s: float, think_s: tuple[float, float]) -> str:
    head = (
        "| listeners at once | kills | finished | answers acknowledged | lost | doubled | requests sent "
        "again | answers per s | p50, ms | p95, ms | p99, ms | p99.9, ms | sound p50, ms | sound p99, ms | "
        "server, share of one core | other work, cores |\n" + "|---" * 16 + "|"
    )
    parts = ("fastapi", "uvicorn", "sqlalchemy", "httptools", "uvloop")
    return f"""# Listening studies under load

Written by `python benchmarks/bench_listening.py` on {os.cpu_count()} cores, which the server shares with the
simulated listeners; Python {platform.python_version()}, {
        ", ".join(f"{name} {version(name)}" for name in parts)
    }.

Every listener answers 29 screens: consent, 12 clips to rate, 7 ABX trials, 8 trials of an adaptive threshold
(sounds rendered on demand) and a page about the person. All begin within {ramp_up_s:g} s. Each sound is
fetched and its hash sent back; a listener waits {think_s[0]:g} to {think_s[1]:g} s before answering a screen,
several times less than people do. The database is SQLite with synchronous=FULL: an answer is acknowledged
when it is on the disk. Latency is measured by the listener, from sending an answer to its acknowledgement,
which contains the next screen; answers that had to be sent again because the server was dead are excluded.
Kills are `kill -9` of the server, 12 s apart. Lost: acknowledged but not in the database. Doubled: twice in
the database. Other work: number of cores that unrelated programs kept busy meanwhile.

{head}
{chr(10).join(map(line, rows))}
"""


if __name__ == "__main__":
    main()

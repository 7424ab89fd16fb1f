"""A study behind `serve` in a process of its own, as an operator runs it, and visitors who come from
addresses of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import studies

from limen.listening.stimuli import digest

SERVER = """
import json, sys
from limen.listening.server.limits import Limits
from limen.listening.server.app import serve
more = json.loads(sys.argv[3])
serve(sys.argv[1], port=int(sys.argv[2]), limits=Limits(**more.pop("limits", {})), token="sesame", **more)
"""


class Server:
    """`more` are arguments of `serve`."""

    def __init__(self, study: Path, **more: Any):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [sys.executable, "-c", SERVER, str(study), str(self.port), json.dumps(more)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        self._said: list[str] = []
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert self.process.poll() is None, self.log()
            time.sleep(0.05)

    def _listen(self) -> None:
        for line in self.process.stdout or []:
            self._said.append(line)

    def log(self, words: str = "") -> str:
        """What the operator sees, once it holds these words."""
        for _ in range(200):
            if words in (said := "".join(self._said)):
                return said
            time.sleep(0.1)
        raise AssertionError(f"the operator did not see {words!r}, only: {said}")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Visitor:
    """A browser without a page. All of 127.0.0.0/8 is this machine: `address` is where the visitor seems to
    come from."""

    def __init__(self, server: Server, address: str = "127.0.0.1", cookies: dict[str, str] | None = None):
        self.port, self.address = server.port, address
        self.cookies = {} if cookies is None else cookies

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """Status and body of the reply; cookies are kept."""
        transport = httpx2.HTTPTransport(local_address=self.address, verify=False)
        url = f"http://127.0.0.1:{self.port}"
        sent = {"X-Limen": "1", "Content-Type": "application/json", **headers}
        with httpx2.Client(
            base_url=url, transport=transport, headers=sent, cookies=self.cookies, timeout=60
        ) as client:
            reply = client.request(method, path, content=None if body is None else json.dumps(body))
            self.cookies.update(reply.cookies.items())
            return reply.status_code, reply.content

    def begin(self, **parameters: str) -> tuple[int, dict[str, Any]]:
        status, body = self.ask("POST", "/api/begin", {"parameters": parameters})
        return status, json.loads(body)

    def state(self) -> dict[str, Any]:
        status, body = self.ask("GET", "/api/state")
        assert status == 200, body
        return dict(json.loads(body))

    def answer(self, state: dict[str, Any], attempt: str = "a") -> tuple[int, dict[str, Any]]:
        """Hears the sounds of the screen and answers it."""
        screen = state["screen"]
        wavs = {sound["label"]: self.ask("GET", sound["url"])[1] for sound in screen["sounds"]}
        played = [
            {"label": label, "digest": digest(wav), "rate_hz": 48_000, "plays": 1, "played_s": 0.3}
            for label, wav in wavs.items()
        ]
        body = {
            "screen": screen["id"],
            "attempt": attempt,
            "answer": studies.replies(screen),
            "playback": played,
            "response_ms": 900,
        }
        status, reply = self.ask("POST", "/api/answer", body)
        return status, json.loads(reply)

    def take(self, state: dict[str, Any]) -> dict[str, Any]:
        """From here to the end."""
        while not state["done"]:
            status, reply = self.answer(state)
            assert status == 200, reply
            state = reply["state"]
        return state

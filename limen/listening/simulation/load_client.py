"""Simulated listeners over HTTP, many at the same time: each takes the study as its page would, and records
what the server acknowledged.

The HTTP client is a small one on asyncio's streams, because hundreds of listeners share a processor with the
server they load. With 150 listeners (2 cores, Python 3.11) httpx needed 3.4 times as much processor time:
1.46 ms per request against 0.44. In the benchmark with 500 listeners, at about 500 requests per second, it
would occupy its event loop for 70 % of the time and add its own delays to the latency that it measures.
Everything but the load benchmark uses httpx.
"""

import asyncio
import json
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from limen.core.errors import UserError

Respond = Callable[["Participation", Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Gives the answer to a screen, as the page shows it."""
REQUEST_TIMEOUT_S = 60.0
MAX_TRIES = 200
RETRY_STATUS = (429, 502, 503, 504)


@dataclass
class Participation:
    """What one listener sent and received."""

    number: int
    key: str = ""
    acknowledged: list[dict[str, Any]] = field(default_factory=list)
    """Answers that the server has acknowledged: {"position", "attempt", "answer"}."""
    latency_s: list[float] = field(default_factory=list)
    """Seconds from sending an answer to its acknowledgement, for answers that needed one try."""
    audio_s: list[float] = field(default_factory=list)
    """Seconds to fetch each sound."""
    retries: int = 0
    code: str | None = None
    """Completion code; None if the listener did not reach the end."""


@dataclass(frozen=True)
class Timing:
    ramp_up_s: float = 0.0
    """Listeners begin at random times within this many seconds."""
    think_s: tuple[float, float] = (0.0, 0.0)
    """Range of the time between fetching the sounds of a screen and answering it, drawn uniformly."""
    audio: bool = True
    """Fetch sounds and report them as played."""


class Client:
    """HTTP/1.1 over one persistent connection, with one cookie."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise UserError(f"Expected the server's address as http://HOST:PORT, got {url!r}.")
        self.host, self.port = parts.hostname, parts.port or 80
        self.cookie = ""
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of the reply; OSError if the connection fails."""
        content = b"" if body is None else json.dumps(body).encode()
        try:
            return await asyncio.wait_for(self._request(method, path, content), REQUEST_TIMEOUT_S)
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            self.close()
            raise OSError(f"{method} {path}: {error}") from None

    async def _request(self, method: str, path: str, content: bytes) -> tuple[int, bytes]:
        if self._stream is None:
            self._stream = await asyncio.open_connection(self.host, self.port, limit=2**22)
        reader, writer = self._stream
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.host}:{self.port}",
            "X-Limen: 1",
            f"Cookie: {self.cookie}",
            f"Content-Length: {len(content)}",
            "Content-Type: application/json",
            "",
            "",
        ]
        writer.write("\r\n".join(lines).encode() + content)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
        reply = await reader.readexactly(int(headers.get("content-length", 0)))
        if (cookie := headers.get("set-cookie", "")).startswith("limen_"):
            self.cookie = cookie.partition(";")[0]
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(head[0].split()[1]), reply

    def close(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
        self._stream = None


async def take_study(
    url: str, listener: Participation, respond: Respond, rng: random.Random, timing: Timing
) -> Participation:
    """Take the study from the first screen to the last; failed requests are repeated."""
    client = Client(url)
    try:
        await asyncio.sleep(rng.uniform(0, timing.ramp_up_s))
        body = {"parameters": {"participant": uuid.uuid4().hex}}
        state = (await _request_until_answered(client, listener, "POST", "/api/begin", body))[0]
        listener.key = client.cookie.partition("=")[2]
        while not state["done"]:
            state = await _take_screen(client, listener, state, respond, rng, timing)
        listener.code = state["code"]
    finally:
        client.close()
    return listener


async def _take_screen(
    client: Client,
    listener: Participation,
    state: dict[str, Any],
    respond: Respond,
    rng: random.Random,
    timing: Timing,
) -> dict[str, Any]:
    from limen.listening.stimuli import digest

    screen, playback, shown_at = state["screen"], [], time.perf_counter()
    for sound in screen["sounds"] if timing.audio else []:
        wav, took_s, _ = await _request_until_answered(client, listener, "GET", sound["url"])
        listener.audio_s.append(took_s)
        played_s = (len(wav) - 44) / 2 / int.from_bytes(wav[24:28], "little")
        report = {"label": sound["label"], "digest": digest(wav), "rate_hz": 48_000, "plays": 1}
        playback.append({**report, "played_s": played_s})
    answer = await respond(listener, screen)
    await asyncio.sleep(rng.uniform(*timing.think_s))
    body = {
        "screen": screen["id"],
        "attempt": uuid.uuid4().hex,
        "answer": answer,
        "playback": playback,
        "response_ms": 1000 * (time.perf_counter() - shown_at),
    }
    reply, took_s, tries = await _request_until_answered(client, listener, "POST", "/api/answer", body)
    if tries == 1:
        listener.latency_s.append(took_s)
    listener.acknowledged.append(
        {"position": state["position"], "attempt": body["attempt"], "answer": answer}
    )
    return dict(reply["state"])


async def _request_until_answered(
    client: Client, listener: Participation, method: str, path: str, body: Any = None
) -> tuple[Any, float, int]:
    """The reply, the seconds that the last try took, and the number of tries."""
    for tries in range(1, MAX_TRIES):
        began = time.perf_counter()
        try:
            status, reply = await client.request(method, path, body)
        except OSError:
            status, reply = 0, b""
        if status == 200:
            took_s = time.perf_counter() - began
            return reply if path.startswith("/audio/") else json.loads(reply), took_s, tries
        if status and status not in RETRY_STATUS:
            text = reply.decode(errors="replace")[:300]
            raise UserError(f"{method} {path}: expected status 200, got {status}: {text}")
        listener.retries += 1
        await asyncio.sleep(min(2.0, 0.1 * 1.5**tries) * random.uniform(0.5, 1.0))
    raise UserError(f"{method} {path}: no reply after {tries} tries. Is the server running?")

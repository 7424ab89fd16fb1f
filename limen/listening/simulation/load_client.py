"""Visitors over HTTP, many at once: each goes through a study as the page would, and keeps what the server
acknowledged.

A small client on asyncio's streams: hundreds of listeners share a processor with the server that they load,
and a general one would take most of it. An answer is sent again, as the same attempt, until it is
acknowledged.
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

Respond = Callable[["Visit", Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Gives the answer to a screen, as the page sees it."""
PATIENCE_S = 60.0


@dataclass
class Visit:
    """One listener's way through the study."""

    number: int
    key: str = ""
    acknowledged: list[dict[str, Any]] = field(default_factory=list)
    """Answers the server said it has stored: {"position", "attempt", "answer"}."""
    latency_s: list[float] = field(default_factory=list)
    """From sending an answer to its acknowledgement, of those that needed one try."""
    audio_s: list[float] = field(default_factory=list)
    """The same of sounds."""
    retries: int = 0
    code: str | None = None
    """Completion code; None: did not reach the end."""


class Client:
    """HTTP/1.1 over one connection that is kept, with one cookie."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise UserError(f"Simulated listeners visit a server at http://HOST:PORT, not {url!r}.")
        self.host, self.port = parts.hostname, parts.port or 80
        self.cookie = ""
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of the reply; OSError if the connection breaks."""
        try:
            return await asyncio.wait_for(
                self._ask(method, path, b"" if body is None else json.dumps(body).encode()), PATIENCE_S
            )
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            self.close()
            raise OSError(f"{method} {path}: {error}") from None

    async def _ask(self, method: str, path: str, content: bytes) -> tuple[int, bytes]:
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
        if (said := headers.get("set-cookie", "")).startswith("limen_"):
            self.cookie = said.partition(";")[0]
        if headers.get("connection", "").lower() == "close":
            self.close()
        return int(head[0].split()[1]), reply

    def close(self) -> None:
        if self._stream is not None:
            self._stream[1].close()
        self._stream = None


@dataclass(frozen=True)
class Pace:
    arrive_s: float = 0.0
    """All come within this time, evenly."""
    think_s: tuple[float, float] = (0.0, 0.0)
    """Between hearing a screen and answering it, drawn evenly."""
    audio: bool = True
    """Sounds are fetched and proved to be played."""


async def visit(url: str, visitor: Visit, respond: Respond, chance: random.Random, pace: Pace) -> Visit:
    """Goes from the first screen to the end; a break of the connection is waited out."""
    client = Client(url)
    try:
        await asyncio.sleep(chance.uniform(0, pace.arrive_s))
        state = (
            await _patiently(
                client, visitor, "POST", "/api/begin", {"parameters": {"participant": uuid.uuid4().hex}}
            )
        )[0]
        visitor.key = client.cookie.partition("=")[2]
        while not state["done"]:
            state = await _one_screen(client, visitor, state, respond, chance, pace)
        visitor.code = state["code"]
    finally:
        client.close()
    return visitor


async def _one_screen(
    client: Client, visitor: Visit, state: dict[str, Any], respond: Respond, chance: random.Random, pace: Pace
) -> dict[str, Any]:
    from limen.listening.stimuli import digest

    screen, playback, began = state["screen"], [], time.perf_counter()
    for sound in screen["sounds"] if pace.audio else []:
        wav, took_s, _ = await _patiently(client, visitor, "GET", sound["url"])
        visitor.audio_s.append(took_s)
        seconds = (len(wav) - 44) / 2 / int.from_bytes(wav[24:28], "little")
        playback.append(
            {
                "label": sound["label"],
                "digest": digest(wav),
                "rate_hz": 48_000,
                "plays": 1,
                "played_s": seconds,
            }
        )
    answer = await respond(visitor, screen)
    await asyncio.sleep(chance.uniform(*pace.think_s))
    body = {
        "screen": screen["id"],
        "attempt": uuid.uuid4().hex,
        "answer": answer,
        "playback": playback,
        "response_ms": 1000 * (time.perf_counter() - began),
    }
    reply, took_s, tries = await _patiently(client, visitor, "POST", "/api/answer", body)
    if tries == 1:
        visitor.latency_s.append(took_s)
    visitor.acknowledged.append({"position": state["position"], "attempt": body["attempt"], "answer": answer})
    return dict(reply["state"])


async def _patiently(
    client: Client, visitor: Visit, method: str, path: str, body: Any = None
) -> tuple[Any, float, int]:
    """Asks until the server answers: the reply, how long the last try took, and how many there were."""
    for tries in range(1, 200):
        began = time.perf_counter()
        try:
            status, reply = await client.ask(method, path, body)
        except OSError:
            status, reply = 0, b""
        if status == 200:
            return (
                reply if path.startswith("/audio/") else json.loads(reply),
                time.perf_counter() - began,
                tries,
            )
        if status not in (0, 429, 502, 503, 504):
            raise UserError(
                f"{method} {path}: the server said {status} {reply.decode(errors='replace')[:300]}"
            )
        visitor.retries += 1
        await asyncio.sleep(min(2.0, 0.1 * 1.5**tries) * random.uniform(0.5, 1.0))
    raise UserError(f"{method} {path}: the server has not answered {tries} times.")

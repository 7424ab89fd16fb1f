"""ASGI middleware in front of every page: request rate and size, requests forged by other sites (CSRF), and
security headers on every reply.

Written on plain ASGI because every request passes here: a framework's middleware costs more than the rest of
an answer.
"""

import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from limen.listening.server.limits import Limits, RateLimiter, Scope, client_address, network_of

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOG = logging.getLogger("limen.listening")
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    # with "no-referrer" browsers send "Origin: null" with our own forms
    (b"referrer-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


class Refusal(NamedTuple):
    status: int
    message: str
    retry_after_s: float = 0.0


class RequestChecks:
    """An ASGI application that checks each request before it passes it to another application."""

    def __init__(self, app: App, limits: Limits, cookie_name: str):
        """`cookie_name`: the cookie that identifies a listener."""
        self.app, self.limits, self.cookie_name = app, limits, cookie_name
        self.addresses = RateLimiter(limits.address_per_s, limits.address_burst)
        self.listeners = RateLimiter(limits.listener_per_s, limits.listener_burst)
        self._warned_of_proxy = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        refusal = self._check_rate(scope, headers) or self._check_origin(scope, headers)
        if refusal is None and scope["method"] in ("POST", "PUT", "PATCH"):
            body, refusal = await self._read_body(headers, receive)
            receive = _replay(body, receive)
        if refusal is None:
            await self.app(scope, receive, send_with_headers)
        else:
            await _refuse(send_with_headers, refusal)

    def _check_rate(self, scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
        wait_s = self.addresses.wait_s(network_of(client_address(scope)))
        if not wait_s and (key := cookie(headers, self.cookie_name)):
            wait_s = self.listeners.wait_s(key)
        return Refusal(429, "Too many requests. Wait a moment, then try again.", wait_s) if wait_s else None

    def _check_origin(self, scope: Scope, headers: dict[bytes, bytes]) -> Refusal | None:
        """Only our own pages may change anything: another site cannot set the header X-Limen, and browsers
        report the origin of the page that sent a request."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return None
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        foreign = origin is not None and _host(origin) != host.lower()
        if foreign and headers.get(b"sec-fetch-site") == b"same-origin" and not self._warned_of_proxy:
            self._warned_of_proxy = True
            LOG.warning(
                "A request from our own page at %s was refused because it arrived with the host %s. A proxy "
                "in between changes the host: configure it to pass on the Host header it receives "
                "(docs/listening.md shows how for nginx, Caddy and Apache).",
                _escaped(origin or b""),
                _escaped(host),
            )
        if foreign or headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            return Refusal(403, "This request was sent by another site.")
        if scope["path"].startswith("/api/") and headers.get(b"x-limen") != b"1":
            return Refusal(403, "Requests that change anything need the header X-Limen: 1.")
        return None

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive) -> tuple[bytes, Refusal | None]:
        most = self.limits.body_bytes
        too_long = Refusal(413, f"The request is too long: at most {most} bytes are accepted.")
        declared = headers.get(b"content-length", b"0")
        if not declared.isdigit() or int(declared[:20]) > most:
            return b"", too_long
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"", Refusal(400, "The request ended before its body was complete.")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                return b"", too_long
            if not message.get("more_body"):
                return b"".join(parts), None


def cookie(headers: dict[bytes, bytes], name: str) -> str | None:
    """The value of a cookie; None if the request has no such cookie."""
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        found, _, value = part.strip().partition("=")
        if found == name:
            return value
    return None


def _host(origin: bytes) -> bytes:
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower().encode("latin-1")
    except ValueError:
        return b""


def _escaped(header: bytes) -> str:
    """For the log: without characters that would control a terminal."""
    return ascii(header.decode("latin-1"))[1:-1][:200]


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body, which has already been read, to the application."""
    replayed = False

    async def again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, refusal: Refusal) -> None:
    body = json.dumps({"error": refusal.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 429:
        headers.append((b"retry-after", str(int(refusal.retry_after_s) + 1).encode()))
    if refusal.status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""What stands before the server's pages: limits of size and rate, no requests forged by other sites, and
headers that keep a page shut.

Written on ASGI itself, as each request passes here: a framework's middleware costs more than the rest of an
answer.
"""

import ipaddress
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field

from limen.core.options import Options

Scope = MutableMapping[str, Any]
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
    (
        b"referrer-policy",
        b"same-origin",
    ),  # without any, browsers say of our own forms that they come from nowhere
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
]


class Limits(Options):
    """How much is taken from whom. A bucket holds `burst` requests and is refilled at the rate given per
    second."""

    body_bytes: int = Field(default=64 * 1024, ge=1024)
    """Longest body of a request."""
    request_s: float = Field(default=20, gt=0)
    """Within this time a request must have arrived whole, and something of a reply that waits must have been
    read; else the connection is closed."""
    connections: int | None = Field(default=None, ge=1)
    """Connections at a time from one network (trusted proxies have no limit); null: 64, or eight for each of
    `begin_burst` if that is more, since a browser opens up to six."""
    listener_per_s: float = Field(default=20, gt=0)
    """Requests of one listener."""
    listener_burst: int = Field(default=200, ge=1)
    address_per_s: float = Field(default=400, gt=0)
    """Requests from one address: a classroom, or a whole university, may stand behind it."""
    address_burst: int = Field(default=4000, ge=1)
    begin_burst: int | None = Field(default=None, ge=1)
    """Listeners from one address who take part at once, and who begin at once; null: a tenth of the study's,
    at least 3. A classroom or a laboratory behind one address needs the number of people in it."""
    begin_per_s: float | None = Field(default=None, gt=0)
    """Refills that; null: `begin_burst` in ten minutes."""
    token_per_s: float = Field(default=0.2, gt=0)
    """Wrong tokens of the administrator from one address."""
    token_burst: int = Field(default=10, ge=1)

    @property
    def most_connections(self) -> int:
        return self.connections or max(64, 8 * (self.begin_burst or 0))


class Buckets:
    """Token buckets by name, for the names last seen."""

    def __init__(self, per_s: float, burst: int, most: int = 20_000):
        self.per_s, self.burst, self.most = per_s, burst, most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, name: str, take: float = 1.0) -> float:
        """Takes from a bucket: 0 if there was one to take, else how long to wait for it. `take` 0 only
        looks."""
        now = time.monotonic()
        left, at = self._left.get(name, (float(self.burst), now))
        left = min(float(self.burst), left + (now - at) * self.per_s)
        enough = left >= 1
        self._left[name] = (left - take if enough else left, now)
        self._left.move_to_end(name)
        if len(self._left) > self.most:
            self._left.popitem(last=False)
        return 0.0 if enough else (1 - left) / self.per_s


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: App, limits: Limits, cookie_name: str):
        """`cookie_name`: that of the cookie which tells listeners apart."""
        self.app, self.limits, self.cookie_name = app, limits, cookie_name
        self.addresses = Buckets(limits.address_per_s, limits.address_burst)
        self.listeners = Buckets(limits.listener_per_s, limits.listener_burst)
        self._told_of_proxy = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *HEADERS]}
            await send(message)

        problem = self._rate(scope, headers) or self._forged(scope, headers)
        if problem is None and scope["method"] in ("POST", "PUT", "PATCH"):
            body, problem = await self._body(headers, receive)
            receive = _replay(body, receive)
        if problem is None:
            await self.app(scope, receive, guarded)
        else:
            await _refuse(guarded, *problem)

    def _rate(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        wait_s = self.addresses.wait_s(network_of(sender(scope)))
        if not wait_s and (key := cookie(headers, self.cookie_name)):
            wait_s = self.listeners.wait_s(key)
        return (429, "Too many requests. Wait a moment, then try again.", wait_s) if wait_s else None

    def _forged(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[int, str, float] | None:
        """Only our own pages may change anything: no other site can set the header, and a browser tells whose
        page asked."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return None
        origin, host = headers.get(b"origin"), headers.get(b"host", b"")
        foreign = origin is not None and _host(origin) != host.lower()
        if foreign and headers.get(b"sec-fetch-site") == b"same-origin" and not self._told_of_proxy:
            self._told_of_proxy = True
            LOG.warning(
                "A browser at %s was refused: its page is ours, but the request came for %s. A proxy stands "
                "between that changes the host: have it pass on the Host that it gets (docs/listening.md "
                "shows how for nginx, Caddy and Apache).",
                _plain(origin or b""),
                _plain(host),
            )
        if foreign or headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site"):
            return 403, "This request comes from another site.", 0
        if scope["path"].startswith("/api/") and headers.get(b"x-limen") != b"1":
            return 403, "Requests that change anything need the header X-Limen: 1.", 0
        return None

    async def _body(
        self, headers: dict[bytes, bytes], receive: Receive
    ) -> tuple[bytes, tuple[int, str, float] | None]:
        most = self.limits.body_bytes
        too_long = (413, f"A request may be {most} bytes long.", 0.0)
        said = headers.get(b"content-length", b"0")
        if not said.isdigit() or int(said[:20]) > most:
            return b"", too_long
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return b"", (400, "The request ended before its body.", 0.0)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                return b"", too_long
            if not message.get("more_body"):
                return b"".join(parts), None


def network_of(address: str) -> str:
    """One sender: an address, or the 64 bits of an IPv6 address that a provider gives to one customer."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address


def sender(scope: Scope) -> str:
    """The address that a request came from."""
    return str((scope.get("client") or ("", 0))[0])


def cookie(headers: dict[bytes, bytes], name: str) -> str | None:
    """The value of a cookie; None if there is none."""
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


def _plain(header: bytes) -> str:
    """For the log: nothing that a terminal would obey."""
    return ascii(header.decode("latin-1"))[1:-1][:200]


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body, which has been read, once more."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(send: Send, status: int, sentence: str, wait_s: float) -> None:
    body = json.dumps({"error": sentence}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 429:
        headers.append((b"retry-after", str(int(wait_s) + 1).encode()))
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

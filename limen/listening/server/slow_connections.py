"""Connections that must get on with it, and few of them from one network: what takes too long to send or to
read is given up.

uvicorn has such a limit between two requests only. Without others, anybody can hold as many connections as
the server may open: by sending half a request, or a byte of it now and then; by reading no replies; or by
opening many.
"""

import asyncio
import json
import socket
import struct
from collections import Counter
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from limen.listening.server.guard import Limits, network_of


def _reply(status: str, sentence: str) -> bytes:
    body = json.dumps({"error": sentence})
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 5\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


LATE = _reply("408 Request Timeout", "The request did not arrive in time.")
CROWDED = _reply(
    "429 Too Many Requests", "Too many connections from your network. Wait a moment, then try again."
)


SENT_AHEAD = 128 * 1024
"""Bytes that the system holds for a client. It takes more only once a third of them are free, and by itself
it may hold megabytes: a slow client would look as if it read nothing for minutes."""


def timely(limits: Limits, proxies: str) -> type[asyncio.Protocol]:
    """uvicorn's own protocol, with `request_s` seconds from the first byte of a request to its last and
    between two moments at which the client reads something, and `connections` at a time from one network.
    `proxies`, which are believed, have no such limit."""
    open_now: Counter[str] = Counter()
    trusted = ProxyHeadersMiddleware(None, proxies).trusted_hosts  # type: ignore[arg-type]

    class Timely(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _limit: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None
        _network: str | None = None
        _answering: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # uvicorn stops writing at the first byte that waits for the client: only then does less that
            # waits mean that it reads
            transport.set_write_buffer_limits(high=0)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENT_AHEAD)
            peer = self.client[0] if self.client else None
            if peer is not None and peer not in trusted:
                self._network = network_of(peer)
                open_now[self._network] += 1
                if open_now[self._network] > limits.most_connections:
                    transport.write(CROWDED)
                    transport.close()
                    return
            self._begin()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            before, was_whole = self.cycle, self.cycle is not None and not self.cycle.more_body
            if self._limit is None:
                self._begin()
            super().data_received(data)
            whole = self.cycle is not None and not self.cycle.more_body
            if whole and not (
                self.cycle is before and was_whole
            ):  # else the data are the head of the next request
                self._end()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._stalled is None:
                self._watch()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_watching()

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._answering = cycle
            super()._start_asgi_task(cycle, app)

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            self._stop_watching()
            self._give_up_answering()
            if self._network is not None:
                open_now[self._network] -= 1
                if not open_now[self._network]:
                    del open_now[self._network]
            super().connection_lost(exc)

        def _begin(self) -> None:
            self._limit = self.loop.call_later(limits.request_s, self._late)

        def _end(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
            self._limit = None

        def _late(self) -> None:
            self._limit = None
            if self.transport.is_closing():
                return
            if self.cycle is None or not self.cycle.response_started or not self.cycle.more_body:
                self.transport.write(LATE)
            self.transport.close()

        def _watch(self) -> None:
            """From now on the client must read something every `request_s` seconds."""
            self._stalled = self.loop.call_later(
                limits.request_s, self._judge, self.transport.get_write_buffer_size()
            )

        def _stop_watching(self) -> None:
            if self._stalled is not None:
                self._stalled.cancel()
            self._stalled = None

        def _judge(self, waited: int) -> None:
            if self.transport.get_write_buffer_size() < waited:
                self._watch()
                return
            self._give_up_answering()
            # what waits in the system's buffers goes too: closing would wait for the client to read
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.transport.abort()

        def _give_up_answering(self) -> None:
            """Of several requests sent at once uvicorn tells only the last that the connection is gone; the
            others would go on to write."""
            if self._answering is not None:
                self._answering.disconnected = True

    return Timely

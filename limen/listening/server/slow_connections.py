"""Time limits for slow clients and a limit on connections per network, at the level of uvicorn's protocol.

uvicorn itself limits only the time between two requests. Without further limits anyone could occupy all
connections that the server may open: by sending half a request, or one byte now and then; by not reading
replies; or by opening many connections.
"""

import asyncio
import json
import socket
import struct
from collections import Counter
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from limen.listening.server.limits import Limits, network_of


def _reply(status: str, message: str) -> bytes:
    body = json.dumps({"error": message})
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 5\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode()


TIMED_OUT = _reply("408 Request Timeout", "The request did not arrive in time.")
TOO_MANY = _reply(
    "429 Too Many Requests", "Too many connections from your network. Wait a moment, then try again."
)
SEND_BUFFER_BYTES = 128 * 1024
"""Kernel send buffer of a connection. The kernel reports it writable only once a third is free, and its
default may hold megabytes: a slow client would then seem to read nothing for minutes."""


def limited_protocol(limits: Limits, proxies: str) -> type[asyncio.Protocol]:
    """uvicorn's protocol with two limits: `request_s` seconds from the first to the last byte of a request
    and between two reads of a waiting reply, and a number of connections per network. `proxies` are trusted
    and have no limit of connections."""
    open_connections: Counter[str] = Counter()
    trusted = ProxyHeadersMiddleware(None, proxies).trusted_hosts  # type: ignore[arg-type]

    class LimitedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _request_timer: asyncio.TimerHandle | None = None
        _read_timer: asyncio.TimerHandle | None = None
        _network: str | None = None
        _current_cycle: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            # uvicorn pauses writing at the first buffered byte: only then does a smaller buffer mean that the
            # client is reading
            transport.set_write_buffer_limits(high=0)
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            peer = self.client[0] if self.client else None
            if peer is not None and peer not in trusted:
                self._network = network_of(peer)
                open_connections[self._network] += 1
                if open_connections[self._network] > limits.connections_per_network:
                    transport.write(TOO_MANY)
                    transport.close()
                    return
            self._start_request_timer()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            before, was_complete = self.cycle, self._request_complete()
            if self._request_timer is None:
                self._start_request_timer()
            super().data_received(data)
            # the same cycle, complete before and after: the data are the start of the next request
            if self._request_complete() and not (self.cycle is before and was_complete):
                self._stop_request_timer()

        def _request_complete(self) -> bool:
            return self.cycle is not None and not self.cycle.more_body

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._read_timer is None:
                self._start_read_timer()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_read_timer()

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._current_cycle = cycle
            super()._start_asgi_task(cycle, app)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_request_timer()
            self._stop_read_timer()
            self._disconnect_cycle()
            if self._network is not None:
                open_connections[self._network] -= 1
                if not open_connections[self._network]:
                    del open_connections[self._network]
            super().connection_lost(exc)

        def _start_request_timer(self) -> None:
            self._request_timer = self.loop.call_later(limits.request_s, self._request_timed_out)

        def _stop_request_timer(self) -> None:
            if self._request_timer is not None:
                self._request_timer.cancel()
            self._request_timer = None

        def _request_timed_out(self) -> None:
            self._request_timer = None
            if self.transport.is_closing():
                return
            if self.cycle is None or not self.cycle.response_started or not self.cycle.more_body:
                self.transport.write(TIMED_OUT)
            self.transport.close()

        def _start_read_timer(self) -> None:
            """From now on the client must read something every `request_s` seconds."""
            buffered = self.transport.get_write_buffer_size()
            self._read_timer = self.loop.call_later(limits.request_s, self._check_reading, buffered)

        def _stop_read_timer(self) -> None:
            if self._read_timer is not None:
                self._read_timer.cancel()
            self._read_timer = None

        def _check_reading(self, buffered_before: int) -> None:
            if self.transport.get_write_buffer_size() < buffered_before:
                self._start_read_timer()
                return
            self._disconnect_cycle()
            # discard what the kernel has buffered: an orderly close would wait for the client to read it
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.transport.abort()

        def _disconnect_cycle(self) -> None:
            """If requests are pipelined, uvicorn notifies only the last one of a lost connection; the others
            would continue to write."""
            if self._current_cycle is not None:
                self._current_cycle.disconnected = True

    return LimitedProtocol

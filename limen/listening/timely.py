"""Connections that must get on with it: a request that has not arrived whole within a time is refused and its connection closed.

uvicorn has such a limit between two requests only. Without one, anybody can hold as many connections as the server may open by sending
half a request, or a byte of it now and then.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

LATE = b'{"error":"The request did not arrive in time."}'
REPLY = b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
    len(LATE),
    LATE,
)


def timely(request_s: float) -> type[asyncio.Protocol]:
    """uvicorn's own protocol, with `request_s` seconds from the first byte of a request to its last."""

    class Timely(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        _limit: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._begin()

        def data_received(self, data: bytes) -> None:
            before, was_whole = self.cycle, self.cycle is not None and not self.cycle.more_body
            if self._limit is None:
                self._begin()
            super().data_received(data)
            whole = self.cycle is not None and not self.cycle.more_body
            if whole and not (self.cycle is before and was_whole):  # else the data are the head of the next request
                self._end()

        def connection_lost(self, exc: Exception | None) -> None:
            self._end()
            super().connection_lost(exc)

        def _begin(self) -> None:
            self._limit = self.loop.call_later(request_s, self._late)

        def _end(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
            self._limit = None

        def _late(self) -> None:
            self._limit = None
            if self.transport.is_closing():
                return
            if self.cycle is None or not self.cycle.response_started or not self.cycle.more_body:
                self.transport.write(REPLY)
            self.transport.close()

    return Timely

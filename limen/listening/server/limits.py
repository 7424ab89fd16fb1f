"""Limits on what the server accepts: sizes, times, and rates by listener and by network."""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import MutableMapping
from typing import Any

from pydantic import Field

from limen.core.options import Options

Scope = MutableMapping[str, Any]
"""An ASGI connection scope."""


class Limits(Options):
    """Rates are token buckets: up to `burst` requests at once, refilled at `per_s` requests per second."""

    body_bytes: int = Field(default=64 * 1024, ge=1024)
    """Largest request body."""
    request_s: float = Field(default=20, gt=0)
    """Seconds within which a request must arrive completely, and within which the client must read at least
    part of a waiting reply; otherwise the connection is closed."""
    connections: int | None = Field(default=None, ge=1)
    """Simultaneous connections from one network (trusted proxies have no limit); null: 64, or eight for each
    of `begin_burst` if that is more, since a browser opens up to six."""
    listener_per_s: float = Field(default=20, gt=0)
    """Requests of one listener."""
    listener_burst: int = Field(default=200, ge=1)
    address_per_s: float = Field(default=400, gt=0)
    """Requests from one address, which a classroom or a university may share."""
    address_burst: int = Field(default=4000, ge=1)
    begin_burst: int | None = Field(default=None, ge=1)
    """Listeners from one address who may take part at the same time, and who may begin at the same time;
    null: a tenth of the study's listeners, at least 3. For a classroom or laboratory behind one address, set
    this to the number of people in it."""
    begin_per_s: float | None = Field(default=None, gt=0)
    """Refill rate of `begin_burst`; null: `begin_burst` listeners in ten minutes."""
    token_per_s: float = Field(default=0.2, gt=0)
    """Wrong administrator tokens from one address."""
    token_burst: int = Field(default=10, ge=1)

    @property
    def connections_per_network(self) -> int:
        return self.connections or max(64, 8 * (self.begin_burst or 0))


class RateLimiter:
    """Token buckets by name; only the most recently used names are remembered."""

    def __init__(self, per_s: float, burst: int, max_names: int = 20_000):
        self.per_s, self.burst, self.max_names = per_s, burst, max_names
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens left and when they were counted, by name."""

    def wait_s(self, name: str) -> float:
        """Take a token: 0 if there was one, else the seconds until there will be one."""
        now = time.monotonic()
        left, counted_at = self._buckets.get(name, (float(self.burst), now))
        left = min(float(self.burst), left + (now - counted_at) * self.per_s)
        enough = left >= 1
        self._buckets[name] = (left - 1 if enough else left, now)
        self._buckets.move_to_end(name)
        if len(self._buckets) > self.max_names:
            self._buckets.popitem(last=False)
        return 0.0 if enough else (1 - left) / self.per_s


def network_of(address: str) -> str:
    """The network that counts as one client: an IPv4 address, or the /64 prefix of an IPv6 address, which is
    what a provider assigns to one customer."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 6 and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address


def client_address(scope: Scope) -> str:
    """The address a request was sent from."""
    return str((scope.get("client") or ("", 0))[0])

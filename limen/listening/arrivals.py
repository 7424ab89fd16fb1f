"""How many begin from one address: far fewer than the study has places, so that nobody fills it alone. Addresses are never stored."""

import ipaddress
import logging
import threading
import time
from collections import OrderedDict

from limen.errors import UserError
from limen.listening.guard import Buckets, Limits

LOG = logging.getLogger("limen.listening")
SHARE, LEAST = 10, 3
"""Unless told otherwise one address begins with a tenth of the places, and at least three."""
REFILL_S = 600.0
"""After which as many may begin again."""
QUIET_S = 60.0
"""Between two remarks to the operator."""


class Crowded(UserError):
    """Too many begin from one address."""

    def __init__(self, wait_s: float):
        super().__init__("Many people have just begun from your network. Your turn comes in a moment.")
        self.wait_s = wait_s


class Arrivals:
    def __init__(self, limits: Limits, places: int, begun_s: float):
        """`begun_s`: a listener who has no place after so long has left."""
        self.most = limits.begin_burst or max(LEAST, places // SHARE)
        self._begun_s = begun_s
        self._buckets = Buckets(limits.begin_per_s or self.most / REFILL_S, self.most)
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._lock = threading.Lock()
        self._said_at = -QUIET_S

    def admit(self, key: str, address: str) -> None:
        """A new listener, by the hash of their key, begins from an address; Crowded if too many just did."""
        now, network = time.monotonic(), network_of(address)
        with self._lock:
            while self._open and next(iter(self._open.values()))[1] <= now - self._begun_s:
                self._open.popitem(last=False)
            since = [at for where, at in self._open.values() if where == network]
            wait_s = since[0] + self._begun_s - now if len(since) >= self.most else self._buckets.wait_s(network)
            if not wait_s:
                self._open[key] = network, now
                return
            if now - self._said_at >= QUIET_S:
                self._said_at = now
                LOG.warning(
                    "%s: a new listener was asked to wait, since %d have just begun from there. If a classroom or a proxy stands behind "
                    "this address, serve with --per-address and the number of people (a proxy must send X-Forwarded-For).",
                    address, self.most,
                )  # fmt: skip
        raise Crowded(wait_s)

    def settled(self, key: str) -> None:
        """The listener has a place, or was not let in."""
        with self._lock:
            self._open.pop(key, None)


def network_of(address: str) -> str:
    """One sender: an address, or the 64 bits of an IPv6 address that a provider gives to one customer."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if found.version == 6 and found.ipv4_mapped is None:
        return str(ipaddress.ip_network((found, 64), strict=False))
    return address

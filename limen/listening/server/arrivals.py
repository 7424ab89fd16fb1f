"""How many take part from one address at once: far fewer than the study has places, so that no address fills
it alone.

Addresses are kept in memory while their listeners take part, and never stored.
"""

import logging
import threading
import time

from limen.core.errors import UserError
from limen.listening.server.guard import Buckets, Limits, network_of

LOG = logging.getLogger("limen.listening")
SHARE, LEAST = 10, 3
"""Unless told otherwise one address has a tenth of the places, and at least three."""
REFILL_S = 600.0
"""After which as many may begin again."""
QUIET_S = 60.0
"""Between two remarks to the operator, and at most until somebody who waits asks again: a listener may finish
any moment."""


class Crowded(UserError):
    """Too many take part from one address."""

    def __init__(self, wait_s: float):
        super().__init__("Many people from your network are taking part just now. Your turn comes soon.")
        self.wait_s = wait_s


class Arrivals:
    def __init__(self, limits: Limits, places: int, begun_s: float, patience_s: float):
        """A listener counts until they finish, or were idle so long: `begun_s` as long as they have no place,
        `patience_s` with one."""
        self.most = limits.begin_burst or max(LEAST, places // SHARE)
        self._begun_s, self._patience_s = begun_s, patience_s
        self._buckets = Buckets(limits.begin_per_s or self.most / REFILL_S, self.most)
        self._here: dict[str, tuple[str, float]] = {}
        """Network of each who takes part, by the hash of their key, and until when they count."""
        self._lock = threading.Lock()
        self._said_at = -QUIET_S

    def admit(self, key: str, address: str) -> None:
        """A new listener, by the hash of their key, begins from an address; Crowded if too many take part
        there or have just begun."""
        now, network = time.monotonic(), network_of(address)
        with self._lock:
            self._here = {who: (where, until) for who, (where, until) in self._here.items() if until > now}
            ends = [until for where, until in self._here.values() if where == network]
            wait_s = (
                min(QUIET_S, min(ends) - now) if len(ends) >= self.most else self._buckets.wait_s(network)
            )
            if not wait_s:
                self._here[key] = network, now + self._begun_s
                return
            if now - self._said_at >= QUIET_S:
                self._said_at = now
                LOG.warning(
                    "%s: a new listener was asked to wait, since %d take part from there, or have just "
                    "begun. If a classroom or a proxy stands behind this address, serve with --per-address "
                    "and the number of people (a proxy must send X-Forwarded-For).",
                    address,
                    self.most,
                )
        raise Crowded(wait_s)

    def seen(self, key: str, placed: bool) -> None:
        """The listener has answered or fetched a sound; `placed`: they have a place."""
        with self._lock:
            if key in self._here:
                self._here[key] = (
                    self._here[key][0],
                    time.monotonic() + (self._patience_s if placed else self._begun_s),
                )

    def gone(self, key: str) -> None:
        """The listener has finished, does not take part, or was not let in."""
        with self._lock:
            self._here.pop(key, None)

"""A limit on how many listeners take part from one network at the same time, far below the number of places
in the study, so that a single network cannot fill it.

Addresses are kept in memory while their listeners take part, and never stored.
"""

import logging
import threading
import time

from limen.core.errors import UserError
from limen.listening.server.limits import Limits, RateLimiter, network_of

LOG = logging.getLogger("limen.listening")
SHARE, LEAST = 10, 3
"""Default: one network may have a tenth of the places, and at least three."""
REFILL_S = 600.0
"""Seconds after which as many listeners may begin again."""
RETRY_S = 60.0
"""Seconds between two warnings to the operator, and the longest time a listener is asked to wait before
trying again, since another listener may finish at any moment."""


class TooManyFromNetwork(UserError):
    """Too many listeners of one network take part."""

    def __init__(self, wait_s: float):
        super().__init__("Many people from your network are taking part right now. You can begin soon.")
        self.wait_s = wait_s


class NetworkLimit:
    def __init__(self, limits: Limits, places: int, start_timeout_s: float, idle_timeout_s: float):
        """A listener counts until they finish or have been idle for `start_timeout_s` (without a place) or
        `idle_timeout_s` (with a place)."""
        self.most = limits.begin_burst or max(LEAST, places // SHARE)
        self._start_timeout_s, self._idle_timeout_s = start_timeout_s, idle_timeout_s
        self._begin_rate = RateLimiter(limits.begin_per_s or self.most / REFILL_S, self.most)
        self._active: dict[str, tuple[str, float]] = {}
        """Network of each listener who takes part and the time until which they count, by key hash."""
        self._lock = threading.Lock()
        self._warned_at = -RETRY_S

    def admit(self, key: str, address: str) -> None:
        """Count a new listener, given the hash of their key; raise TooManyFromNetwork if too many of their
        network take part or have just begun."""
        now, network = time.monotonic(), network_of(address)
        with self._lock:
            self._active = {k: (net, until) for k, (net, until) in self._active.items() if until > now}
            ends = [until for net, until in self._active.values() if net == network]
            if len(ends) >= self.most:
                wait_s = min(RETRY_S, min(ends) - now)
            else:
                wait_s = self._begin_rate.wait_s(network)
            if not wait_s:
                self._active[key] = network, now + self._start_timeout_s
                return
            if now - self._warned_at >= RETRY_S:
                self._warned_at = now
                LOG.warning(
                    "%s: a new listener has to wait, because %d listeners from this address take part or "
                    "have just begun. If a classroom or a proxy uses this address, serve with --per-address "
                    "and the number of people (a proxy must send X-Forwarded-For).",
                    address,
                    self.most,
                )
        raise TooManyFromNetwork(wait_s)

    def seen(self, key: str, has_place: bool) -> None:
        """Note that the listener has answered or fetched a sound."""
        timeout_s = self._idle_timeout_s if has_place else self._start_timeout_s
        with self._lock:
            if key in self._active:
                self._active[key] = self._active[key][0], time.monotonic() + timeout_s

    def remove(self, key: str) -> None:
        """Stop counting a listener who has finished, declined or was not admitted."""
        with self._lock:
            self._active.pop(key, None)

"""Counts per client: requests of the last minute, and characters; in memory, or in a store shared by servers."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

import limits

from regard.errors import ConfigError

log = logging.getLogger("regard.server")
Result = TypeVar("Result")
MAX_CLIENTS = 100_000  # maximum number of clients whose characters are counted in memory
STORED_SECONDS = 366 * 24 * 3600  # time for which a store keeps the characters of a client
STORE_TIMEOUT, STORE_PAUSE = 1.0, 10.0  # seconds to wait for a response, and until the next attempt after a failure


class Counts(Protocol):
    """Counts of the clients of a server."""

    def hit(self, client: str, allowed: int) -> float | None:
        """Count a request; return None, or the seconds to wait if there are more than ``allowed`` per minute."""

    def charge(self, client: str, characters: int, quota: int | None) -> bool:
        """Count characters and return True; return False if they exceed the quota."""

    def refund(self, client: str, characters: int) -> None:
        """Subtract characters that were counted."""

    def characters(self, client: str) -> int:
        """Return the number of characters of a client."""


class ClientCounts:
    """Counts in memory, since the start of the server."""

    def __init__(self) -> None:
        self._window = limits.strategies.SlidingWindowCounterRateLimiter(limits.storage.MemoryStorage())
        self._characters: Counter[str] = Counter()
        self._lock = threading.Lock()

    def hit(self, client: str, allowed: int) -> float | None:
        """See ``Counts``."""
        return _hit(self._window, client, allowed)

    def charge(self, client: str, characters: int, quota: int | None) -> bool:
        """See ``Counts``."""
        with self._lock:
            if quota is not None and self._characters[client] + characters > quota:
                return False
            if client not in self._characters and len(self._characters) >= MAX_CLIENTS:
                del self._characters[next(iter(self._characters))]  # drop the oldest client
            self._characters[client] += characters
            return True

    def refund(self, client: str, characters: int) -> None:
        """See ``Counts``."""
        with self._lock:
            self._characters[client] -= characters

    def characters(self, client: str) -> int:
        """See ``Counts``."""
        return self._characters[client]


class StoredCounts:
    """Counts in a store of the library ``limits``, such as ``redis://host:6379``, shared by several servers.

    While the store does not respond, each server counts in memory, so the limits stay active.
    """

    def __init__(self, uri: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Open a store; raise ConfigError if the URI is not supported, or its client library is not installed."""
        options: dict[str, Any] = {"wrap_exceptions": True}
        if uri.startswith("redis"):
            options |= {"socket_timeout": STORE_TIMEOUT, "socket_connect_timeout": STORE_TIMEOUT}
        try:
            self._storage: Any = limits.storage.storage_from_string(uri, **options)
            if not isinstance(self._storage, limits.storage.Storage):
                raise ValueError(f"{uri} is an asynchronous store; a synchronous one is required")
            self._window = limits.strategies.SlidingWindowCounterRateLimiter(self._storage)
        except (limits.errors.ConfigurationError, NotImplementedError, ValueError) as error:
            raise ConfigError(
                f"{uri!r} cannot store the counts of several servers", where="--limits-storage", why=str(error),
                help="use, for example, --limits-storage redis://localhost:6379, with `pip install redis`",
            ) from error  # fmt: skip
        self._memory, self._clock, self._absent_until = ClientCounts(), clock, 0.0

    def hit(self, client: str, allowed: int) -> float | None:
        """See ``Counts``."""
        return self._try_store(lambda: _hit(self._window, client, allowed), lambda: self._memory.hit(client, allowed))

    def charge(self, client: str, characters: int, quota: int | None) -> bool:
        """See ``Counts``."""

        def charge() -> bool:
            """Count first, then check: otherwise two servers could both accept the last characters."""
            counted = self._storage.incr(_key(client), STORED_SECONDS, characters)
            if quota is None or counted <= quota:
                return True
            self._storage.incr(_key(client), STORED_SECONDS, -characters)
            return False

        return self._try_store(charge, lambda: self._memory.charge(client, characters, quota))

    def refund(self, client: str, characters: int) -> None:
        """See ``Counts``."""
        self._try_store(
            lambda: self._storage.incr(_key(client), STORED_SECONDS, -characters),
            lambda: self._memory.refund(client, characters),
        )

    def characters(self, client: str) -> int:
        """See ``Counts``."""
        stored = partial(self._storage.get, _key(client))
        return self._try_store(lambda: int(stored()), lambda: self._memory.characters(client))

    def _try_store(self, store: Callable[[], Result], memory: Callable[[], Result]) -> Result:
        """Return the result of the store, or of memory while the store does not respond."""
        if self._clock() >= self._absent_until:
            try:
                return store()
            except limits.errors.StorageError as error:
                log.error("the limits storage does not respond (%s): counting in memory", type(error.args[0]).__name__)
                self._absent_until = self._clock() + STORE_PAUSE
        return memory()


def _hit(window: limits.strategies.SlidingWindowCounterRateLimiter, client: str, allowed: int) -> float | None:
    rate = limits.RateLimitItemPerMinute(allowed)
    return None if window.hit(rate, client) else window.get_window_stats(rate, client).reset_time - time.time()


def _key(client: str) -> str:
    """Return the storage key of the characters of a client."""
    return f"regard/characters/{client}"

"""Deadline that the work itself checks: a thread cannot be stopped from outside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class DeadlineExceeded(Exception):
    """The time of a request is over before its result is complete."""


class Deadline:
    """Time at which work must end. Long work calls ``check`` at each of its steps.

    Args:
        seconds: the time from now on.
        clock: returns the current time in seconds.
    """

    def __init__(self, seconds: float = math.inf, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self.end = clock() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0."""
        return max(self.end - self._clock(), 0.0)

    def check(self) -> None:
        """Raise DeadlineExceeded if the time is over."""
        if self._clock() >= self.end:
            raise DeadlineExceeded(f"This took more than {self.seconds:g} s.")


NO_DEADLINE = Deadline()

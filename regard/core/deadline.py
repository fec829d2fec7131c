"""Deadline that long work checks itself, since a thread cannot be stopped from outside."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class DeadlineExceeded(Exception):
    """The time limit of a request was exceeded before its result was complete."""


class Deadline:
    """Time limit of a computation. Long work calls ``check`` at each of its steps.

    Args:
        seconds: the time from now on.
        clock: returns the current time in seconds.
    """

    def __init__(self, seconds: float = math.inf, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self.end = clock() + seconds

    @property
    def left(self) -> float:
        """Remaining seconds, at least 0."""
        return max(self.end - self._clock(), 0.0)

    def check(self) -> None:
        """Raise DeadlineExceeded if the time limit is exceeded."""
        if self._clock() >= self.end:
            raise DeadlineExceeded(f"This took more than {self.seconds:g} s.")


NO_DEADLINE = Deadline()

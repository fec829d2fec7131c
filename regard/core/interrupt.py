"""Ctrl-C and SIGTERM as a question that long work asks itself between two safe moments."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

__all__ = ["Interrupts"]


class Interrupts:
    """While entered and ``polite``, the first SIGINT or SIGTERM only makes ``interrupted()`` true; the next acts.

    Until ``polite`` is set, as during preparation, where nothing can be lost, a signal acts at once:
    KeyboardInterrupt, or SystemExit with 143.
    """

    def __init__(self) -> None:
        self.polite = False
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def interrupted(self) -> bool:
        return self.received is not None

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as shells have it: 130 and 143."""
        return 0 if self.received is None else 128 + self.received

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.polite and self.received is None:
            self.received = number
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

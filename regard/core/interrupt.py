"""Ctrl-C and SIGTERM as a flag that long work polls at safe points."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType


class Interrupts:
    """Signal handlers: while ``polite``, the first SIGINT or SIGTERM only sets ``interrupted()``; the next one acts.

    Until ``polite`` is set, as during preparation when nothing can be lost, a signal acts immediately. It raises
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
        """Return whether a signal was received."""
        return self.received is not None

    @property
    def exit_code(self) -> int:
        """Exit code as shells define it, 128 + the signal's number (130 or 143); 0 without a signal."""
        return 0 if self.received is None else 128 + self.received

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.polite and self.received is None:
            self.received = number
            return
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

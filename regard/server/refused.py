"""What a server says instead of a translation; each dialect gives it the shape that its clients know."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):
    """``status`` as in HTTP; ``message`` is for the client's eyes and names no file; ``retry_after`` in seconds."""

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(max(1, round(self.retry_after)))}

"""What a server says instead of a translation; each dialect gives it the shape that its clients know."""

from __future__ import annotations

from typing import Literal

from starlette.exceptions import HTTPException

__all__ = ["ApiError", "Reason"]


Reason = Literal["no key", "wrong key", "quota", "other"]


class ApiError(HTTPException):
    """``status`` as in HTTP; ``message`` is for the client's eyes and names no file; ``retry_after`` in seconds.

    For some a ``reason``, to which dialects give a status of their own.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, reason: Reason = "other"
    ) -> None:
        headers = None if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}
        super().__init__(status, message, headers)
        self.status, self.message, self.reason = status, message, reason

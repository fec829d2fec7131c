"""API errors: failures that a client is told, formatted by each interface as its clients expect."""

from __future__ import annotations

from typing import Literal

from starlette.exceptions import HTTPException

from regard.errors import RegardError

ErrorReason = Literal["no key", "wrong key", "quota", "other"]


class ApiError(HTTPException):
    """Error response of any interface.

    ``status``: the HTTP status. ``message``: for the client; names no file of the server. ``retry_after``: in seconds,
    for the header of that name. ``reason``: for failures to which some interfaces give a status of their own.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, reason: ErrorReason = "other"
    ) -> None:
        headers = None if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}
        super().__init__(status, message, headers)
        self.status, self.message, self.reason = status, message, reason


def public_message(error: RegardError) -> str:
    """Return an error's message without paths of the server."""
    return "; ".join(part for part in (error.what, error.why) if part and "/" not in part)

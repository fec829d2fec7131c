"""Errors that are sent to clients; each interface has its own format."""

from __future__ import annotations

from typing import Literal

from starlette.exceptions import HTTPException

from regard.errors import RegardError

ErrorReason = Literal["no key", "wrong key", "quota", "other"]


class ApiError(HTTPException):
    """Error response of any interface.

    Args:
        status: the HTTP status.
        message: the message for the client, without paths of the server.
        retry_after: the value of the header Retry-After, in seconds.
        reason: the reason, if some interfaces have their own status for it.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, reason: ErrorReason = "other"
    ) -> None:
        headers = None if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}
        super().__init__(status, message, headers)
        self.status, self.message, self.reason = status, message, reason


def public_message(error: RegardError) -> str:
    """Return the message of an error without the parts that contain paths of the server."""
    return "; ".join(part for part in (error.what, error.why) if part and "/" not in part)

"""Errors that are sent to clients; each interface has its own format."""

from __future__ import annotations

from typing import Literal

from starlette.exceptions import HTTPException

from regard.errors import RegardError

ErrorReason = Literal[
    "no key", "wrong key", "quota", "too large", "too many requests", "queue full", "deadline", "stopping",
    "not loaded", "slow client", "too many connections", "forbidden", "invalid", "other",
]  # fmt: skip
# Reasons of errors without one, by status; a failure of the server is no refusal.
REASONS: dict[int, ErrorReason] = {
    403: "forbidden", 408: "slow client", 413: "too large", 421: "forbidden", 429: "too many requests",
}  # fmt: skip


class ApiError(HTTPException):
    """Error response of any interface.

    Args:
        status: the HTTP status.
        message: the message for the client, without paths of the server.
        retry_after: the value of the header Retry-After, in seconds.
        reason: the reason, for metrics and for interfaces that have their own status for it.
    """

    def __init__(
        self, status: int, message: str, *, retry_after: float | None = None, reason: ErrorReason = "other"
    ) -> None:
        headers = None if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}
        super().__init__(status, message, headers)
        self.status, self.message, self.reason = status, message, reason

    @property
    def refusal(self) -> ErrorReason | None:
        """Reason of a refusal for metrics; None for a failure of the server."""
        if self.reason != "other":
            return self.reason
        return REASONS.get(self.status, "invalid") if self.status < 500 else None


def public_message(error: RegardError) -> str:
    """Return the message of an error without the parts that contain paths of the server."""
    return "; ".join(part for part in (error.what, error.why) if part and "/" not in part)

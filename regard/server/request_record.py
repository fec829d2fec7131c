"""Record of the current request: its id, and the facts about it that the log shows. It contains no text.

The record is in a context variable, so each log line that is written while a request is served has its id.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.types import Scope

if TYPE_CHECKING:
    from regard.server.tracing import RequestTrace

log = logging.getLogger("regard.server")
HEADER = b"x-request-id"
VALID_ID = re.compile(rb"[A-Za-z0-9._~:/+=@-]{1,128}")
LONGEST_PATH = 200  # maximum number of logged characters of a path without a route
_CURRENT: ContextVar[RequestRecord | None] = ContextVar("request", default=None)


@dataclass
class RequestRecord:
    """Facts about a request.

    Attributes:
        id: the id that the client sent, or a new one.
        began: the time of its arrival on ``time.perf_counter``.
        key: the owner of its API key; None without a key.
        model: the name of the model that computed for it; None for no model.
        tokens: the number of tokens of its outputs; None if no search ran.
        trace: the spans of the request; None without tracing.
    """

    id: str
    began: float = field(default_factory=time.perf_counter)
    key: str | None = None
    model: str | None = None
    tokens: int | None = None
    trace: RequestTrace | None = None

    @classmethod
    def start(cls, scope: Scope) -> RequestRecord:
        """Return the record of a new request, and make it the current one."""
        sent = next((value for name, value in scope["headers"] if name == HEADER), b"")
        record = cls(sent.decode() if VALID_ID.fullmatch(sent) else new_id())
        _CURRENT.set(record)
        return record

    def add_tokens(self, tokens: int | None) -> None:
        """Add output tokens; None for work other than a search."""
        if tokens is not None:
            self.tokens = (self.tokens or 0) + tokens

    def log(self, scope: Scope, method: str, status: int) -> None:
        """Log the end of the request: in JSON, the fields; as text, a line with the most important ones."""
        seconds = time.perf_counter() - self.began
        client = (scope.get("client") or "-")[0]
        route = getattr(scope.get("route"), "path", None)  # not the path: it may name a file, which is a secret
        fields: dict[str, Any] = {
            "method": method, "path": route or scope["path"][:LONGEST_PATH], "status": status,
            "duration": round(seconds, 6), "client": client, "key": self.key, "model": self.model,
            "tokens": self.tokens, "trace_id": self.trace and self.trace.id,
        }  # fmt: skip
        if self.trace:
            self.trace.set_result(route, status)
        log.info(
            "%s %s %s %d %.3f s", client, method, route or "other", status, seconds,
            extra={"request": {name: value for name, value in fields.items() if value is not None}},
        )  # fmt: skip


def current_request() -> RequestRecord | None:
    """Return the record of the request that is being served; None outside of requests."""
    return _CURRENT.get()


def new_id() -> str:
    """Return a new id of a request."""
    return secrets.token_hex(16)

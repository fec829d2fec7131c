"""Log lines of a server: texts, or JSON objects, one on each line.

In JSON, every line of the process is an object, also those of uvicorn and of other libraries.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Literal

from regard.server.request_record import current_request

LogFormat = Literal["text", "json"]
SHORTER = {"regard.server": logging.INFO, "uvicorn": logging.INFO}  # loggers that log more than warnings


class TextLines(logging.Formatter):
    """Lines with the time, the name of the worker, the message and the id of the request."""

    def __init__(self, worker: str | None = None) -> None:
        super().__init__(f"%(asctime)s {worker}: %(message)s" if worker else "%(asctime)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        request = current_request()
        return super().format(record) + (f" [{request.id}]" if request else "")


class JsonLines(logging.Formatter):
    """Lines of JSON: time, level, logger, message, worker, id of the request, and the fields of a finished request."""

    def __init__(self, worker: str | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        request = current_request()
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage(),
            "process": record.process, "worker": self._worker, "request_id": request and request.id,
        } | getattr(record, "request", {})  # fmt: skip
        if record.exc_info and record.exc_info[0] is not None:  # without its message, which may quote a text
            fields["exception"] = record.exc_info[0].__name__
            fields["traceback"] = "".join(traceback.format_tb(record.exc_info[2]))
        return json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)


class _StandardError(logging.StreamHandler):
    """Handler that writes to the current standard error."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        """Standard error."""
        return sys.stderr


def configure_logs(format: LogFormat, worker: str | None = None) -> None:
    """Log to standard error.

    Args:
        format: ``text``: the lines of Regard; uvicorn has its own. ``json``: the lines of all libraries and warnings.
        worker: the name of this worker; None for the only process and for the supervisor.
    """
    handler = _StandardError()
    handler.setFormatter(JsonLines(worker) if format == "json" else TextLines(worker))
    for name, level in SHORTER.items():
        logging.getLogger(name).setLevel(level)
    target = logging.getLogger() if format == "json" else logging.getLogger("regard.server")
    target.handlers[:] = [handler]
    if format == "json":
        uvicorn = logging.getLogger("uvicorn")  # in case that another server of this process has configured it
        uvicorn.handlers[:], uvicorn.propagate = [], True
        logging.captureWarnings(True)

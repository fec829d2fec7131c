"""LibreTranslate's files: sent whole, translated, and fetched under a name that nobody can guess."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from fastapi import Request
from python_multipart.exceptions import FormParserError
from starlette.datastructures import UploadFile

from regard.server.api_error import ApiError

__all__ = ["FORMATS", "Files", "Sent", "read_form"]

FORMATS = (".txt", ".md", ".html", ".htm")
FIELDS = 20  # of a form


class Sent(NamedTuple):
    """A file that came with a form; of its name only the end is of interest."""

    suffix: str
    text: str


class Files:
    """The last ``most`` translated files, for ``seconds``."""

    def __init__(self, *, most: int = 32, seconds: float = 600.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()

    def add(self, suffix: str, text: str) -> str:
        """The name under which it is found."""
        name = f"{secrets.token_urlsafe(24)}{suffix}"
        self._sweep()
        while len(self._kept) >= self._most:
            self._kept.popitem(last=False)
        self._kept[name] = self._clock() + self._seconds, text.encode()
        return name

    def find(self, name: str) -> bytes:
        """ApiError where there is none, or no longer."""
        self._sweep()
        if name not in self._kept:
            raise ApiError(404, "There is no such file, or no longer.")
        return self._kept[name][1]

    def _sweep(self) -> None:
        now = self._clock()
        while self._kept and next(iter(self._kept.values()))[0] <= now:
            self._kept.popitem(last=False)


async def read_form(request: Request) -> tuple[dict[str, Any], Sent]:
    """The fields of a form with a file, and the file. ApiError where it is none that can be translated."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise ApiError(400, "Invalid request: no form with a file")
    try:
        async with request.form(max_files=1, max_fields=FIELDS) as form:
            sent = form.get("file")
            if not isinstance(sent, UploadFile):
                raise ApiError(400, "Invalid request: missing file parameter")
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
            return fields, Sent(_suffix(sent.filename or ""), _text(await sent.read()))
    except FormParserError as error:
        raise ApiError(400, "Invalid request: the form is not whole") from error


def _suffix(filename: str) -> str:
    found = PurePosixPath(filename).suffix.lower()
    if found not in FORMATS:
        raise ApiError(400, f"Invalid request: only files of {', '.join(FORMATS)} can be translated")
    return found


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(400, "Invalid request: the file is not UTF-8") from error

"""Uploaded files, and translated files with names that cannot be guessed (LibreTranslate)."""

from __future__ import annotations

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from fastapi import Request
from starlette.datastructures import Headers

from regard.server.api.forms import FormFile, is_form, parse_form
from regard.server.api_error import ApiError
from regard.server.off_loop import off_loop

FILE_SUFFIXES = (".txt", ".md", ".html", ".htm")


class UploadedText(NamedTuple):
    """Text of an uploaded file, and the suffix of its name."""

    suffix: str
    text: str


class TranslatedFiles:
    """Store of the last ``limit`` translated files, each kept for ``seconds``."""

    def __init__(self, *, limit: int = 32, seconds: float = 600.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit, self._seconds, self._clock = limit, seconds, clock
        self._files: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, suffix: str, text: str) -> str:
        """Store a text and return the name of its file."""
        name = f"{secrets.token_urlsafe(24)}{suffix}"
        with self._lock:
            self._expire()
            while len(self._files) >= self._limit:
                self._files.popitem(last=False)
            self._files[name] = self._clock() + self._seconds, text.encode()
        return name

    def find(self, name: str) -> bytes:
        """Return the content of a file; raise ApiError 404 if it does not exist or has expired."""
        with self._lock:
            self._expire()
            if name not in self._files:
                raise ApiError(404, "The file does not exist or has expired.")
            return self._files[name][1]

    def _expire(self) -> None:
        """Drop expired files."""
        now = self._clock()
        while self._files and next(iter(self._files.values()))[0] <= now:
            self._files.popitem(last=False)


async def read_form(request: Request) -> tuple[dict[str, Any], UploadedText]:
    """Return the fields of a form and its file; raise ApiError if it has no file that can be translated."""
    fields, file = await read_upload(request)
    return fields, await off_loop(lambda: UploadedText(_suffix(file.name), _text(file.contents)))


async def read_upload(request: Request) -> tuple[dict[str, Any], FormFile]:
    """Return the fields of a form and its file; raise ApiError if it has no file."""
    if not is_form(request.headers.get("content-type", "")):
        raise ApiError(400, "Invalid request: the body is not a form with a file")
    return await off_loop(_parse_form, request.headers, await request.body())


def _parse_form(headers: Headers, body: bytes) -> tuple[dict[str, Any], FormFile]:
    """Return the fields of a form and its file."""
    form = parse_form(headers, body, max_files=1)
    sent = [file for name, file in form.files if name == "file"]
    if not sent:
        raise ApiError(400, "Invalid request: missing file parameter")
    return dict(form.fields), sent[0]


def _suffix(filename: str) -> str:
    """Return the suffix of a file name; raise ApiError if such files cannot be translated."""
    suffix = PurePosixPath(filename).suffix.lower()
    if suffix not in FILE_SUFFIXES:
        raise ApiError(400, f"Invalid request: only files of {', '.join(FILE_SUFFIXES)} can be translated")
    return suffix


def _text(body: bytes) -> str:
    """Return the text of a file; raise ApiError if it is not UTF-8."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ApiError(400, "Invalid request: the file is not UTF-8") from error

"""Download of one file over HTTP: resumed, retried after transient failures, limited in size.

The content is not verified here: see ``fetch``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from socket import gaierror
from urllib.error import HTTPError
from urllib.request import Request, build_opener

from regard.core.atomic_files import explain_os_errors
from regard.errors import DataError

CHUNK = 1 << 16  # bytes read at once
TIMEOUT = 30.0  # seconds without a byte
PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds before each further try
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses that may change on another try

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


class _Interrupted(Exception):
    """Transfer broke off; another try may succeed."""


def download(
    address: str,
    partial: Path,
    *,
    limit: int,
    help: str,
    progress: Progress | None = None,
    pauses: Sequence[float] = PAUSES,
) -> None:
    """Download ``address`` into ``partial``, continuing after the bytes that ``partial`` already has.

    ``limit``: bytes accepted at most. ``help``: the hint that ends every error. ``progress``: called with bytes so far
    and in all. ``pauses``: seconds before each further try. Proxies come from the environment (``https_proxy``,
    ``no_proxy``). ``partial`` stays after an interruption, so that the next call continues. Raises DataError if the
    server refuses, sends too much, or fails on every try; StorageError from the disk.
    """
    for pause in (*pauses, None):
        try:
            _receive(address, partial, limit, help, progress)
            return
        except _Interrupted as error:
            if pause is None:
                raise DataError("the download failed", where=address, why=str(error), help=help) from error
            time.sleep(pause)


def _receive(address: str, partial: Path, limit: int, help: str, progress: Progress | None) -> None:
    """Try once to receive the rest of the file."""
    done = partial.stat().st_size if partial.exists() else 0
    with _open(address, done, help) as response:
        done = _start(response, done)
        length = response.headers.get("Content-Length", "")
        total = done + int(length) if length.isdecimal() else None
        if total is not None and total > limit:
            raise _too_large(address, limit, help)
        with explain_os_errors(partial), partial.open("ab" if done else "wb") as file:
            while chunk := _read(response):
                done += len(chunk)
                if done > limit:
                    raise _too_large(address, limit, help)
                file.write(chunk)
                if progress:
                    progress(done, total)
    if total is not None and done < total:
        raise _Interrupted(f"the connection ended after {done:,} of {total:,} bytes")


def _open(address: str, done: int, help: str) -> HTTPResponse:
    """Return the response to a request for the bytes from ``done`` on."""
    headers = {"User-Agent": "regard", "Accept-Encoding": "identity"}
    if done:
        headers["Range"] = f"bytes={done}-"
    try:
        response: HTTPResponse = build_opener().open(Request(address, headers=headers), timeout=TIMEOUT)
        return response
    except HTTPError as error:
        with error:
            answer = f"the server answered {error.code} {error.reason}"
        if error.code in TRANSIENT:
            raise _Interrupted(answer) from error
        if error.code == 416 and done:  # nothing follows the partial file: download the whole again
            return _open(address, 0, help)
        raise DataError("the file cannot be downloaded", where=address, why=answer, help=help) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, gaierror):  # usually no network at all: more tries would only waste time
            why = f"the name of the server cannot be looked up: {reason.strerror}"
            raise DataError("the download failed", where=address, why=why, help=help) from error
        raise _Interrupted(f"the server cannot be reached: {reason}") from error


def _start(response: HTTPResponse, done: int) -> int:
    """Return the byte at which the response begins: ``done`` if the server honors the range, else 0."""
    if response.status != 206:
        return 0
    span = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if span is None or int(span[1]) != done:
        raise _Interrupted("the server sent another part of the file than requested")
    return done


def _read(response: HTTPResponse) -> bytes:
    """Return the next bytes of a response. Raises _Interrupted if the connection broke."""
    try:
        return response.read1(CHUNK)
    except (OSError, HTTPException) as error:
        raise _Interrupted(f"the connection broke: {error or type(error).__name__}") from error


def _too_large(address: str, limit: int, help: str) -> DataError:
    """Return the error for a response of more than ``limit`` bytes."""
    return DataError(
        "the server sent something other than the file",
        where=address,
        why=f"it is larger than {limit:,} bytes",
        help=help,
    )

"""Download of one file over HTTP: resumed, retried after transient failures, limited in size.

The content is verified in ``fetch``.
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
PAUSES = (0.5, 1.0, 2.0, 4.0)  # seconds before each retry
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})  # statuses worth a retry

Progress = Callable[[int, int | None], None]  # bytes so far, total bytes if known


class _Interrupted(Exception):
    """The transfer was interrupted; a retry may succeed."""


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

    Proxies come from the environment (``https_proxy``, ``no_proxy``). After an interruption, ``partial`` remains, and
    the next call continues it.

    Args:
        address: URL of the file.
        partial: path of the downloaded bytes.
        limit: maximum number of bytes.
        help: the hint of every error.
        progress: called with the bytes so far and the total.
        pauses: seconds before each retry.

    Raises:
        DataError: the server refuses, sends too much, or fails on every attempt.
        StorageError: the file cannot be written.
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
        if error.code == 416 and done:  # the partial file is complete or of another file: start again
            return _open(address, 0, help)
        raise DataError("the file cannot be downloaded", where=address, why=answer, help=help) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, gaierror):  # usually no network at all: retries would only waste time
            why = f"the name of the server cannot be resolved: {reason.strerror}"
            raise DataError("the download failed", where=address, why=why, help=help) from error
        raise _Interrupted(f"the server cannot be reached: {reason}") from error


def _start(response: HTTPResponse, done: int) -> int:
    """Return the byte at which the response begins: ``done`` if the server honors the range, else 0."""
    if response.status != 206:
        return 0
    span = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    if span is None or int(span[1]) != done:
        raise _Interrupted("the server did not send the requested part of the file")
    return done


def _read(response: HTTPResponse) -> bytes:
    """Return the next bytes of a response. Raises _Interrupted if the connection breaks."""
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

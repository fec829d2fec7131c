"""Forms with uploaded files, parsed from a complete body."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from typing import Any, NamedTuple, TypeVar, cast

from python_multipart.exceptions import FormParserError
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from regard.server.api_error import ApiError

MAX_FIELDS = 20  # maximum number of fields in a form with files
Result = TypeVar("Result")


class FormFile(NamedTuple):
    """The contents of an uploaded file and its name, which is no path on this machine."""

    contents: bytes
    name: str


class ParsedForm(NamedTuple):
    """The texts of a form by name, and its files, each with the name of its field."""

    fields: dict[str, str]
    files: list[tuple[str, FormFile]]


def is_form(media_type: str) -> bool:
    """Return whether a body of this type may have files."""
    return media_type.lower().startswith("multipart/form-data")


def parse_form(headers: Headers, body: bytes, *, max_files: int) -> ParsedForm:
    """Return the fields and the files of a form. Raises ApiError 400 if it is incomplete."""
    parser = MultiPartParser(headers, _stream(body), max_files=max_files, max_fields=MAX_FIELDS)
    parser.spool_max_size = len(body) + 1  # in memory: files on disk would make the parser wait
    try:
        form = _complete(parser.parse())
    except (FormParserError, MultiPartException) as error:
        raise ApiError(400, "Invalid request: the form is incomplete") from error
    fields, files = dict[str, str](), list[tuple[str, FormFile]]()
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.append((name, FormFile(value.file.read(), value.filename or "")))
            value.file.close()
        else:
            fields[name] = value
    return ParsedForm(fields, files)


async def _stream(body: bytes) -> AsyncGenerator[bytes, None]:
    """Yield a body that is complete."""
    yield body


def _complete(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(Result, end.value)
    raise AssertionError("the form parser waits")  # only for files on disk

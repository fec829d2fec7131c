"""Lines with the contents of a file: {"audio": BASE64}, {"image": BASE64}, {"table": TEXT} or {"values": ROWS}."""

from __future__ import annotations

import base64
import json
import re
import struct

from regard.core.wording import pluralize

HEADER = 64  # characters of Base64 that hold the header of a WAV or PNG file
FILE_LINE = re.compile(r'\s*\{\s*"(audio|image|table|values)"\s*:')
BASE64 = 4 / 3  # characters per byte


def file_line(kind: str, contents: bytes) -> str:
    """Return the line of a file's contents; ``kind`` is ``audio``, ``image`` or ``table``."""
    if kind == "table":
        return json.dumps({kind: contents.decode("utf-8-sig", errors="replace")}, ensure_ascii=False)
    return json.dumps({kind: base64.b64encode(contents).decode()})


def described_line(line: str) -> str:
    """Return a short description of a line with the contents of a file; other lines are returned as they are.

    A document, a title or a log contains the description, because the contents may have megabytes.
    """
    match = FILE_LINE.match(line)
    if match is None:
        return line
    if match[1] in ("table", "values"):
        try:
            contents = json.loads(line)[match[1]]
        except (ValueError, RecursionError):
            contents = ""
        rows = len(contents.strip().splitlines()) - 1 if isinstance(contents, str) else 0
        rows = len(contents) if isinstance(contents, list) else rows
        return f"a table of {pluralize(max(rows, 0), 'row')}"
    noun = {"audio": "a sound", "image": "an image"}[match[1]]
    begin = line[match.end() : match.end() + 2 * HEADER].lstrip(' "')[:HEADER]
    extent = _extent(begin, len(line) - match.end())
    return f"{noun} of {extent or f'{max(round(len(line) / BASE64 / 1024), 1):,} KiB'}"


def _extent(begin: str, length: int) -> str | None:
    """Return the seconds of a WAV file or the pixels of a PNG file; None for other files.

    Args:
        begin: the first ``HEADER`` characters of its Base64.
        length: the number of its characters.
    """
    try:
        header = base64.b64decode(begin, validate=True)
    except ValueError:
        return None
    if len(header) == HEADER * 3 // 4 and header.startswith(b"RIFF"):
        (rate,) = struct.unpack_from("<I", header, 28)  # bytes per second
        return f"{length / BASE64 / rate:.1f} s" if rate else None
    if len(header) == HEADER * 3 // 4 and header.startswith(b"\x89PNG"):
        return " × ".join(f"{size:,}" for size in struct.unpack_from(">II", header, 16)) + " pixels"
    return None

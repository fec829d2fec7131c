"""Python's standard library as documents: source whose names return thousands of bytes later."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.core.atomic_files import explain_os_errors, write_bytes_atomically
from regard.errors import DataError

PARTS = {"train": 90, "valid": 5, "test": 5}  # hundredths
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


class SourcePart(NamedTuple):
    """One part of the library, written as JSON lines of documents."""

    path: Path
    files: int
    bytes: int


def part_of(name: str) -> str:
    """The part of a file by the hash of its name below the library, such as ``json/decoder.py``.

    So a file is in the same part whatever the version of the library holds beside it.
    """
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") * 100 >> 32
    for part, share in PARTS.items():
        if place < share:
            return part
        place -= share
    raise AssertionError("the parts are a hundred hundredths")


def source_files(library: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every ``.py`` file of a library, by name; without tests, packages installed beside it, and
    what is not UTF-8 or blank."""
    for path in sorted(library.rglob("*.py")):
        name = PurePosixPath(path.relative_to(library).as_posix())
        if LEFT_OUT & set(name.parts[:-1]):
            continue
        try:
            text = path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if text.strip():
            yield str(name), text


def write_parts(library: Path, folder: Path) -> dict[str, SourcePart]:
    """Write ``train.jsonl``, ``valid.jsonl`` and ``test.jsonl``; DataError where the library has no source."""
    lines: dict[str, list[str]] = {part: [] for part in PARTS}
    sizes = dict.fromkeys(PARTS, 0)
    for name, text in source_files(library):
        part = part_of(name)
        lines[part].append(json.dumps({"text": text, "name": name}) + "\n")
        sizes[part] += len(text.encode())
    if not lines["train"]:
        raise DataError(
            "there is no source of a standard library here", where=str(library),
            why="it has no .py files beside tests", help="--from FOLDER, such as /usr/lib/python3.11",
        )  # fmt: skip
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for part in PARTS:
            write_bytes_atomically(folder / f"{part}.jsonl", "".join(lines[part]).encode())
    return {part: SourcePart(folder / f"{part}.jsonl", len(lines[part]), sizes[part]) for part in PARTS}

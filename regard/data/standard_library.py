"""Python's standard library as documents: a corpus in which names recur over thousands of bytes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from regard.core.atomic_files import explain_os_errors, write_bytes_atomically
from regard.errors import DataError

PARTS = {"train": 90, "valid": 5, "test": 5}  # percent
LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}


class SourcePart(NamedTuple):
    """One split of the library, written as JSON lines of documents."""

    path: Path
    files: int
    bytes: int


def part_of(name: str) -> str:
    """Return the split of a file by the hash of its path below the library, such as ``json/decoder.py``.

    The split of a file therefore does not depend on the other files of a version.
    """
    position = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") * 100 >> 32
    for part, share in PARTS.items():
        if position < share:
            return part
        position -= share
    raise AssertionError("the splits add up to 100 percent")


def source_files(library: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and text of every ``.py`` file of a library, sorted by name.

    Tests, installed packages, blank files and files that are not UTF-8 are left out.
    """
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
    """Write ``train.jsonl``, ``valid.jsonl`` and ``test.jsonl``; DataError if the library has no source files."""
    lines: dict[str, list[str]] = {part: [] for part in PARTS}
    sizes = dict.fromkeys(PARTS, 0)
    for name, text in source_files(library):
        part = part_of(name)
        lines[part].append(json.dumps({"text": text, "name": name}) + "\n")
        sizes[part] += len(text.encode())
    if not lines["train"]:
        raise DataError(
            "the folder contains no standard library", where=str(library),
            why="it has no .py files except tests", help="name its folder: --from /usr/lib/python3.11",
        )  # fmt: skip
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for part in PARTS:
            write_bytes_atomically(folder / f"{part}.jsonl", "".join(lines[part]).encode())
    return {part: SourcePart(folder / f"{part}.jsonl", len(lines[part]), sizes[part]) for part in PARTS}

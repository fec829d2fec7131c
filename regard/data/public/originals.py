"""Corpora that are converted from what their authors publish: one table, or an archive of thousands of small files.

A converter reads the entries of an original (path, contents), and returns the text of each file of the corpus. The
checksums of these texts are pinned, so another original is noticed after its conversion.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core.atomic_files import explain_os_errors
from regard.core.wording import describe_error
from regard.data.foreign_errors import foreign_errors
from regard.data.public.planetoid import convert_graph
from regard.errors import DataError

LARGEST_ENTRY, MOST_ENTRIES, LARGEST_TOTAL = 8 << 20, 100_000, 256 << 20  # bytes, files, bytes
EMAIL = re.compile(r"(?:^|/)(train|dev|test)/([\w.-]+\.subject)$")
SECTION = re.compile(r"^@(subject|ann[0-9])[ \t]*$", re.MULTILINE)

Entries = Iterable[tuple[str, bytes]]


class Original(NamedTuple):
    """A source that the authors of a corpus publish.

    ``address``: of one file, or of the folder of ``files``. ``limit``: the maximum size of a file in bytes.
    ``path``: of the file or folder in a copy of the repository.
    """

    address: str
    limit: int
    path: str
    files: tuple[str, ...] = ()

    @property
    def addresses(self) -> list[str]:
        """The addresses of all files."""
        return [f"{self.address}/{file}" for file in self.files] or [self.address]


def convert(name: str, entries: Entries, where: str) -> dict[str, bytes]:
    """Return the text of each file of a corpus, converted from the entries of its original.

    Args:
        name: of the corpus.
        entries: path and contents of each file.
        where: the original, for messages.

    Raises:
        DataError: the entries are not those of the corpus.
    """
    try:
        return CONVERTERS[name](entries)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(
            f"this is not the original of {name}", where=where, why=f"it cannot be converted: {describe_error(error)}"
        ) from error


def entries_of(path: Path, files: Sequence[str] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield path and contents of a file, of files in a folder, or of all files in a ``.tar.gz``.

    Args:
        path: of the original.
        files: names in a folder; () for all.

    Raises:
        DataError: a file is missing or too large, or the archive is damaged or too large.
    """
    if path.is_dir():
        chosen = [path / name for name in files] or sorted(path.rglob("*.*"))
        yield from ((file.relative_to(path).as_posix(), _contents(file)) for file in chosen)
    elif path.name.endswith(".tar.gz"):
        yield from _members(path)
    else:
        yield path.name, _contents(path)


def _contents(file: Path) -> bytes:
    with explain_os_errors(file):
        if file.stat().st_size > LARGEST_ENTRY:
            raise DataError("the file is too large for an original", where=str(file))
        return file.read_bytes() if file.is_file() else b""


def _members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of an archive. Nothing is extracted; the unpacked bytes are counted, those of headers too."""
    with foreign_errors("the archive is damaged", path), gzip.open(path) as unpacked:
        counted: Any = _Counted(unpacked, path)
        archive = tarfile.open(fileobj=counted, mode="r|")
        for number, member in enumerate(archive):
            if number >= MOST_ENTRIES or member.size > LARGEST_ENTRY:
                raise DataError("the archive is too large for an original", where=str(path))
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read()


class _Counted:
    """A file that refuses to be read beyond ``LARGEST_TOTAL`` bytes."""

    def __init__(self, file: gzip.GzipFile, path: Path) -> None:
        self._file, self._path, self._count = file, path, 0

    def read(self, size: int) -> bytes:
        contents = self._file.read(min(size, LARGEST_TOTAL + 1))
        self._count += len(contents)
        if self._count > LARGEST_TOTAL:
            raise DataError("the archive is too large for an original", where=str(self._path))
        return contents


def _splice(entries: Entries) -> dict[str, bytes]:
    """Return sequences and classes; SHA-256 of a sequence modulo 10 is 0 for the test part, and 1 for dev."""
    parts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for path, contents in entries:
        if not path.endswith("splice.csv"):
            continue
        for line in contents.decode("utf-8").splitlines()[1:]:
            cells = [cell.strip() for cell in line.split(",")]
            if len(cells) != 3:
                raise ValueError(f"{path} has a line without label, name and sequence")
            label, _, sequence = cells
            remainder = int(hashlib.sha256(sequence.encode()).hexdigest(), 16) % 10
            parts[{0: "test", 1: "dev"}.get(remainder, "train")].append(f"{sequence}\t{label}\n")
    return {f"{part}.tsv": "".join(lines).encode() for part, lines in parts.items()}


def _aeslc(entries: Entries) -> dict[str, bytes]:
    """Return an object for each e-mail, in the order of file names; white space is one space."""
    parts: dict[str, dict[str, str]] = {"train": {}, "dev": {}, "test": {}}
    for path, contents in entries:
        if match := EMAIL.search(path):
            part, name = match.groups()
            parts[part][name] = _email(name, contents.decode("utf-8"))
    return {
        f"{part}.jsonl": "".join(line for _, line in sorted(lines.items())).encode() for part, lines in parts.items()
    }


def _email(name: str, text: str) -> str:
    """Return the JSON line of an e-mail: its body, its subject, and the subjects that annotators wrote."""
    body, *sections = SECTION.split(text)
    written = dict(zip(sections[::2], sections[1::2], strict=True))
    if "subject" not in written:
        raise ValueError(f"{name} has no subject")
    fields = {"source": body, "target": written.pop("subject"), **dict(sorted(written.items()))}
    line = {field: " ".join(value.split()) for field, value in fields.items()} | {"name": name}
    return json.dumps(line, ensure_ascii=False) + "\n"


def _planetoid(entries: Entries) -> dict[str, bytes]:
    """Return the arrays of both graphs."""
    files = {path.rpartition("/")[2]: contents for path, contents in entries}
    return {f"{name}.npz": convert_graph(name, files) for name in ("cora", "citeseer")}


CONVERTERS: dict[str, Callable[[Entries], dict[str, bytes]]] = {
    "splice": _splice,
    "aeslc": _aeslc,
    "planetoid": _planetoid,
}

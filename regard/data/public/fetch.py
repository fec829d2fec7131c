"""Public corpora in a folder: downloaded, or copied from local files, with the same checksums.

A file appears under its name only if its text has the pinned SHA-256. An interrupted download is kept in the same
folder as ``.NAME.part``; the next call continues it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from regard.core.atomic_files import explain_os_errors
from regard.core.wording import pluralize
from regard.data.foreign_errors import foreign_errors
from regard.data.packed_files import open_unpacked
from regard.data.public.catalog import PublicCorpus, PublicFile
from regard.data.public.download import PAUSES, download
from regard.data.public.originals import Original, convert, entries_of
from regard.errors import DataError

CHUNK = 1 << 20
MAX_ARRAYS = 64 << 20  # bytes of a .npz, unpacked
MAX_GZIP_OVERHEAD = 1 << 16  # bytes by which a .gz may exceed its text

Progress = Callable[[PublicFile, int, int | None], None]  # the file, bytes so far, total bytes if known


@dataclass(frozen=True)
class FetchedFile:
    """File of a corpus that is now in place, and how it got there."""

    file: PublicFile
    path: Path
    state: Literal["present", "downloaded", "converted", "copied"]


class _ChecksumMismatch(Exception):
    """A file differs from the published one; the message states the difference."""


def fetch(
    corpus: PublicCorpus, folder: Path, *, progress: Progress | None = None, pauses: Sequence[float] = PAUSES
) -> list[FetchedFile]:
    """Download the files of ``corpus`` that ``folder`` lacks, unpacked and verified, one by one.

    A corpus without files of its own at an address is converted from its original.

    Complete files are kept, so a repeated call continues. ``pauses``: seconds before each retry.

    Raises:
        DataError: the corpus has no public address, a server fails or serves another file, or the folder has another
            file of that name, which is kept.
    """
    address, help = corpus.address, _how_to_copy(corpus)
    if address is None and corpus.original is not None:
        return _fetch_original(corpus, corpus.original, folder, help, progress, pauses)
    if address is None:
        raise DataError(f"{corpus.name} can only be copied", why="its files have no permanent address", help=help)
    result = []
    for file, path, present in _survey(corpus, folder):
        if not present:
            _download(f"{address}/{file.remote}", file, path, help, progress, pauses)
        result.append(FetchedFile(file, path, "present" if present else "downloaded"))
    return result


def copy(corpus: PublicCorpus, origin: Path, folder: Path) -> list[FetchedFile]:
    """Copy the files of ``corpus`` that ``folder`` lacks from the folder ``origin``, unpacked and verified.

    A file may have its name here or its published name or path, as text or ``.gz``. If all are missing, they are
    converted from the original, a copy of the repository or the file or folder in it.

    Raises:
        DataError: files are missing, before anything is copied; or a file is not the published one.
    """
    if not origin.is_dir():
        raise DataError("the folder to copy from does not exist", where=str(origin))
    survey = _survey(corpus, folder)
    sources = {file.name: _find_copy(file, origin) for file, _, present in survey if not present}
    missing = [name for name, source in sources.items() if source is None]
    original = None if corpus.original is None else _find_original(corpus.original, origin)
    if missing and original is not None:
        return _convert(corpus, original, survey, str(original))
    if missing:
        raise DataError(
            f"{len(missing)} of the {pluralize(len(corpus.files), 'file')} of {corpus.name} are missing",
            where=str(origin),
            why=f"missing: {', '.join(missing)}",
            help=f"get them from {corpus.repository}",
        )
    result = []
    for file, path, present in survey:
        source = sources.get(file.name)
        if source is not None:
            _copy(source, file, path)
        result.append(FetchedFile(file, path, "present" if present else "copied"))
    return result


def _fetch_original(
    corpus: PublicCorpus, original: Original, folder: Path, help: str, progress: Progress | None,
    pauses: Sequence[float],
) -> list[FetchedFile]:  # fmt: skip
    """Download the original of a corpus, and convert it."""
    survey = _survey(corpus, folder)
    if all(present for *_, present in survey):
        return [FetchedFile(file, path, "present") for file, path, _ in survey]
    downloads, first = folder / f".{corpus.name}.original", corpus.files[0]
    report = (lambda done, total: progress(first, done, total)) if progress else None
    with explain_os_errors(downloads):
        downloads.mkdir(exist_ok=True)
    for address in original.addresses:
        target = downloads / ("original.tar.gz" if "/tar.gz/" in address else address.rpartition("/")[2])
        download(address, target, limit=original.limit, help=help, progress=report, pauses=pauses)
    try:
        return _convert(corpus, downloads if original.files else target, survey, original.address)
    finally:
        shutil.rmtree(downloads, ignore_errors=True)


def _convert(
    corpus: PublicCorpus, path: Path, survey: list[tuple[PublicFile, Path, bool]], where: str
) -> list[FetchedFile]:
    """Convert an original, and install the verified files. ``where``: the original, for messages."""
    assert corpus.original is not None
    converted = convert(corpus.name, entries_of(path, corpus.original.files), where)
    result = []
    for file, path, present in survey:
        temporary = path.with_name(f".{path.name}.converted")
        if not present:
            try:
                with explain_os_errors(temporary):
                    temporary.write_bytes(converted[file.name])
                _install(temporary, file, path)
            except _ChecksumMismatch as error:
                raise DataError(
                    f"{file.name} is not the published file after the conversion",
                    where=where, why=str(error), help=f"use the original of {corpus.repository}, unchanged",
                ) from error  # fmt: skip
            finally:
                temporary.unlink(missing_ok=True)
        result.append(FetchedFile(file, path, "present" if present else "converted"))
    return result


def _find_original(original: Original, origin: Path) -> Path | None:
    """Return the path of an original in a copy of its repository, or in the folder of that path."""
    candidates = [origin / original.path, origin / Path(original.path).name]
    if original.files and all((origin / file).is_file() for file in original.files):
        candidates.append(origin)
    return next((path for path in candidates if path.exists()), None)


def _survey(corpus: PublicCorpus, folder: Path) -> list[tuple[PublicFile, Path, bool]]:
    """Return each file, its path, and whether it is present. DataError if another file has its name."""
    survey = []
    for file in corpus.files:
        path = folder / file.name
        with explain_os_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        present = path.exists()
        if present:
            try:
                with explain_os_errors(path):
                    _read(path, file)
            except _ChecksumMismatch as error:
                raise DataError(
                    f"{path.name} exists, but is not the published file",
                    where=str(path),
                    why=str(error),
                    help=f"move it, or choose another folder: regard data fetch {corpus.name} --to DIR",
                ) from error
        survey.append((file, path, present))
    return survey


def _download(
    address: str, file: PublicFile, path: Path, help: str, progress: Progress | None, pauses: Sequence[float]
) -> None:
    """Download, verify and install a file."""
    partial = path.with_name(f".{path.name}.part{'.gz' if address.endswith('.gz') else ''}")
    report = (lambda done, total: progress(file, done, total)) if progress else None
    while True:
        resumed = partial.exists()
        download(address, partial, limit=file.size + MAX_GZIP_OVERHEAD, help=help, progress=report, pauses=pauses)
        try:
            _install(partial, file, path)
            return
        except _ChecksumMismatch as error:
            if not resumed:  # the partial download may be of another file: try once more from the start
                raise DataError(
                    f"the file downloaded as {path.name} is not the published file",
                    where=address,
                    why=str(error),
                    help=help,
                ) from error
        finally:
            with explain_os_errors(partial):
                partial.unlink(missing_ok=True)


def _copy(source: Path, file: PublicFile, path: Path) -> None:
    """Verify and install a local file."""
    try:
        _install(source, file, path)
    except _ChecksumMismatch as error:
        raise DataError(
            f"{source.name} is not the published file",
            where=str(source),
            why=str(error),
            help="use a copy of the same release with unchanged line ends",
        ) from error


def _find_copy(file: PublicFile, origin: Path) -> Path | None:
    """Return the path of a file in ``origin`` under any of its names; None if it is missing."""
    published = Path(file.remote).name.removesuffix(".gz")
    names = (file.name, f"{file.name}.gz", published, f"{published}.gz", file.remote)
    return next((origin / name for name in names if (origin / name).is_file()), None)


def _install(source: Path, file: PublicFile, path: Path) -> None:
    """Write the text of ``source`` to ``path`` atomically after verification. Raises _ChecksumMismatch."""
    temporary = path.with_name(f".{path.name}.tmp")
    with explain_os_errors(path):
        try:
            with temporary.open("wb") as out:
                _read(source, file, out)
                out.flush()
                os.fsync(out.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)


def _read(source: Path, file: PublicFile, out: BinaryIO | None = None) -> None:
    """Read the text of ``source``, and copy it to ``out`` if given. Raises _ChecksumMismatch for other text."""
    digest, size = hashlib.sha256(), 0
    if file.arrays and source.suffix == ".npz":
        _check_arrays(source, file)
        if out:
            out.write(source.read_bytes())
        return
    try:
        for chunk in _chunks(source):
            size += len(chunk)
            if size > file.size:  # also bounds the text of a small .gz
                raise _ChecksumMismatch(f"its text is longer than {file.size:,} bytes")
            digest.update(chunk)
            if out:
                out.write(chunk)
    except DataError as error:
        raise _ChecksumMismatch(f"{error.what}: {error.why}") from error
    if size < file.size:
        raise _ChecksumMismatch(f"its text has {size:,} bytes instead of {file.size:,}")
    if digest.hexdigest() != file.sha256:
        raise _ChecksumMismatch(f"its sha256 is {digest.hexdigest()} instead of {file.sha256}")


def _check_arrays(source: Path, file: PublicFile) -> None:
    """Raise _ChecksumMismatch unless a ``.npz`` has the published arrays; their compression may differ."""
    digest = hashlib.sha256()
    try:
        with foreign_errors("it is not a file of arrays", source), zipfile.ZipFile(source) as members:
            if sum(member.file_size for member in members.infolist()) > MAX_ARRAYS:
                raise _ChecksumMismatch(f"its arrays are larger than {MAX_ARRAYS:,} bytes")
            for name in sorted(members.namelist()):
                digest.update(name.encode() + members.read(name))
    except DataError as error:
        raise _ChecksumMismatch(f"{error.what}: {error.why}") from error
    if digest.hexdigest() != file.arrays:
        raise _ChecksumMismatch(f"the sha256 of its arrays is {digest.hexdigest()} instead of {file.arrays}")


def _chunks(source: Path) -> Iterator[bytes]:
    with foreign_errors("it is not a complete gzip file", source), open_unpacked(source) as opened:
        while chunk := opened.read(CHUNK):
            yield chunk


def _how_to_copy(corpus: PublicCorpus) -> str:
    """Return the hint for a file that cannot be downloaded."""
    return (
        f"get a copy of {corpus.repository} elsewhere, then: regard data fetch {corpus.name} --from DIR; "
        "behind a proxy, set https_proxy"
    )

"""Files and folders that appear completely or not at all.

Data are written under a hidden name next to the final path, synced to the disk, and renamed. A kill at any moment
leaves the old or the new file, never a part. The hidden names show what a kill left behind:

    .NAME.tmp       being written: incomplete, deleted by ``sweep``
    .NAME.removed   being deleted: incomplete, deleted by ``sweep``
    .NAME.old       just replaced: still the valid one if NAME is missing

One writer at a time is assumed, except by ``publish_first``; readers need no lock.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from regard.errors import StorageError

ROLES = ("tmp", "removed", "old")  # of hidden names, which messages never show
CHUNK = 1 << 20  # bytes handed to one write call

HELP = {
    errno.ENOSPC: "free space on this disk (see df -h) or choose another folder",
    errno.EDQUOT: "free space within your quota or choose another folder",
    errno.EROFS: "this disk is mounted read-only: choose another folder",
    errno.EACCES: "choose a folder with write permission, or change its permissions (chmod u+w)",
    errno.EEXIST: "choose another path, or remove the existing one",
    errno.ENOTEMPTY: "choose another path, or remove the existing one",
    errno.ENOENT: "create the folder first (mkdir -p), or choose another",
    errno.ENOTDIR: "a part of the path is a file: choose another folder",
    errno.EPERM: "choose a folder with write permission, or change its permissions (chmod u+w)",
}


def _pass(point: str) -> None: ...


fault: Callable[[str], None] = _pass  # replaced in tests; otherwise a no-op, called a few dozen times per save


def fault_point(point: str) -> None:
    """Mark a moment at which a kill or a full disk must do no harm; a no-op outside tests."""
    fault(point)


@contextmanager
def explain_os_errors(path: Path) -> Iterator[None]:
    """Convert an OSError of the block, which reads or writes ``path``, to a StorageError with a remedy."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hidden = [str(hidden_sibling(name, role)) for name in (path, path.absolute(), path.resolve()) for role in ROLES]
        raise StorageError(
            f"cannot store {path}: {reason}",
            where=str(path if error.filename is None or str(error.filename) in hidden else error.filename),
            why="earlier files are unchanged",
            help=HELP.get(error.errno or 0, "check the disk and the folder"),
        ) from error


def hidden_sibling(path: Path, role: str) -> Path:
    """Return the hidden name next to ``path`` for a role: ``tmp``, ``old`` or ``removed``."""
    return path.with_name(f".{path.name}.{role}")


def sha256(path: Path) -> str:
    """Return the sha256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file and sync it; not atomic, for a folder that ``commit_folder`` publishes afterwards."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        fault_point("opened")
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest[:CHUNK]) :]
            fault_point("writing")
        fault_point("written")
        os.fsync(descriptor)
        fault_point("synced")
    finally:
        os.close(descriptor)


def write_bytes_atomically(path: Path, data: bytes) -> None:
    """Replace ``path`` by ``data``: after a crash it holds either the old bytes or the new ones.

    Raises StorageError, with the old file untouched, if the disk is full or not writable.
    """
    temporary = hidden_sibling(path, "tmp")
    with explain_os_errors(path), remove_on_error(temporary):
        write_bytes(temporary, data)
        os.replace(temporary, path)
        fault_point("renamed")
        _sync(path.parent)
        fault_point("folder-synced")


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces ``path`` when the block ends; if the block raises, ``path`` is unchanged.

    For contents too large for memory. A pipe or device is written directly; for a link the target is replaced. Opening
    and closing raise StorageError; the block wraps its own writes in ``explain_os_errors``.
    """
    final = path.resolve()
    special = final.exists() and not final.is_file()
    written = final if special else hidden_sibling(final, "tmp")
    with explain_os_errors(path):
        file = written.open("wb")
    try:
        try:
            yield file
        finally:
            with explain_os_errors(path):
                file.close()
        if not special:
            with explain_os_errors(path):
                _sync(written)
                os.replace(written, final)
                _sync(final.parent)
    finally:
        if not special:
            written.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Replace ``path`` by ``value`` as JSON, as ``write_bytes_atomically`` does."""
    write_bytes_atomically(path, json_bytes(value))


def json_bytes(value: Any) -> bytes:
    """Return ``value`` as indented JSON in UTF-8, with a newline at the end."""
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")  # file names that are not UTF-8 become JSON escapes


@contextmanager
def publishing(path: Path) -> Iterator[Path]:
    """Yield a hidden path for a new folder that becomes ``path`` when the block ends, or is removed if it raises.

    Raises StorageError if ``path`` has appeared in the meantime: nothing is replaced.
    """
    temporary = hidden_sibling(path, f"{uuid4().hex[:8]}.tmp")  # unique per process
    try:
        yield temporary
        commit_folder(temporary, path, replace=False)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def publish_first(path: Path, parts: Iterable[bytes]) -> bool:
    """Publish a file unless its name is taken; return whether this process was first.

    For several writers of one file, also on several machines: one of them wins, and its file is complete. On a file
    system without hard links, the last one wins instead.
    """
    temporary = hidden_sibling(path, f"{uuid4().hex[:12]}.tmp")
    with explain_os_errors(path), remove_on_error(temporary):
        with temporary.open("wb") as file:
            for part in parts:
                file.write(part)
                fault_point("writing")
            file.flush()
            os.fsync(file.fileno())
        fault_point("synced")
        try:
            os.link(temporary, path)
            first = True
        except FileExistsError:
            first = False
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise
            os.replace(temporary, path)
            first = True
        fault_point("linked")
        temporary.unlink(missing_ok=True)
        _sync(path.parent)
    return first


def commit_folder(temporary: Path, final: Path, *, replace: bool = True) -> None:
    """Publish the folder ``temporary`` (a sibling of ``final``) as ``final``; with ``replace`` over an existing one.

    Every file and folder in it is synced before the rename: otherwise the rename could reach the disk before the data
    and give the final name to empty files. Raises StorageError and removes ``temporary``.
    """
    with explain_os_errors(final), remove_on_error(temporary):
        for path in (*temporary.rglob("*"), temporary):
            _sync(path)
        fault_point("folder-synced")
        if not replace and os.path.lexists(final):
            raise FileExistsError(errno.EEXIST, "it was created in the meantime", str(final))
        old = hidden_sibling(final, "old")
        if replace and final.exists():
            _remove(old)
            os.rename(final, old)
            fault_point("set-aside")
        os.rename(temporary, final)  # fails if the path exists, unless it is an empty folder
        fault_point("renamed")
        _sync(final.parent)
        fault_point("parent-synced")
        if replace:
            _remove(old)
            fault_point("old-removed")


def remove_folder(path: Path) -> None:
    """Delete a folder; a kill half way leaves nothing that looks like a complete folder."""
    with explain_os_errors(path):
        removed = hidden_sibling(path, "removed")
        _remove(removed)
        os.rename(path, removed)
        fault_point("hidden")
        _remove(removed)
        fault_point("removed")


def remove_file(path: Path) -> None:
    """Delete a file if it exists."""
    with explain_os_errors(path):
        path.unlink(missing_ok=True)
        fault_point("removed")


def sweep(folder: Path) -> None:
    """Delete temporary files left by a kill in ``folder``, and restore folders that were set aside but not replaced."""
    with explain_os_errors(folder):
        for old in sorted(folder.glob(".*.old")):
            name = folder / old.name[1:].removesuffix(".old")
            if not name.exists():
                os.rename(old, name)
                fault_point("put-back")
        for role in ROLES:
            for path in sorted(folder.glob(f".*.{role}")):
                _remove(path)
                fault_point("swept")


@contextmanager
def locked(path: Path, *, patience: float = 0.0) -> Iterator[int]:
    """Hold the lock ``path``; raises BlockingIOError if another process still holds it after ``patience`` seconds.

    ``path``: a folder, or a file, which is created if it is missing. Yields the descriptor: a child process that
    inherits it also holds the lock. A killed process releases the lock. On a network drive without locks no lock is
    held.
    """
    until = time.monotonic() + patience
    with explain_os_errors(path):
        held = os.open(path, os.O_RDONLY if path.is_dir() else os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        while True:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(0.1)
                    continue
                raise
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF):
                    raise
            break
        yield held
    finally:
        os.close(held)


@contextmanager
def remove_on_error(temporary: Path) -> Iterator[None]:
    """Remove ``temporary`` if the block raises an OSError, to free space on a full disk."""
    try:
        yield
    except OSError:
        with suppress(OSError):
            _remove(temporary)
        raise


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot sync a folder
            raise
    finally:
        os.close(descriptor)

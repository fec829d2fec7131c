"""Folders of prepared data: arrays and a JSON head that describes them; written completely or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from regard.core.atomic_files import commit_folder, explain_os_errors, hidden_sibling
from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.data.ragged import ArrayHead, Checked, NumberType, Ragged, damaged
from regard.errors import DataError, StorageError

TOKENS = ("<u2", "<u4")  # types of tokens


class PreparedHead(Checked):
    """The head of a folder.

    Attributes:
        name: the name of the files for messages.
        fingerprint: a digest of everything that determines the prepared numbers.
        content: a digest of the texts, independent of their files.
        arrays: the head of each array, by name.
    """

    name: str
    fingerprint: str
    content: str = ""
    arrays: dict[str, ArrayHead]

    @model_validator(mode="before")
    @classmethod
    def _read_earlier_head(cls, head: Any) -> Any:
        """Convert earlier heads, which had one key for the size of each array."""
        return head if "arrays" in head else {**head, "arrays": cls.earlier_arrays(head)}

    @classmethod
    def earlier_arrays(cls, head: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """Return ``arrays`` for an earlier head."""
        raise NotImplementedError

    def array(self, name: str) -> ArrayHead:
        """Return the head of an array; raises ValueError if it is missing."""
        if name not in self.arrays:
            raise ValueError(f"the array {name} is missing")
        return self.arrays[name]


class PreparedFolder:
    """An opened folder of arrays; each subclass opens its own arrays.

    Attributes:
        file: the name of the head.
        format: the keys and values that every head of this class has.
        head_type: the class of the head.
    """

    file: ClassVar[str]
    format: ClassVar[Mapping[str, Any]]
    head_type: ClassVar[type[PreparedHead]]

    def __init__(self, folder: Path, head: PreparedHead) -> None:
        """Initialize for ``open``; a subclass raises DataError or ValueError if a file does not match ``head``."""
        self.folder, self.name, self.fingerprint, self.content = folder, head.name, head.fingerprint, head.content
        self._head, self._tokens, self._numbers = head, list[Ragged](), list[Ragged]()

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a prepared folder without reading the values of its arrays.

        Raises:
            DataError: the folder is missing, damaged or of another format or version.
            StorageError: the folder cannot be read.
        """
        path = folder / cls.file
        try:
            head = parse_json(read_bytes(path, SMALL))
            if {key: head[key] for key in cls.format} != cls.format:
                raise damaged(path, "it has another format or version")
            return cls(folder, cls.head_type.model_validate(head))
        except FileNotFoundError as error:
            what = cls.format["format"].removeprefix("regard-")
            raise DataError(f"the folder contains no prepared {what}", where=str(folder)) from error
        except OSError as error:
            raise StorageError("cannot read prepared data", where=str(folder), why=error.strerror) from error
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(path, str(error)) from error

    @classmethod
    def reopen(cls, folder: Path, fingerprint: str, *types: int) -> Self | None:
        """Open a folder if it is intact and has this fingerprint; otherwise return None."""
        try:
            prepared = cls.open(folder)
            if prepared.fingerprint != fingerprint:
                return None
            prepared.require_types(*types)
        except DataError:
            return None
        return prepared

    def require_types(self, *types: int) -> None:
        """Verify all arrays by reading them once.

        Args:
            *types: the sizes of the vocabularies, in the order of the arrays of tokens.

        Raises:
            DataError: a token exceeds its vocabulary, or the digest of an array differs from the head.
        """
        for tokens, limit in zip(self._tokens, types, strict=True):
            tokens.require_intact(limit)
        for numbers in self._numbers:
            numbers.require_intact()

    def _open_tokens(self, name: str, values: str, offsets: str | None) -> Ragged:
        """Map an array of tokens, which the head lists as ``name``, from these files."""
        bounds = None if offsets is None else self.folder / offsets
        self._tokens.append(Ragged.open(self.folder / values, bounds, self._head.array(name), dtypes=TOKENS))
        return self._tokens[-1]

    def _open_numbers(self, name: str, dtype: NumberType, shape: tuple[int, ...] = ()) -> Any:
        """Map a non-ragged array from the file of its name."""
        numbers = Ragged.open(self.folder / name, None, self._head.array(name), dtypes=(dtype,), shape=shape)
        self._numbers.append(numbers)
        return numbers.values

    @classmethod
    def write_head(cls, folder: Path, head: PreparedHead) -> None:
        """Write the head of a new folder."""
        text = json.dumps({**cls.format, **head.model_dump(mode="json")}, indent=1)
        (folder / cls.file).write_text(text + "\n", encoding="utf-8")


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``folder`` when the block ends.

    If the block raises, ``folder`` is unchanged.

    Raises:
        StorageError: for each OSError of the block.
    """
    temporary = hidden_sibling(folder, "tmp")
    try:
        with explain_os_errors(folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(temporary, ignore_errors=True)  # may remain from a killed process
            temporary.mkdir()
            yield temporary
        commit_folder(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def file_version(path: Path) -> list[Any]:
    """Return the identity of a file in fingerprints: its path, size and change time."""
    status = path.stat()
    return [str(path.resolve()), status.st_size, status.st_mtime_ns]


def token_type(*types: int) -> Literal["<u2", "<u4"]:
    """Return the smallest type for tokens of vocabularies of these sizes."""
    return "<u2" if max(types) <= 1 << 16 else "<u4"

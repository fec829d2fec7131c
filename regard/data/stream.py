"""Texts as one stream of token numbers on disk: encoded once, then read through a memory map, whatever their size."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from regard.core.atomic_files import commit_folder, explain_os_errors, hidden_sibling
from regard.core.contents import require_unchanged
from regard.data.encoding import encode_chunks, processes_for
from regard.data.file_names import FileNames, named_files, spelled
from regard.data.foreign_errors import foreign_errors
from regard.data.prepared import open_prepared
from regard.data.shared_files import PartName
from regard.data.text_files import open_bytes, refuse_pipe
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer
from regard.errors import DataError

__all__ = ["Stream", "TextConfig", "open_or_prepare_stream", "read_text_lines"]

FORMAT = {"format": "regard-stream", "version": 1}
CHUNK = 4096  # lines encoded and written at a time


class TextConfig(BaseModel):
    """One text, plain or ``.gz``, or a part of it: of a language model's corpus one stream, or documents.

    Several files are one text, as if they were written one after the other.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: FileNames = Field(
        description="a text file in UTF-8; may end in `.gz`; or, for documents, a folder of texts; also a list, or a "
        "pattern such as `part-*.txt`, sorted by name"
    )
    share: tuple[float, float] = Field(
        (0.0, 1.0),
        description="the part of its characters, from beginning to end, or of its distinct documents, by their "
        "digests: [0.0, 0.9] and [0.9, 1.0] split it",
    )

    part: tuple[str, PartName] | None = Field(
        None,
        description="of a table or JSON lines of documents: the rows that a column assigns to a part, "
        "[`split`, `train`]",
    )

    @field_validator("source")
    @classmethod
    def _path_is_a_name(cls, source: FileNames) -> FileNames:
        if any("\0" in str(path) for path in ((source,) if isinstance(source, Path) else source)):
            raise ValueError("a path holds no character 0")
        if source == ():
            raise ValueError("a list of files has at least one")
        return source

    @property
    def name(self) -> str:
        """The files, for messages."""
        return spelled(self.source)

    @model_validator(mode="after")
    def _is_a_part(self) -> TextConfig:
        if not 0 <= self.share[0] < self.share[1] <= 1:
            raise ValueError("share is a part of the text from 0 to 1, such as [0.0, 0.9]")
        return self


class _Head(BaseModel):
    """``stream.json``, checked: nothing in it is trusted with sizes or types."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    name: str
    fingerprint: str
    content: str
    dtype: Literal["<u2", "<u4"]
    tokens: Annotated[int, Field(ge=0, lt=1 << 60)]
    bytes: Annotated[int, Field(ge=0, lt=1 << 60)]
    characters: Annotated[int, Field(ge=0, lt=1 << 60)]


class Stream:
    """A prepared text: BEGIN, its tokens, END.

    ``bytes`` and ``characters`` count the raw text: what bits per byte and per character are divided by.
    """

    def __init__(self, folder: Path, head: _Head) -> None:
        self.folder, self.name = folder, head.name
        self.fingerprint, self.content = head.fingerprint, head.content
        self.bytes, self.characters = head.bytes, head.characters
        dtype, path = np.dtype(head.dtype), folder / "tokens"
        size = path.stat().st_size if path.is_file() else -1
        if size != head.tokens * dtype.itemsize:
            raise _damaged(path, f"it has {size} bytes, not {head.tokens * dtype.itemsize}")
        # A plain view of the map: indexing a np.memmap itself is several times slower.
        self.tokens: npt.NDArray[Any] = np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(head.tokens,)))

    @classmethod
    def open(cls, folder: Path) -> Stream:
        """Open a prepared text. DataError where it is missing, damaged or of another version."""
        return open_prepared(
            folder / "stream.json",
            FORMAT,
            lambda head: cls(folder, _Head.model_validate(head)),
            name="text",
            damaged=_damaged,
        )

    def require_types(self, types: int) -> None:
        """DataError where a token is none of a vocabulary of so many. Reads all of them once."""
        if len(self.tokens) and int(self.tokens.max()) >= types:
            raise _damaged(self.folder / "tokens", f"it holds token {self.tokens.max()} of {types}")

    def unknown(self) -> int:
        """Number of tokens that the vocabulary lacks. Reads all of them once."""
        return int((self.tokens == UNKNOWN).sum())

    def __len__(self) -> int:
        return len(self.tokens)


def read_text_lines(config: TextConfig) -> Iterator[str]:
    """The lines of the text, their ends with them, as they are. DataError for what is missing or no UTF-8."""
    files = named_files(config.source)
    begin, end = (round(part * sum(map(_characters, files))) for part in config.share)
    at = 0
    for line in chain.from_iterable(map(_lines, files)):
        piece = line[max(begin - at, 0) : max(end - at, 0)]
        at += len(line)
        if piece:
            yield piece


def open_or_prepare_stream(
    config: TextConfig,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    content: str = "",
    processes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Stream:
    """Open ``folder`` if it was made of this very file and tokenizer; encode the text otherwise, in constant memory.

    With ``content``, the ``Stream.content`` of before, a file that was copied or touched will do, another text not.
    ``processes``: see ``encoding.processes_for``.
    """
    wanted = _fingerprint(config, tokenizer)
    try:
        found = Stream.open(folder)
        if found.fingerprint == wanted:
            found.require_types(len(tokenizer))
            return found
    except DataError:
        pass  # missing or damaged: made anew from the text
    number = processes_for(named_files(config.source), processes)
    head = _write(config, tokenizer, folder, wanted, content, number, progress)
    return Stream(folder, head)


def _write(
    config: TextConfig,
    tokenizer: Tokenizer,
    folder: Path,
    fingerprint: str,
    content: str,
    processes: int,
    progress: Callable[[int], None] | None,
) -> _Head:
    dtype: Literal["<u2", "<u4"] = "<u2" if len(tokenizer) <= 1 << 16 else "<u4"
    temporary, digest = hidden_sibling(folder, "tmp"), hashlib.sha256()
    tokens = count = characters = 0
    with explain_os_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)  # left there by a kill
        temporary.mkdir()
    try:
        with explain_os_errors(folder), (temporary / "tokens").open("wb") as file:
            tokens += file.write(np.array([BEGIN], dtype).tobytes()) // np.dtype(dtype).itemsize
            chunks = (("".join(lines), [lines]) for lines in _chunks(read_text_lines(config)))
            for text, (found,) in encode_chunks((tokenizer,), chunks, processes):
                digest.update(text.encode())
                count, characters = count + len(text.encode()), characters + len(text)
                tokens += file.write(found.numbers.astype(dtype).tobytes()) // np.dtype(dtype).itemsize
                if progress is not None:
                    progress(tokens)
            tokens += file.write(np.array([END], dtype).tobytes()) // np.dtype(dtype).itemsize
        if not characters:
            raise DataError("there is no text to learn from", where=config.name, why="it is empty")
        require_unchanged("text", digest.hexdigest(), content, where=config.name)
        head = _Head(
            name=config.name, fingerprint=fingerprint, content=digest.hexdigest(), dtype=dtype, tokens=tokens,
            bytes=count, characters=characters,
        )  # fmt: skip
        with explain_os_errors(folder):
            (temporary / "stream.json").write_text(json.dumps({**FORMAT, **head.model_dump()}, indent=1) + "\n")
            commit_folder(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return head


def _chunks(lines: Iterator[str]) -> Iterator[list[str]]:
    kept: list[str] = []
    for line in lines:
        kept.append(line)
        if len(kept) == CHUNK:
            yield kept
            kept = []
    if kept:
        yield kept


def _lines(path: Path) -> Iterator[str]:
    refuse_pipe(path)
    with foreign_errors(f"{path} cannot be read", path), open_bytes(path) as raw:
        with io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
            try:
                yield from file
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{path} is not UTF-8", where=str(path), why=f"byte {error.start:,} of a block: {error.reason}",
                    help=f"iconv -t UTF-8 -f ENCODING {path} > text.txt",
                ) from error  # fmt: skip


def _characters(path: Path) -> int:
    return sum(map(len, _lines(path)))


def _fingerprint(config: TextConfig, tokenizer: Tokenizer) -> str:
    """A sha256 over all that decides the prepared numbers. A file counts by path, size and time of change."""
    files: list[list[Any]] = []
    for path in named_files(config.source):
        status = path.stat() if path.exists() else None
        files.append([str(path.resolve()), status.st_size, status.st_mtime_ns] if status else [str(path)])
    told = [FORMAT, files[0] if len(files) == 1 else files, list(config.share), tokenizer.digest()]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        "the prepared text is damaged", where=str(path), why=why, help="remove this folder: it is made anew"
    )

"""Documents as token numbers on disk: encoded once, then read through a memory map, whatever their number.

A prepared folder holds the documents end to end, each BEGIN … END (``tokens``), where each begins (``offsets``), how
many tokens of each are its prompt (``prompts``), a digest of each (``digests``), and ``documents.json``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from regard.core.atomic_files import commit_folder, explain_os_errors, hidden_sibling
from regard.core.contents import require_unchanged
from regard.data.documents import Cut, TextDocument, read_documents, text_files
from regard.data.encoding import encode_chunks, processes_for
from regard.data.file_names import named_files
from regard.data.prepared import open_prepared
from regard.data.stream import TextConfig
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer
from regard.errors import DataError

__all__ = ["DocumentStream", "open_or_prepare_documents"]

FORMAT = {"format": "regard-documents", "version": 1}
DIGEST = 16  # bytes
CHUNK = 1024  # documents encoded and written at a time
Count = Annotated[int, Field(ge=0, lt=1 << 60)]


class _Head(BaseModel):
    """``documents.json``, checked: nothing in it is trusted with sizes or types."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    name: str
    fingerprint: str
    content: str
    dtype: Literal["<u2", "<u4"]
    tokens: Count
    documents: Count
    bytes: Count
    characters: Count


class DocumentStream:
    """Prepared documents. ``bytes`` and ``characters`` count the raw text that is predicted: prompts do not count."""

    def __init__(self, folder: Path, head: _Head) -> None:
        """For ``DocumentStream.open``; raises DataError where a file does not hold what ``head`` says."""
        self.folder, self.name = folder, head.name
        self.fingerprint, self.content = head.fingerprint, head.content
        self.bytes, self.characters = head.bytes, head.characters
        count, long = head.documents, np.dtype("<i8")
        self.tokens = _map(folder / "tokens", np.dtype(head.dtype), head.tokens)
        self.offsets, self.prompts = _map(folder / "offsets", long, count + 1), _map(folder / "prompts", long, count)
        self._digests = _map(folder / "digests", np.dtype(np.uint8), count * DIGEST)
        # The range first: a difference of numbers far apart wraps around.
        within = self.offsets[0] == self.offsets.min() == 0 and self.offsets[-1] == self.offsets.max() == head.tokens
        sizes = np.diff(self.offsets)
        if not within or (sizes < 2).any():
            raise _damaged(folder / "offsets", f"its offsets do not rise from 0 to {head.tokens}")
        if ((self.prompts < 0) | (self.prompts > sizes - 2)).any():
            raise _damaged(folder / "prompts", "a prompt is longer than its document")

    @classmethod
    def open(cls, folder: Path) -> DocumentStream:
        """Open prepared documents. DataError where they are missing, damaged or of another version."""
        return open_prepared(
            folder / "documents.json",
            FORMAT,
            lambda head: cls(folder, _Head.model_validate(head)),
            name="documents",
            damaged=_damaged,
        )

    def require_types(self, types: int) -> None:
        """DataError where a token is none of a vocabulary of so many. Reads all of them once."""
        if len(self.tokens) and int(self.tokens.max()) >= types:
            raise _damaged(self.folder / "tokens", f"it holds token {self.tokens.max()} of {types}")

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.prompts)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """(documents,): targets of each, all tokens but BEGIN."""
        return np.diff(self.offsets) - 1

    def digests(self) -> set[bytes]:
        """The distinct documents."""
        return set().union(*self._digest_chunks())

    def held(self, digests: set[bytes]) -> set[bytes]:
        """Documents that are among ``digests``; takes the memory of these alone."""
        return set().union(*(digests & chunk for chunk in self._digest_chunks()))

    def _digest_chunks(self) -> Iterator[set[bytes]]:
        size = CHUNK * DIGEST
        for begin in range(0, len(self._digests), size):
            whole = self._digests[begin : begin + size].tobytes()
            yield {whole[at : at + DIGEST] for at in range(0, len(whole), DIGEST)}

    def unknown(self) -> int:
        """Number of predicted tokens that the vocabulary lacks: of prompts none. Reads all of them once."""
        at = np.flatnonzero(self.tokens == UNKNOWN)
        document = np.searchsorted(self.offsets, at, side="right") - 1
        return int((at - self.offsets[document] > self.prompts[document]).sum())

    def __len__(self) -> int:
        return len(self.tokens)


def open_or_prepare_documents(
    text: TextConfig,
    cut: Cut,
    tokenizer: Tokenizer,
    folder: Path,
    *,
    content: str = "",
    processes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> DocumentStream:
    """Open ``folder`` if it was made of these very files and tokenizer; encode the documents otherwise.

    With ``content``, the ``DocumentStream.content`` of before, copied or touched files will do, other texts not.
    ``processes``: see ``encoding.processes_for``.
    """
    wanted = _fingerprint(text, cut, tokenizer)
    try:
        found = DocumentStream.open(folder)
        if found.fingerprint == wanted:
            found.require_types(len(tokenizer))
            return found
    except DataError:
        pass  # missing or damaged: made anew from the text
    temporary = hidden_sibling(folder, "tmp")
    with explain_os_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(temporary, ignore_errors=True)  # left there by a kill
        temporary.mkdir()
    try:
        number = processes_for(text_files(text.source), processes)
        head = _write(text, cut, tokenizer, temporary, number, progress)
        require_unchanged("text", head.content, content, where=text.name)
        with explain_os_errors(folder):
            whole = {**FORMAT, **head.model_dump(), "fingerprint": wanted}
            (temporary / "documents.json").write_text(json.dumps(whole, indent=1) + "\n")
            commit_folder(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return DocumentStream.open(folder)


def _write(
    text: TextConfig, cut: Cut, tokenizer: Tokenizer, folder: Path, processes: int,
    progress: Callable[[int], None] | None,
) -> _Head:  # fmt: skip
    dtype: Literal["<u2", "<u4"] = "<u2" if len(tokenizer) <= 1 << 16 else "<u4"
    size = characters = total = count = 0
    digest = hashlib.sha256()
    chunks = (
        (chunk, [[document.prompt for document in chunk], [document.text for document in chunk]])
        for chunk in _chunks(read_documents(text, cut))
    )
    with explain_os_errors(folder), ExitStack() as stack:
        names = ("tokens", "digests", "offsets", "prompts")
        tokens, every, offsets, prompts = (stack.enter_context((folder / name).open("wb")) for name in names)
        offsets.write(np.zeros(1, "<i8").tobytes())
        for documents, (before, after) in encode_chunks((tokenizer, tokenizer), chunks, processes):
            for document, prompt, pieces in zip(documents, before.lines(), after.lines(), strict=True):
                tokens.write(np.concatenate([[BEGIN], prompt, pieces, [END]]).astype(dtype).tobytes())
                every.write(document.digest)
                digest.update(document.digest)
                size, characters = size + len(document.text.encode()), characters + len(document.text)
            ends = total + np.cumsum(before.lengths + after.lengths + 2)
            offsets.write(ends.astype("<i8").tobytes())
            prompts.write(before.lengths.astype("<i8").tobytes())
            total, count = int(ends[-1]), count + len(documents)
            if progress is not None:
                progress(total)
        if not count:
            raise DataError("there is no document to learn from", where=text.name, why="every one is blank")
    return _Head(
        name=text.name, fingerprint="", content=digest.hexdigest(), dtype=dtype, tokens=total,
        documents=count, bytes=size, characters=characters,
    )  # fmt: skip


def _chunks(documents: Iterator[TextDocument]) -> Iterator[list[TextDocument]]:
    while chunk := list(islice(documents, CHUNK)):
        yield chunk


def _fingerprint(text: TextConfig, cut: Cut, tokenizer: Tokenizer) -> str:
    """A sha256 over all that decides the prepared numbers. A file counts by path, size and time of change."""
    files: list[list[Any]] = []
    found = named_files(text.source)
    if all(path.exists() for path in found):
        every = [(path, path.stat()) for path in text_files(text.source)]
        files = [[str(path.resolve()), status.st_size, status.st_mtime_ns] for path, status in every]
    told = [FORMAT, text.name, files, list(text.share), list(cut), tokenizer.digest()]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _map(path: Path, dtype: np.dtype[Any], count: int) -> npt.NDArray[Any]:
    size = path.stat().st_size if path.is_file() else -1
    if size != count * dtype.itemsize:
        raise _damaged(path, f"it has {size} bytes, not {count * dtype.itemsize}")
    if count == 0:
        return np.empty(0, dtype)
    # A plain view of the map: indexing a np.memmap itself is several times slower.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r", shape=(count,)))


def _damaged(path: Path, why: str) -> DataError:
    return DataError(
        "the prepared documents are damaged", where=str(path), why=why, help="remove this folder: they are made anew"
    )

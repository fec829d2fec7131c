"""Tokenized documents on disk: encoded once, then read through a memory map in constant memory.

A prepared folder holds the documents one after another, each as BEGIN … END (``tokens``), and the start of each
(``offsets``). It also holds the number of prompt tokens of each (``prompts``), a digest of each (``digests``), and
``documents.json``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from regard.core.contents import require_unchanged
from regard.data.documents import Cut, read_documents, text_files
from regard.data.encoding import encode_chunks, in_chunks, processes_for
from regard.data.file_names import named_files
from regard.data.prepared import file_version, replacing_folder, token_type
from regard.data.ragged import Ragged, RaggedWriter, damaged
from regard.data.stream import Stream, StreamHead, TextConfig
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer
from regard.errors import DataError

FORMAT = {"format": "regard-documents", "version": 1}
DIGEST = 16  # bytes
CHUNK = 1024  # documents encoded and written at a time


class DocumentStream(Stream):
    """Prepared documents. ``bytes`` and ``characters`` count the raw text that is predicted, without prompts."""

    file = "documents.json"
    format: ClassVar[Mapping[str, Any]] = FORMAT
    offset_file = "offsets"

    def __init__(self, folder: Path, head: StreamHead) -> None:
        """Initialize for ``DocumentStream.open``; raises DataError if a file does not hold what ``head`` states."""
        super().__init__(folder, head)
        self.offsets, self.prompts = self.rows.offsets, self._open_numbers("prompts", "<i8")
        self._digests = self._open_numbers("digests", "|u1", (DIGEST,))
        if not len(self.rows) == len(self.prompts) == len(self._digests):
            raise damaged(folder / self.file, "its arrays have different numbers of documents")
        if (self.sizes < 1).any():
            raise damaged(folder / "offsets", "a document is shorter than BEGIN and END")
        if ((self.prompts < 0) | (self.prompts > self.sizes - 1)).any():
            raise damaged(folder / "prompts", "a prompt is longer than its document")

    @property
    def documents(self) -> int:
        """Number of documents."""
        return len(self.prompts)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Targets of each document, shape (documents,): all tokens except BEGIN."""
        return np.diff(self.offsets) - 1

    def digests(self) -> set[bytes]:
        """Return the digests of the distinct documents."""
        return set(map(np.ndarray.tobytes, self._digests))

    def held(self, digests: set[bytes]) -> set[bytes]:
        """Return those of ``digests`` that belong to a document; needs no memory beyond ``digests``."""
        return digests.intersection(map(np.ndarray.tobytes, self._digests))

    def unknown(self) -> int:
        """Return the number of predicted tokens that are unknown, prompts excluded. Reads all tokens once."""
        positions = np.flatnonzero(self.tokens == UNKNOWN)
        document = np.searchsorted(self.offsets, positions, side="right") - 1
        return int((positions - self.offsets[document] > self.prompts[document]).sum())


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
    """Open ``folder`` if it was prepared from these files and this tokenizer; otherwise encode the documents.

    Args:
        text: the files of the text.
        cut: how texts are split into documents.
        tokenizer: encodes the documents.
        folder: the prepared folder.
        content: an earlier ``DocumentStream.content``. Copied or touched files are then accepted, other texts are not.
        processes: see ``encoding.processes_for``.
        progress: called with the number of tokens written.
    """
    fingerprint = _fingerprint(text, cut, tokenizer)
    if stream := DocumentStream.reopen(folder, fingerprint, len(tokenizer)):
        return stream
    with replacing_folder(folder) as temporary:
        number = processes_for(text_files(text.source), processes)
        head = _write(text, cut, tokenizer, temporary, number, progress)
        require_unchanged("text", head.content, content, where=text.name)
        DocumentStream.write_head(temporary, head.model_copy(update={"fingerprint": fingerprint}))
    return DocumentStream.open(folder)


def _write(
    text: TextConfig, cut: Cut, tokenizer: Tokenizer, folder: Path, processes: int,
    progress: Callable[[int], None] | None,
) -> StreamHead:  # fmt: skip
    size = characters = 0
    digest = hashlib.sha256()
    chunks = (
        (chunk, [[document.prompt for document in chunk], [document.text for document in chunk]])
        for chunk in in_chunks(read_documents(text, cut), CHUNK)
    )
    with (
        RaggedWriter(folder / "tokens", folder / "offsets", token_type(len(tokenizer))) as tokens,
        RaggedWriter(folder / "prompts", None, "<i8") as prompts,
        RaggedWriter(folder / "digests", None, "|u1", (DIGEST,)) as digests,
    ):
        for documents, (before, after) in encode_chunks((tokenizer, tokenizer), chunks, processes):
            pairs = zip(before, after, strict=True)
            tokens.append(Ragged.of_rows([np.concatenate([[BEGIN], *pair, [END]]) for pair in pairs]))
            prompts.append_values(before.lengths)
            joined = b"".join(document.digest for document in documents)
            digests.append_values(np.frombuffer(joined, np.uint8).reshape(-1, DIGEST))
            digest.update(joined)
            for document in documents:
                size, characters = size + len(document.text.encode()), characters + len(document.text)
            if progress is not None:
                progress(tokens.positions)
    if not tokens.rows:
        why = "all documents are blank"
        if text.share != (0.0, 1.0):
            why += ", or its share of the distinct documents is empty (equal documents are in one share)"
        raise DataError("the text has no documents to train on", where=text.name, why=why)
    return StreamHead(
        name=text.name, fingerprint="", content=digest.hexdigest(), bytes=size, characters=characters,
        arrays={"tokens": tokens.head, "prompts": prompts.head, "digests": digests.head},
    )  # fmt: skip


def _fingerprint(text: TextConfig, cut: Cut, tokenizer: Tokenizer) -> str:
    """Return a sha256 of everything that determines the prepared tokens. Files count by path, size and change time."""
    complete = all(path.exists() for path in named_files(text.source))
    files = [file_version(path) for path in text_files(text.source)] if complete else []
    facts = [FORMAT, text.name, files, list(text.share), list(cut), tokenizer.digest()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

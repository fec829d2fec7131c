"""Texts as one stream of token numbers on disk: encoded once, then read through a memory map, whatever their size."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from regard.core.contents import require_unchanged
from regard.data.encoding import encode_chunks, in_chunks, processes_for
from regard.data.file_names import FileNames, named_files, spelled
from regard.data.foreign_errors import foreign_errors
from regard.data.prepared import PreparedFolder, PreparedHead, file_version, replacing_folder, token_type
from regard.data.ragged import Count, RaggedWriter
from regard.data.shared_files import PartName
from regard.data.text_files import open_bytes, refuse_pipe
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer
from regard.errors import DataError

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


class StreamHead(PreparedHead):
    """The head of tokens: ``bytes`` and ``characters`` count the raw text."""

    bytes: Count
    characters: Count

    @classmethod
    def earlier_arrays(cls, head: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
        """See ``PreparedHead``."""
        tokens, rows = {"dtype": head["dtype"], "positions": head["tokens"]}, head.get("documents")
        if rows is None:
            return {"tokens": tokens}
        prompts, digests = {"dtype": "<i8", "positions": rows}, {"dtype": "|u1", "shape": [16], "positions": rows}
        return {"tokens": {**tokens, "rows": rows}, "prompts": prompts, "digests": digests}


class Stream(PreparedFolder):
    """A prepared text: BEGIN, its tokens, END.

    ``bytes`` and ``characters`` count the raw text: what bits per byte and per character are divided by.
    """

    file = "stream.json"
    format: ClassVar[Mapping[str, Any]] = FORMAT
    head_type = StreamHead
    offset_file: ClassVar[str | None] = None

    def __init__(self, folder: Path, head: StreamHead) -> None:
        """For ``Stream.open``; raises DataError where the tokens are not those that ``head`` states."""
        super().__init__(folder, head)
        self.bytes, self.characters = head.bytes, head.characters
        self.rows = self._open_tokens("tokens", "tokens", self.offset_file)
        self.tokens = self.rows.values

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
    fingerprint = _fingerprint(config, tokenizer)
    if stream := Stream.reopen(folder, fingerprint, len(tokenizer)):
        return stream
    number = processes_for(named_files(config.source), processes)
    with replacing_folder(folder) as temporary:
        head = _write(config, tokenizer, temporary, number, progress)
        require_unchanged("text", head.content, content, where=config.name)
        Stream.write_head(temporary, head.model_copy(update={"fingerprint": fingerprint}))
    return Stream.open(folder)


def _write(
    config: TextConfig, tokenizer: Tokenizer, folder: Path, processes: int, progress: Callable[[int], None] | None
) -> StreamHead:
    digest = hashlib.sha256()
    count = characters = 0
    with RaggedWriter(folder / "tokens", None, token_type(len(tokenizer))) as tokens:
        tokens.append_values(np.array([BEGIN]))
        chunks = (("".join(lines), [lines]) for lines in in_chunks(read_text_lines(config), CHUNK))
        for text, (lines,) in encode_chunks((tokenizer,), chunks, processes):
            digest.update(text.encode())
            count, characters = count + len(text.encode()), characters + len(text)
            tokens.append(lines)
            if progress is not None:
                progress(tokens.positions)
        tokens.append_values(np.array([END]))
    if not characters:
        raise DataError("there is no text to learn from", where=config.name, why="it is empty")
    return StreamHead(
        name=config.name, fingerprint="", content=digest.hexdigest(), arrays={"tokens": tokens.head}, bytes=count,
        characters=characters,
    )  # fmt: skip


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
    files = [file_version(path) if path.exists() else [str(path)] for path in named_files(config.source)]
    told = [FORMAT, files[0] if len(files) == 1 else files, list(config.share), tokenizer.digest()]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()

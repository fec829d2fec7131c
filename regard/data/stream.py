"""Texts as one token stream on disk: encoded once, then read through a memory map in constant memory."""

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
from regard.data.file_names import FileNames, named_files, summarize
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
    """Text of a language model's corpus, plain or ``.gz``, or a part of it: one stream, or documents.

    Several files form one text, as if they were concatenated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: FileNames = Field(
        description="a text file in UTF-8, plain or `.gz`; for documents, also a folder; a list, or a pattern such as "
        "`part-*.txt`, sorted by name"
    )
    share: tuple[float, float] = Field(
        (0.0, 1.0),
        description="part of its characters, from beginning to end, or of its distinct documents, by digest: "
        "[0.0, 0.9] and [0.9, 1.0] split it",
    )

    part: tuple[str, PartName] | None = Field(
        None,
        description="for documents in tables or JSON lines: a column and the split to select, [`split`, `train`]",
    )

    @field_validator("source")
    @classmethod
    def _path_is_a_name(cls, source: FileNames) -> FileNames:
        if any("\0" in str(path) for path in ((source,) if isinstance(source, Path) else source)):
            raise ValueError("a path cannot contain a null character")
        if source == ():
            raise ValueError("a list of files needs at least one file")
        return source

    @property
    def name(self) -> str:
        """The files, for messages."""
        return summarize(self.source)

    @model_validator(mode="after")
    def _is_a_part(self) -> TextConfig:
        if not 0 <= self.share[0] < self.share[1] <= 1:
            raise ValueError("share must be a part of the interval from 0 to 1, such as [0.0, 0.9]")
        return self


class StreamHead(PreparedHead):
    """The head of token files: ``bytes`` and ``characters`` count the raw text."""

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

    ``bytes`` and ``characters`` count the raw text; bits per byte and per character are divided by them.
    """

    file = "stream.json"
    format: ClassVar[Mapping[str, Any]] = FORMAT
    head_type = StreamHead
    offset_file: ClassVar[str | None] = None

    def __init__(self, folder: Path, head: StreamHead) -> None:
        """Initialize for ``Stream.open``; raises DataError if the tokens do not match ``head``."""
        super().__init__(folder, head)
        self.bytes, self.characters = head.bytes, head.characters
        self.rows = self._open_tokens("tokens", "tokens", self.offset_file)
        self.tokens = self.rows.values

    def unknown(self) -> int:
        """Return the number of unknown tokens. Reads all tokens once."""
        return int((self.tokens == UNKNOWN).sum())

    def __len__(self) -> int:
        return len(self.tokens)


def read_text_lines(config: TextConfig) -> Iterator[str]:
    """Yield the lines of the text, unchanged, with their ends. DataError for missing files and other encodings."""
    files = named_files(config.source)
    begin, end = (round(part * sum(map(_characters, files))) for part in config.share)
    position = 0
    for line in chain.from_iterable(map(_lines, files)):
        piece = line[max(begin - position, 0) : max(end - position, 0)]
        position += len(line)
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
    """Open ``folder`` if it was prepared from these files and this tokenizer; otherwise encode the text.

    Memory is constant. With ``content``, an earlier ``Stream.content``, copied or touched files are accepted; other
    text is a DataError. ``processes``: see ``encoding.processes_for``.
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
        raise DataError("the text is empty", where=config.name)
    return StreamHead(
        name=config.name, fingerprint="", content=digest.hexdigest(), arrays={"tokens": tokens.head}, bytes=count,
        characters=characters,
    )  # fmt: skip


def _lines(path: Path) -> Iterator[str]:
    refuse_pipe(path)
    with foreign_errors(f"cannot read {path}", path), open_bytes(path) as raw:
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
    """Return a sha256 of everything that determines the prepared tokens. Files count by path, size and change time."""
    files = [file_version(path) if path.exists() else [str(path)] for path in named_files(config.source)]
    facts = [FORMAT, files[0] if len(files) == 1 else files, list(config.share), tokenizer.digest()]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

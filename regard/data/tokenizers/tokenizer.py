"""Tokenizers: the config and the interface; conversion between lines and token ids."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from regard.core.atomic_files import explain_os_errors

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
FORMAT = {"format": "regard-tokenizer", "version": 1}
IMPORTED = ("listed", "wordpiece")  # kinds that only imported models have
FIXED = {"byte": 260, "notes": 133}  # kinds with a fixed vocabulary, and its size


class TokenizerConfig(BaseModel):
    """Settings of a tokenizer.

    Attributes:
        kind: the type of pieces. ``byte-bpe`` merges UTF-8 bytes, as GPT-2 does, and decodes exactly. ``listed`` is for
            imported models: SentencePiece's pieces, numbered by a list. ``notes`` are the pitches of music. ``k-mer``:
            overlapping substrings of ``k`` letters, for DNA. ``wordpiece`` is for imported models: the longest pieces
            of each word, as in BERT.
        library: the library that trains ``bpe`` and ``unigram``.
        size: vocabulary size, the four special pieces included. By default, ``bpe`` and ``unigram`` have 8,000 pieces,
            or the maximum for a smaller corpus; other kinds keep all pieces of the corpus.
        lowercase: whether to lower-case text.
        joiner: the mark at the end of a piece that continues in the next (``@@`` in text from subword-nmt); it is
            removed on decoding.
        k: number of letters of a ``k-mer``.
        word_space: whether a space precedes each token of a tagged sentence, as pieces of imported models expect.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal[
        "bpe",
        "unigram",
        "byte-bpe",
        "word",
        "character",
        "byte",
        "pretokenized",
        "listed",
        "notes",
        "k-mer",
        "wordpiece",
    ] = "bpe"
    library: Literal["sentencepiece", "tokenizers"] = "sentencepiece"
    size: int | None = Field(default=None, gt=len(SPECIALS))
    lowercase: bool = False
    joiner: str | None = Field(default=None, min_length=1)
    k: int | None = Field(default=None, ge=1, le=12)
    word_space: bool = False

    @field_validator("kind", mode="before")
    @classmethod
    def _read_earlier_name(cls, kind: object) -> object:
        return "pretokenized" if kind == "pretokenised" else kind

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> TokenizerConfig:
        """Reject options that the kind of vocabulary does not have."""
        if self.joiner is not None and self.kind != "pretokenized":
            raise ValueError(f'joiner requires kind = "pretokenized"; kind = "{self.kind}" joins its pieces itself')
        if (self.k is None) != (self.kind != "k-mer"):
            raise ValueError('k, the number of letters of a piece, is required for kind = "k-mer" only; set k = 3')
        if self.size is not None and self.kind in FIXED:
            raise ValueError(f"a vocabulary of kind {self.kind} always has {FIXED[self.kind]} pieces: omit size")
        return self

    def remove_joiners(self, text: str) -> str:
        """Return ``text`` without the joiners of split words: ``kara@@ te`` → ``karate``."""
        if self.joiner is None:
            return text
        return text.replace(self.joiner + " ", "").removesuffix(self.joiner)


class SizeMisfit(Exception):
    """A vocabulary size that the corpus does not allow: what, why and help of an error; the caller adds the key."""

    def __init__(self, what: str, why: str | None, help: str) -> None:
        super().__init__(what)
        self.what, self.why, self.help = what, why, help

    @classmethod
    def above(cls, config: TokenizerConfig, largest: int) -> SizeMisfit:
        """Return the error for a vocabulary larger than the corpus allows."""
        return cls(
            f"a {config.kind} vocabulary of {config.size} pieces is larger than the corpus allows",
            f"the largest possible size is {largest}, the {len(SPECIALS)} special pieces included",
            f"set it to at most {largest}, or omit it to use the largest possible size",
        )

    @classmethod
    def below(cls, size: int, smallest: int | None) -> SizeMisfit:
        """Return the error for a vocabulary too small for the characters of the corpus; ``smallest``: if known."""
        return cls(
            f"a vocabulary of {size} pieces cannot hold every character of the corpus",
            f"the characters and special pieces are {smallest}" if smallest else None,
            f"set it to at least {smallest}" if smallest else "set it higher",
        )


class Tokenizer(ABC):
    """Converter between lines and token ids. Special pieces have the same ids in every vocabulary.

    Encoding adds neither BEGIN nor END. No text is encoded as a special id other than UNKNOWN, not even ``</s>``.

    Args:
        config: the kind and the options of the vocabulary.
    """

    def __init__(self, config: TokenizerConfig) -> None:
        self.config = config

    @property
    def reads_language_marks(self) -> bool:
        """True if a mark ``>>de<<`` at the start of a line is one piece, which selects the target language."""
        return self.config.kind == "listed"

    def encode(self, line: str) -> list[int]:
        """Return the token ids of one line; about 5 µs for a sentence."""
        return self.encode_lines([line])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each line, several times faster than one by one."""
        return self._encode([line.lower() for line in lines] if self.config.lowercase else lines)

    def encode_plain(self, text: str) -> list[int]:
        """Return the token ids of a text in which no special piece is recognized, not even an added one of the file.

        An id that only a special piece may have is replaced by UNKNOWN.
        """
        return self.encode(text)

    def split_specials(self, text: str) -> list[str | int]:
        """Return the texts and the ids of special pieces of which a text of a chat template consists, in order."""
        return [text]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ``ids`` up to the first END; special pieces, also unknown ones, are omitted."""
        plain: list[int] = []
        for piece in ids:
            if piece == END:
                break
            if piece > END:
                plain.append(int(piece))
        return self._decode(plain)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return a readable form of each piece: ``<unk>``, ``▁dog``, ``@@``-joined parts unchanged."""
        return [SPECIALS[piece] if piece <= END else self._piece(int(piece)) for piece in ids]

    def unknown(self, line: str) -> list[str]:
        """Return the unknown characters (for words: the unknown words) of a line, with repetitions."""
        return self._unknown(line.lower() if self.config.lowercase else line)

    def save(self, folder: Path, name: str) -> None:
        """Write ``NAME.json`` and, for subwords, the library's own model file.

        Args:
            folder: the folder, which is created if it is missing.
            name: of the files, without a suffix.
        """
        files = self._files()
        head = {
            **FORMAT,
            "config": self.config.model_dump(mode="json"),
            "files": {suffix: hashlib.sha256(content).hexdigest() for suffix, content in files.items()},
            "pieces": self._vocabulary(),
        }
        with explain_os_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for suffix, content in files.items():
                (folder / f"{name}.{suffix}").write_bytes(content)
            text = json.dumps(head, ensure_ascii=False, indent=1)
            (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")

    def digest(self) -> str:
        """Return a SHA-256 that is equal for two tokenizers exactly if they encode every text identically."""
        later: dict[str, Any] = {"k": None, "word_space": False}  # later keys: earlier digests stay valid
        unset = {key for key, default in later.items() if getattr(self.config, key) == default}
        whole = hashlib.sha256(self.config.model_dump_json(exclude=unset).encode())
        whole.update(json.dumps(self._vocabulary()).encode())
        for suffix, content in sorted(self._files().items()):
            whole.update(suffix.encode() + content)
        return whole.hexdigest()

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of pieces, the special ones included."""

    @abstractmethod
    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of lines; ``config.lowercase`` has been applied."""

    @abstractmethod
    def _unknown(self, line: str) -> list[str]:
        """Return the unknown characters (words) of a line."""

    @abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """Return the text of ``ids``, which contain no special ids."""

    @abstractmethod
    def _piece(self, piece: int) -> str:
        """Return the text of a piece that is not special."""

    @abstractmethod
    def _files(self) -> dict[str, bytes]:
        """Return the library's own files: content by suffix."""

    @abstractmethod
    def _vocabulary(self) -> list[str] | None:
        """Return the pieces after the special ones if they define the tokenizer; otherwise None."""

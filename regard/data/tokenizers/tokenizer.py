"""Tokenizers: the config and the interface, lines to piece numbers and back."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from regard.core.atomic_files import explain_os_errors

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
FORMAT = {"format": "regard-tokenizer", "version": 1}
FIXED = {"byte": 260, "notes": 133}  # kinds whose pieces are always the same


class TokenizerConfig(BaseModel):
    """Settings of a tokenizer.

    ``kind``: the pieces; ``byte-bpe`` merges the bytes of UTF-8, as GPT-2 does: every text comes back exactly;
    ``listed`` is for imported models: SentencePiece's pieces, numbered by a list; ``notes`` are the pitches of music;
    ``k-mer``: every ``k`` letters in a row, one letter on from piece to piece, of DNA. ``library``: trains ``bpe`` and
    ``unigram``. ``size``: pieces, the four special ones included. Without it, ``bpe`` and ``unigram`` take 8,000
    pieces, or as many as a smaller corpus allows, and the other kinds keep every piece they see. ``lowercase``: text is
    lower-cased. ``joiner``: the mark at the end of a piece that continues in the next (``@@`` in text from
    subword-nmt); it is removed on decoding.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal[
        "bpe", "unigram", "byte-bpe", "word", "character", "byte", "pretokenized", "listed", "notes", "k-mer"
    ] = "bpe"
    library: Literal["sentencepiece", "tokenizers"] = "sentencepiece"
    size: int | None = Field(default=None, gt=len(SPECIALS))
    lowercase: bool = False
    joiner: str | None = Field(default=None, min_length=1)
    k: int | None = Field(default=None, ge=1, le=12)

    @field_validator("kind", mode="before")
    @classmethod
    def _read_earlier_name(cls, kind: object) -> object:
        return "pretokenized" if kind == "pretokenised" else kind

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> TokenizerConfig:
        """Refuse options that the kind of vocabulary does not have."""
        if self.joiner is not None and self.kind != "pretokenized":
            raise ValueError(f'joiner is for kind = "pretokenized"; kind = "{self.kind}" joins by itself')
        if (self.k is None) != (self.kind != "k-mer"):
            raise ValueError('k is the number of letters of a piece of kind = "k-mer", which needs it: k = 3')
        if self.size is not None and self.kind in FIXED:
            raise ValueError(f"a vocabulary of kind {self.kind} has {FIXED[self.kind]} pieces: leave size out")
        return self

    def remove_joiners(self, text: str) -> str:
        """Return ``text`` without the joiners of pieces that were cut before: ``kara@@ te`` is ``karate``."""
        if self.joiner is None:
            return text
        return text.replace(self.joiner + " ", "").removesuffix(self.joiner)


class SizeMisfit(Exception):
    """A size that no vocabulary of a corpus has: what, why and help of an error, whose key the caller knows."""

    def __init__(self, what: str, why: str | None, help: str) -> None:
        super().__init__(what)
        self.what, self.why, self.help = what, why, help

    @classmethod
    def above(cls, config: TokenizerConfig, largest: int) -> SizeMisfit:
        """A vocabulary larger than the corpus allows."""
        return cls(
            f"a {config.kind} vocabulary of {config.size} pieces is larger than the corpus allows",
            f"the largest possible size is {largest}, the {len(SPECIALS)} special pieces included",
            f"set it to at most {largest}, or leave it out to take what the corpus allows",
        )

    @classmethod
    def below(cls, size: int, smallest: int | None) -> SizeMisfit:
        """A vocabulary too small for the characters of the corpus; ``smallest``: if known."""
        return cls(
            f"a vocabulary of {size} pieces cannot hold every character of the corpus",
            f"characters and special pieces alone are {smallest}" if smallest else None,
            f"set it to at least {smallest}" if smallest else "set it higher",
        )


class Tokenizer(ABC):
    """Tokenizer: lines to piece numbers and back. Special pieces have the same numbers in every vocabulary.

    Encoding adds neither BEGIN nor END, and text never yields a special number other than UNKNOWN, not even text that
    spells ``</s>``.
    """

    def __init__(self, config: TokenizerConfig) -> None:
        self.config = config

    @property
    def reads_language_marks(self) -> bool:
        """Return whether ``>>de<<`` at the start of a line is one piece: the mark of the wanted target language."""
        return self.config.kind == "listed"

    def encode(self, line: str) -> list[int]:
        """Return the piece numbers of one line; about 5 µs for a sentence."""
        return self.encode_lines([line])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the piece numbers of each line, several times faster than one by one."""
        return self._encode([line.lower() for line in lines] if self.config.lowercase else lines)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of ``ids`` up to the first END; special pieces, the unknown one too, leave no trace."""
        plain: list[int] = []
        for piece in ids:
            if piece == END:
                break
            if piece > END:
                plain.append(int(piece))
        return self._decode(plain)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the spelling of each piece, for a reader: ``<unk>``, ``▁dog``, ``@@``-joined parts as they are."""
        return [SPECIALS[piece] if piece <= END else self._piece(int(piece)) for piece in ids]

    def unknown(self, line: str) -> list[str]:
        """Return the characters (words, where pieces are words) of a line without a piece, as often as they occur."""
        return self._unknown(line.lower() if self.config.lowercase else line)

    def save(self, folder: Path, name: str) -> None:
        """Write ``NAME.json`` and, for subwords, the library's own model file beside it."""
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
        """Return a SHA-256 that two tokenizers share exactly if they encode every text alike."""
        unset = {"k"} if self.config.k is None else set[str]()  # a key that was added since digests are kept
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
        """Return the piece numbers of lines; ``config.lowercase`` has been applied."""

    @abstractmethod
    def _unknown(self, line: str) -> list[str]:
        """Return the characters (words) of a line without a piece."""

    @abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """Return the text of ``ids``, none of which is special."""

    @abstractmethod
    def _piece(self, piece: int) -> str:
        """Return the spelling of a piece that is not special."""

    @abstractmethod
    def _files(self) -> dict[str, bytes]:
        """Return the library's own files: content by suffix."""

    @abstractmethod
    def _vocabulary(self) -> list[str] | None:
        """Return the pieces after the special ones, if they are all that there is to save; else None."""

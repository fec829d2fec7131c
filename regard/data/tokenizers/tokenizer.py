"""What a tokenizer is, whatever it is made of: lines to piece numbers and back."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.core.atomic_files import explain_os_errors

__all__ = ["BEGIN", "END", "FORMAT", "PAD", "SPECIALS", "UNKNOWN", "Tokenizer", "TokenizerConfig"]

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
FORMAT = {"format": "regard-tokenizer", "version": 1}


class TokenizerConfig(BaseModel):
    """How text is cut into pieces.

    ``size`` counts the four special pieces. Without it, ``bpe`` and ``unigram`` take 8,000 pieces, or as many
    as the corpus allows when it allows fewer, and the other kinds keep every piece they see.
    ``joiner`` is the mark at the end of a piece that continues in the next (``@@`` in text from subword-nmt);
    it is removed on decoding. ``byte-bpe`` merges the bytes of UTF-8, as GPT-2 does: every text comes back exactly.
    ``listed`` is the kind of imported models: SentencePiece's pieces, numbered by a list.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["bpe", "unigram", "byte-bpe", "word", "character", "byte", "pretokenised", "listed"] = "bpe"
    library: Literal["sentencepiece", "tokenizers"] = "sentencepiece"
    size: int | None = Field(default=None, gt=len(SPECIALS))
    lowercase: bool = False
    joiner: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _options_fit_the_kind(self) -> TokenizerConfig:
        if self.joiner is not None and self.kind != "pretokenised":
            raise ValueError(f'joiner is for kind = "pretokenised"; kind = "{self.kind}" joins by itself')
        if self.size is not None and self.kind == "byte":
            raise ValueError("a byte vocabulary has 260 pieces: leave size out")
        return self

    def joined(self, text: str) -> str:
        """``text`` without the joiners of pieces that were cut outside: ``kara@@ te`` is ``karate``."""
        if self.joiner is None:
            return text
        return text.replace(self.joiner + " ", "").removesuffix(self.joiner)


class Tokenizer(ABC):
    """Lines to piece numbers and back. The special pieces have the same numbers in every vocabulary.

    Encoding adds neither BEGIN nor END, and text never yields a special number other than UNKNOWN, not even
    text that spells ``</s>``.
    """

    def __init__(self, config: TokenizerConfig) -> None:
        self.config = config

    def encode(self, line: str) -> list[int]:
        """The pieces of one line; about 5 µs for a sentence."""
        return self.encode_lines([line])[0]

    def encode_lines(self, lines: Sequence[str]) -> list[list[int]]:
        """The pieces of many lines, several times faster than one by one."""
        return self._encode([line.lower() for line in lines] if self.config.lowercase else lines)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ``ids`` up to the first END; special pieces, the unknown one too, leave no trace."""
        kept: list[int] = []
        for piece in ids:
            if piece == END:
                break
            if piece > END:
                kept.append(int(piece))
        return self._decode(kept)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """How each piece is spelled, for a reader: ``<unk>``, ``▁dog``, ``@@``-joined parts as they are."""
        return [SPECIALS[piece] if piece <= END else self._piece(int(piece)) for piece in ids]

    def unknown(self, line: str) -> list[str]:
        """What of a line has no piece, as often as it stands there: characters; words, where pieces are words."""
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
        """A sha256 that two tokenizers share exactly when they cut every text alike."""
        whole = hashlib.sha256(self.config.model_dump_json().encode())
        whole.update(json.dumps(self._vocabulary()).encode())
        for suffix, content in sorted(self._files().items()):
            whole.update(suffix.encode() + content)
        return whole.hexdigest()

    @abstractmethod
    def __len__(self) -> int:
        """How many pieces there are, the special ones included."""

    @abstractmethod
    def _encode(self, lines: Sequence[str]) -> list[list[int]]: ...

    @abstractmethod
    def _unknown(self, line: str) -> list[str]: ...

    @abstractmethod
    def _decode(self, ids: list[int]) -> str:
        """``ids`` hold no special piece."""

    @abstractmethod
    def _piece(self, piece: int) -> str:
        """``piece`` is not special."""

    @abstractmethod
    def _files(self) -> dict[str, bytes]:
        """The library's own files: suffix to content."""

    @abstractmethod
    def _vocabulary(self) -> list[str] | None:
        """The pieces after the special ones where this is all there is to save."""

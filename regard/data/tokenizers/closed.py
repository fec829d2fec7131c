"""Closed vocabularies: words, characters, k-mers and bytes, defined by a list of pieces."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence

from regard.data.tokenizers.tokenizer import SPECIALS, UNKNOWN, SizeMisfit, Tokenizer, TokenizerConfig
from regard.errors import DataError


class ClosedVocabulary(Tokenizer):
    """Tokenizer with a list of pieces, numbered in order after the special ones."""

    def __init__(self, config: TokenizerConfig, pieces: Sequence[str]) -> None:
        super().__init__(config)
        self._spelled = list(pieces)
        self._number = {piece: number for number, piece in enumerate(pieces, start=len(SPECIALS))}

    def __len__(self) -> int:
        return len(SPECIALS) + len(self._spelled)

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        number = self._number
        return [[number.get(piece, UNKNOWN) for piece in self._split(line)] for line in lines]

    def _unknown(self, line: str) -> list[str]:
        return [piece for piece in self._split(line) if piece not in self._number]

    def _piece(self, piece: int) -> str:
        return self._spelled[piece - len(SPECIALS)]

    def _files(self) -> dict[str, bytes]:
        return {}

    def _vocabulary(self) -> list[str]:
        return self._spelled

    @abstractmethod
    def _split(self, line: str) -> Iterable[str]:
        """Split a line into pieces."""


class WordTokenizer(ClosedVocabulary):
    """Tokenizer by white space: one piece for each distinct word; also for pretokenized text."""

    def _split(self, line: str) -> list[str]:
        return line.split()

    def _decode(self, ids: list[int]) -> str:
        return self.config.remove_joiners(" ".join(map(self._piece, ids)))


class CharacterTokenizer(ClosedVocabulary):
    """Tokenizer by Unicode character, spaces included: known text is decoded exactly."""

    def _split(self, line: str) -> str:
        return line

    def _decode(self, ids: list[int]) -> str:
        return "".join(map(self._piece, ids))


class KmerTokenizer(ClosedVocabulary):
    """Tokenizer by overlapping substrings of ``config.k`` letters: ACGT is ACG, CGT; a shorter line is one piece."""

    def _split(self, line: str) -> list[str]:
        return kmers(line, self.config)

    def _decode(self, ids: list[int]) -> str:
        first, *rest = map(self._piece, ids) if ids else ("",)
        return first + "".join(piece[-1] for piece in rest)


def kmers(line: str, config: TokenizerConfig) -> list[str]:
    """Return the pieces of a line after removing surrounding white space."""
    letters, k = line.strip(), config.k or 1
    return [letters[begin : begin + k] for begin in range(max(len(letters) - k + 1, 1))] if letters else []


class ByteTokenizer(Tokenizer):
    """Tokenizer by byte of UTF-8: no text is unknown, and all text is decoded exactly."""

    def __len__(self) -> int:
        return len(SPECIALS) + 256

    def _encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [[byte + len(SPECIALS) for byte in line.encode("utf-8")] for line in lines]

    def _unknown(self, line: str) -> list[str]:
        return []

    def _decode(self, ids: list[int]) -> str:
        # A model may generate incomplete characters, which become U+FFFD.
        return bytes(piece - len(SPECIALS) for piece in ids).decode("utf-8", errors="replace")

    def _piece(self, piece: int) -> str:
        character = chr(piece - len(SPECIALS))
        return character if "!" <= character <= "~" else f"<0x{ord(character):02X}>"

    def _files(self) -> dict[str, bytes]:
        return {}

    def _vocabulary(self) -> None:
        return None


def count_pieces(lines: Iterable[str], config: TokenizerConfig) -> list[str]:
    """Return the most frequent pieces, ties by code point, up to ``config.size``.

    Raises:
        DataError: the corpus has no text.
        SizeMisfit: the corpus has fewer pieces than ``config.size``.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        line = line.lower() if config.lowercase else line
        pieces = kmers(line, config) if config.kind == "k-mer" else line.split()
        counts.update(line if config.kind == "character" else pieces)
    if not counts:
        raise DataError("the corpus for the vocabulary contains no text")
    ranked = sorted(counts, key=lambda piece: (-counts[piece], piece))
    if config.size is None:
        return ranked
    largest = len(SPECIALS) + len(ranked)
    if config.size > largest:
        raise SizeMisfit.above(config, largest)
    return ranked[: config.size - len(SPECIALS)]

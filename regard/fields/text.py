"""One or several texts as tokens, with subword features, word dropout and reverse complements of DNA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, Padded, VisitDraws
from regard.core.observation import SurfaceKind
from regard.core.task import Report, RunFiles
from regard.core.wording import pluralize
from regard.data.molecules import reverse_complement
from regard.data.padding import padded
from regard.data.rows import Column, Row, text_of
from regard.data.tokenizers.catalog import load_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, Tokenizer
from regard.errors import DataError
from regard.fields.pieces import UNKNOWN_PIECE, hidden_pieces, is_piece, numbers_of, without
from regard.fields.text_rows import in_windows, split_texts, text_positions, with_features
from regard.fields.vocabularies import make_text_tokenizer

STRAND, DROPOUT = 3, 4  # random streams
Texts = tuple[str, ...]


class Text(FieldBase):
    """Texts of one example as one row: BEGIN, then the pieces of each text and END, in each window of a long text.

    Args:
        columns: columns of the texts.
        max_length, windows: maximum number of pieces of a window, and of windows of a text; the rest is truncated.
        subword_features: number of hash buckets of the affixes of each piece, which follow its token in a row, or 0.
        matches: whether the features of a word contain its match in the other text; requires subword features.
        word_dropout: share of the pieces that training replaces by UNKNOWN.
        other_strand: whether training reads half of the texts as their reverse complements.
        separate, separators: whether the network encodes each text separately; number of END between two texts.
    """

    reads_json = False
    kind: ClassVar[SurfaceKind] = "tokens"
    hiding: ClassVar[str] = UNKNOWN_PIECE

    def __init__(
        self, columns: tuple[Column, ...], *, max_length: int, subword_features: int = 0, word_dropout: float = 0.0,
        other_strand: bool = False, separate: bool = False, separators: int = 1, matches: bool = False,
        windows: int = 1,
    ) -> None:  # fmt: skip
        self.columns, self.max_length, self.subword_features = columns, max_length, subword_features
        self.window, self.max_windows = (max_length + 2 if windows > 1 else None), windows
        self.word_dropout, self.other_strand, self.separate = word_dropout, other_strand, separate
        self._between, self.matches = [END] * separators, matches
        self.tokenizer: Tokenizer

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"types": len(self.tokenizer)}

    def value(self, row: Row) -> Texts:
        return tuple(text_of(row, column) for column in self.columns)

    def accept(self, value: str | Sequence[str], where: str | None = None) -> Texts:
        texts, columns = (value,) if isinstance(value, str) else value, self.columns
        if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
            raise DataError("expected a text, or a tuple of texts", where=where, why=f"it is {value!r:.80}")
        texts = tuple(texts)
        if len(texts) == len(columns):
            return texts
        named = "" if all(isinstance(column, int) for column in columns) else f": {', '.join(map(str, columns))}"
        raise DataError(
            f"found {pluralize(len(texts), 'text')}; the model reads {len(columns)}", where=where,
            why=f"the training examples have {pluralize(len(columns), 'text')}{named}",
            help="separate the texts of an example by a tab; in Python, pass a tuple"
            if len(columns) > 1 else "pass a single text",
        )  # fmt: skip

    def is_value(self, value: Any) -> bool:
        return isinstance(value, str) or (isinstance(value, tuple) and len(value) == len(self.columns) > 1)

    def parse(self, text: str) -> Texts:
        line = text.rstrip("\r\n")
        return self.accept(line.split("\t") if len(self.columns) > 1 else line)

    def text(self, value: Texts) -> str:
        return "\t".join(value)

    def learn(self, run: RunFiles, values: Sequence[Texts], log: Report) -> Text:
        self.tokenizer = make_text_tokenizer(run, (text for texts in values for text in texts), log)
        return self

    def open(self, run: RunFiles) -> Text:
        self.tokenizer = load_tokenizer(run.tokenizers, "text")
        return self

    def hidden(self, value: Texts, row: EncodedRow) -> list[list[Hidden | None]]:
        variants = hidden_pieces(value, row, self.tokenizer.decode, separators=len(self._between))
        return [[variants[place] for place in part] for part in text_positions(row)] if self.separate else [variants]

    def encode(self, values: Sequence[Texts]) -> EncodedRows:
        pieces = iter(self.tokenizer.encode_lines([text for texts in values for text in texts]))
        rows, truncated, limit = [], [], self.max_length * self.max_windows
        for texts in values:
            parts = [next(pieces) for _ in texts]
            rows.append(self._row(texts, [part[:limit] for part in parts]))
            truncated.append(any(len(part) > limit for part in parts))
        return EncodedRows(rows, truncated)

    def _row(self, texts: Texts, parts: Sequence[Sequence[int]]) -> EncodedRow:
        first = (i for part in parts[:-1] for i in (*part, *self._between))
        row = np.array([BEGIN, *first, *in_windows(parts[-1], self.max_length), END], np.int64)
        if not self.subword_features:
            return row
        if self.tokenizer.config.kind == "word":  # the original words: unknown words have affixes, too
            words = [text.split()[: self.max_length * self.max_windows] for text in texts]
        else:
            words = [list(self.tokenizer.pieces(part)) for part in parts]
        return with_features(row, words, self.subword_features, matches=self.matches)

    def variants(self, values: Sequence[Texts]) -> list[list[EncodedRow]]:
        if not self.other_strand:
            return [[] for _ in values]
        return [[row] for row in self.encode([tuple(map(reverse_complement, texts)) for texts in values]).rows]

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        if not draws.visit:
            return rows[0]
        row = rows[-1] if len(rows) > 1 and draws.stream(STRAND).random() < 0.5 else rows[0]
        if not self.word_dropout:
            return row
        pieces = np.flatnonzero(is_piece(numbers_of(row)))
        return without(row, pieces[draws.stream(DROPOUT).random(len(pieces)) < self.word_dropout])

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        return split_texts(row) if self.separate else [row]

    def pad(self, rows: Sequence[EncodedRow]) -> Padded:
        values, valid = padded([part for row in rows for part in self.parts(row)])
        shape = (len(rows), len(self.columns))
        return Padded(values.unflatten(0, shape), valid.unflatten(0, shape)) if self.separate else Padded(values, valid)

    def unpad(self, row: EncodedRow, values: torch.Tensor) -> torch.Tensor:
        if not self.separate:
            return values[: len(row)]
        first, *rest = (numbers[: len(part)] for numbers, part in zip(values, self.parts(row), strict=True))
        return torch.cat([first, *(numbers[1:] for numbers in rest)])  # BEGIN is in each part, but once in the row

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        return tuple(self.tokenizer.pieces(numbers_of(row).tolist()))  # numbers of Python are faster

    def cost(self, value: Texts) -> int:
        length = sum(min(len(text) + 2, self.max_length * self.max_windows + 1) for text in value)
        return length * min(length, self.window or length)

"""Tokens of a sentence as pieces, with subword features and word dropout; long sentences have several rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, ClassVar

import numpy as np

from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, Padded, VisitDraws
from regard.core.observation import SurfaceKind
from regard.core.task import Report, RunFiles
from regard.core.untrusted_files import json_value
from regard.data.affixes import AFFIXES, affix_buckets
from regard.data.padding import padded
from regard.data.rows import Column, Row, tokens_of
from regard.data.tokenizers.catalog import load_tokenizer
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer
from regard.errors import DataError
from regard.fields.pieces import UNKNOWN_PIECE, hidden_tokens, numbers_of
from regard.fields.vocabularies import make_text_tokenizer

DROPOUT = 2  # random stream
Sentence = tuple[str, ...]


class Tokens(FieldBase):
    """Tokens with one answer each, as rows of BEGIN, the pieces of each token and END.

    The last column of a row is 1 at the first piece of each token, which has its answer. The network reads the other
    columns.

    Args:
        columns: the column of the tokens.
        max_length: maximum number of pieces of a row; a longer sentence has several rows of whole tokens.
        subword_features: number of hash buckets of the affixes of each token, stored with its first piece; 0: no
            features.
        word_dropout: share of the tokens whose first piece training replaces by UNKNOWN; their affixes are kept.
    """

    reads_json = True
    kind: ClassVar[SurfaceKind] = "tokens"
    hiding: ClassVar[str] = UNKNOWN_PIECE

    def __init__(
        self, columns: tuple[Column, ...], *, max_length: int, subword_features: int = 0, word_dropout: float = 0.0
    ) -> None:
        self.columns, self.max_length = columns, max_length
        self.subword_features, self.word_dropout = subword_features, word_dropout
        self.tokenizer: Tokenizer

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"types": len(self.tokenizer)}

    def value(self, row: Row) -> Sentence:
        return tokens_of(row, self.columns[0])

    def accept(self, value: str | Sequence[str], where: str | None = None) -> Sentence:
        tokens = value.split() if isinstance(value, str) else value
        if not isinstance(tokens, list | tuple) or [token for token in tokens if not isinstance(token, str)]:
            raise DataError("a sentence must be a text or a list of tokens", where=where, why=f"it is {tokens!r:.80}")
        return tuple(tokens)

    def is_value(self, value: Any) -> bool:
        return isinstance(value, str | tuple)

    def parse(self, text: str) -> Sentence:
        tokens = json_value(text)
        if not isinstance(tokens, list):
            return tuple(text.split())
        if not all(isinstance(token, str) and token.strip() for token in tokens):
            raise DataError("a token is empty or not a text", help="pass a text, or a JSON list of tokens")
        if any(len(token.splitlines()) > 1 for token in tokens):
            raise DataError("a token has several lines", help="pass a text, or a JSON list of tokens")
        return tuple(tokens)

    def text(self, value: Sentence) -> str:
        line = " ".join(value)
        plain = tuple(line.split()) == value and json_value(line) is None
        return line if plain else json.dumps(value, ensure_ascii=False)

    def learn(self, run: RunFiles, values: Sequence[Sentence], log: Report) -> Tokens:
        # Grouped by token, since the result of some tokenizers depends on the order of lines.
        self.tokenizer = make_text_tokenizer(run, Counter(t for tokens in values for t in tokens).elements(), log)
        return self

    def open(self, run: RunFiles) -> Tokens:
        self.tokenizer = load_tokenizer(run.tokenizers, "text")
        return self

    def hidden(self, value: Sentence, row: EncodedRow) -> list[list[Hidden | None]]:
        rows = enumerate(hidden_tokens(row))
        return [[Hidden(changed, (*value[:place], "", *value[place + 1 :])) for place, changed in rows]]

    def encode(self, values: Sequence[Sentence]) -> EncodedRows:
        space = " " if self.tokenizer.config.word_space else ""
        pieces = iter(self.tokenizer.encode_lines([space + token for tokens in values for token in tokens]))
        rows = [list(self._rows(tokens, [next(pieces) or [UNKNOWN] for _ in tokens])) for tokens in values]
        return EncodedRows([row for parts in rows for row in parts], [False] * len(values), [*map(len, rows)])

    def _rows(self, tokens: Sentence, pieces: Sequence[Sequence[int]]) -> Iterator[EncodedRow]:
        """Yield rows of whole tokens, each with up to ``max_length`` pieces and at least one token."""
        start = 0
        while start < len(tokens):
            end, length = start + 1, len(pieces[start])
            while end < len(tokens) and length + len(pieces[end]) <= self.max_length:
                length, end = length + len(pieces[end]), end + 1
            yield self._row(tokens[start:end], [part[: self.max_length] for part in pieces[start:end]])
            start = end

    def _row(self, tokens: Sentence, pieces: Sequence[Sequence[int]]) -> EncodedRow:
        numbers = [BEGIN, *chain.from_iterable(pieces), END]
        first = [*accumulate(map(len, pieces[:-1]), initial=1)]
        row = np.zeros((len(numbers), 2 + (AFFIXES if self.subword_features else 0)), np.int64)
        row[:, 0] = numbers
        row[first, -1] = 1
        if self.subword_features:
            row[first, 1:-1] = [affix_buckets(token, self.subword_features) for token in tokens]
        return row

    def augment(self, rows: Sequence[EncodedRow], draws: VisitDraws) -> EncodedRow:
        if not draws.visit or not self.word_dropout:
            return rows[0]
        row, first = rows[0].copy(), np.flatnonzero(rows[0][:, -1])
        row[first[draws.stream(DROPOUT).random(len(first)) < self.word_dropout], 0] = UNKNOWN
        return row

    def parts(self, row: EncodedRow) -> list[EncodedRow]:
        return [row[:, :-1] if self.subword_features else row[:, 0]]

    def pad(self, rows: Sequence[EncodedRow]) -> Padded:
        values, valid = padded(rows)
        inputs = values[..., :-1] if self.subword_features else values[..., 0]
        return Padded(inputs.contiguous(), valid, values[..., -1] == 1)

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        return tuple(self.tokenizer.pieces(numbers_of(row).tolist()))  # numbers of Python are faster

    def answers(self, row: EncodedRow) -> int:
        return int(row[:, -1].sum())

    def tokens(self, value: Sentence) -> tuple[str, ...]:
        return value

    def cost(self, value: Sentence) -> int:
        pieces = 2 + sum(map(len, value))
        return pieces * min(pieces, self.max_length + 2)

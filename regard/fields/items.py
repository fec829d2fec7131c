"""Items of a session as inputs; each position predicts the next item."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from regard.core.field import EncodedRow, EncodedRows, FieldBase, Hidden, Padded
from regard.core.observation import SurfaceKind
from regard.core.task import Report, RunFiles
from regard.core.untrusted_files import json_value
from regard.core.wording import pluralize
from regard.data.padding import padded
from regard.data.rows import Column, Row
from regard.data.sessions import ITEMS, require_items
from regard.data.tokenizers.tokenizer import BEGIN, SPECIALS, UNKNOWN, Tokenizer
from regard.errors import DataError
from regard.fields.vocabularies import item_numbers, learn_items, open_items

FORMS = "a session must be a text with spaces between items, or a {} of items"
Session = tuple[str, ...]

NEXT = ""  # in place of the item that follows a session; no item is empty


class Items(FieldBase):
    """A session as the items that precede each of its items, beginning with BEGIN: a ``ContinuedField``.

    Args:
        columns: the column of the items.
        max_length: items of a row; a longer session has several rows, each beginning with the preceding item.
        key: key of the list of items in JSON objects.
    """

    reads_json = True
    kind: ClassVar[SurfaceKind] = "items"
    hiding: ClassVar[str] = "left out, as unknown items are"

    def __init__(self, columns: tuple[Column, ...], *, max_length: int, key: str = ITEMS) -> None:
        self.columns, self.max_length, self.key = columns, max_length, key
        self.tokenizer: Tokenizer

    @property
    def sizes(self) -> Mapping[str, int]:
        return {"types": len(self.tokenizer)}

    def value(self, row: Row) -> Session:
        return require_items(row.cells[self.columns[0]], row.where)

    def accept(self, value: str | Sequence[str], where: str | None = None) -> Session:
        items: Any = value.split() if isinstance(value, str) else value
        if not _are_items(items):
            raise DataError(FORMS.format("list"), where=where, why=f"it is {value!r:.80}")
        return tuple(map(str, items))

    def is_value(self, value: Any) -> bool:
        return isinstance(value, str | tuple)

    def parse(self, text: str) -> Session:
        items: Any = json_value(text)
        if items is None:
            return tuple(text.split())
        if isinstance(items, dict):
            items = items.get(self.key)
        if not _are_items(items):
            raise DataError(FORMS.format("JSON list"))
        return tuple(map(str, items))

    def text(self, value: Session) -> str:
        line = " ".join(value)
        return line if json_value(line) is None else json.dumps(value, ensure_ascii=False)

    def learn(self, run: RunFiles, values: Sequence[Session], log: Report) -> Items:
        self.tokenizer = learn_items(run, values)
        items, events = len(self.tokenizer) - len(SPECIALS), sum(map(len, values))
        log(f"{pluralize(items, 'item')}, {pluralize(events, 'event')} in {pluralize(len(values), 'session')}")
        return self

    def open(self, run: RunFiles) -> Items:
        self.tokenizer = open_items(run)
        return self

    def encode(self, values: Sequence[Session]) -> EncodedRows:
        sessions = [self._rows(items) for items in values]
        return EncodedRows([row for rows in sessions for row in rows], [False] * len(values), [*map(len, sessions)])

    def _rows(self, items: Session) -> list[EncodedRow]:
        before = np.array([BEGIN, *item_numbers(self.tokenizer, items)[:-1]], np.int64)
        return [before[start : start + self.max_length] for start in range(0, len(items), self.max_length)]

    def continued(self, values: Sequence[Session]) -> EncodedRows:
        """Encode the known items of each session: BEGIN and the items, limited to the last ``max_length`` positions."""
        known = [item_numbers(self.tokenizer, items) for items in values]
        rows = [np.array([BEGIN, *numbers[numbers != UNKNOWN]], np.int64) for numbers in known]
        return EncodedRows([row[-self.max_length :] for row in rows], [len(row) > self.max_length for row in rows])

    def hidden(self, value: Session, row: EncodedRow) -> list[list[Hidden | None]]:
        known = self.extended(value)[:-1]
        first = len(known) - (len(row) - 1)  # of the items that the network reads
        rests = [(*known[:place], *known[place + 1 :]) for place in range(first, len(known))]
        return [[Hidden(changed, rest) for changed, rest in zip(self.continued(rests).rows, rests, strict=True)]]

    def extended(self, value: Session) -> Session:
        numbers = item_numbers(self.tokenizer, value)
        return (*(item for item, number in zip(value, numbers, strict=True) if number != UNKNOWN), NEXT)

    def pad(self, rows: Sequence[EncodedRow]) -> Padded:
        values, valid = padded(rows)
        return Padded(values, valid, valid)

    def labels(self, row: EncodedRow) -> tuple[str, ...]:
        return tuple(self.tokenizer.pieces(row.tolist()))

    def answers(self, row: EncodedRow) -> int:
        return len(row)

    def tokens(self, value: Session) -> tuple[str, ...]:
        return value

    def cost(self, value: Session) -> int:
        return min(len(value) + 1, self.max_length) ** 2


def _are_items(items: Any) -> bool:
    if not isinstance(items, list | tuple) or not all(isinstance(item, str | int) for item in items):
        return False
    return all(len(str(item).split()) == 1 for item in items)

"""Labelled texts as examples: batches of padded token numbers with their classes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.attention.mask import Span
from regard.core.randomness import example_generator
from regard.core.task import ExampleIndices
from regard.data.affixes import AFFIXES, affix_buckets
from regard.data.molecules import reverse_complement
from regard.data.order import each_once
from regard.data.padding import padded
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN, Tokenizer
from regard.tasks.classification.codecs import LabelCodec
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.data_config import LabelledDataConfig
from regard.tasks.classification.labelled_text import LabelledText
from regard.tasks.label_numbers import read_number

__all__ = [
    "LabelledBatch",
    "LabelledExamples",
    "TextRow",
    "encode_texts",
    "network_inputs",
    "pieces_of",
    "text_table",
    "texts_of",
]

STRAND, HIDDEN = 3, 4  # streams of draws
TextRow = npt.NDArray[np.int64]  # (columns,), or (columns, 1 + AFFIXES): BEGIN, then each text and END


class LabelledBatch(NamedTuple):
    """Padded texts and their labels; ``cost`` is what each row's loss is multiplied by; ``weight`` counts rows."""

    tokens: Tensor  # (rows, length), or (rows, length, 1 + AFFIXES); where texts are apart, (rows, texts, length …)
    valid: Tensor  # (rows, length), or (rows, texts, length)
    label: Tensor  # (rows,) classes, or numbers; or (rows, classes) 1 where a label is told
    cost: Tensor  # (rows,)
    unit: Tensor  # (rows,) what a deviation of numbers is
    index: Tensor  # type: ignore[assignment]  # (rows,); hides tuple.index
    weight: float


class LabelledExamples:
    """The labelled texts of files as ``core.task.Examples``, in memory."""

    def __init__(self, found: Sequence[LabelledText], config: ClassificationConfig, codec: LabelCodec) -> None:
        data, self._apart = config.data, config.model.pairs == "apart"
        self._tokens, self._seed = config.train.batch_tokens, config.seed
        self._places = [each.where for each in found]
        self.rows, self.cut = encode_texts(codec.tokenizer, [each.texts for each in found], config)
        self._other: list[TextRow] = []  # rows of the other strand
        if data.reverse_complement:
            strands = [[reverse_complement(text) for text in each.texts] for each in found]
            self._other, _ = encode_texts(codec.tokenizer, strands, config)
        self._hidden = data.hidden_tokens
        self.labels = _targets(found, data, codec)
        self._unit = 1.0 if codec.scale is None else codec.scale.deviation
        count = np.array(codec.labels.counts)
        self._costs = count.sum() / (len(count) * count) if data.class_weights == "balanced" else None
        self._lengths = np.fromiter(map(len, self.rows), np.int32, len(self.rows))

    def __len__(self) -> int:
        return len(self.rows)

    def batches(self, epoch: int | None) -> list[ExampleIndices]:
        """See ``core.task.Examples``: by like length, drawn from (seed, epoch)."""
        return each_once(self._lengths, self._tokens, seed=self._seed, epoch=epoch, where=self.where)

    def token_counts(self) -> npt.NDArray[np.int64]:
        return np.ones(len(self), np.int64)

    def collate(self, examples: ExampleIndices) -> LabelledBatch:
        places = zip(*map(np.ndarray.tolist, examples), strict=True)
        rows = [self._shown(index, visit) for index, visit in places]
        tokens, valid = text_table(rows, apart=self._apart)
        label = self.labels[examples.index]
        cost = np.ones(len(label)) if self._costs is None else self._costs[label]
        unit = np.full(len(label), self._unit)
        index = torch.from_numpy(np.asarray(examples.index, np.int64).copy())
        return LabelledBatch(
            tokens, valid, torch.from_numpy(label), torch.from_numpy(cost).float(), torch.from_numpy(unit), index,
            float(len(label)),
        )  # fmt: skip

    def _shown(self, index: int, visit: int) -> TextRow:
        """The row of an example, of either strand and some of its pieces unknown in training, drawn by the visit.

        Evaluation, whose visits are 0, has the texts as they are.
        """
        turned = self._other and visit and example_generator(self._seed, STRAND, index, visit).random() < 0.5
        row = (self._other if turned else self.rows)[index]
        if not self._hidden or not visit:
            return row
        told = np.flatnonzero(_of_words(pieces_of(row)))
        draws = example_generator(self._seed, HIDDEN, index, visit).random(len(told))
        hidden, row = told[draws < self._hidden], row.copy()
        row[hidden] = 0  # the affixes, too
        pieces_of(row)[hidden] = UNKNOWN
        return row

    def where(self, index: int) -> str:
        return self._places[index]

    def digest(self) -> str:
        """A sha256 of all that training sees of the examples."""
        whole = hashlib.sha256(self.labels.tobytes() + self._lengths.tobytes())
        whole.update(np.concatenate(self.rows).tobytes())
        return whole.hexdigest()


def _targets(
    found: Sequence[LabelledText], data: LabelledDataConfig, codec: LabelCodec
) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """(examples,) classes or deviations from the mean of training, or (examples, classes) 1 where a label is told."""
    if codec.scale is not None:
        return (
            np.array([read_number(each.labels, each.where) for each in found]) - codec.scale.mean
        ) / codec.scale.deviation
    numbers = codec.labels.numbers
    places = [[numbers.of(label, each.where) for label in each.labels] for each in found]
    if data.label_kind == "class":
        return np.array([place for (place,) in places], np.int64)
    table = np.zeros((len(found), len(numbers)))
    for row, chosen in zip(table, places, strict=True):
        row[chosen] = 1
    return table


def encode_texts(
    tokenizer: Tokenizer, examples: Sequence[Sequence[str]], config: ClassificationConfig
) -> tuple[list[TextRow], list[bool]]:
    """The row of each example, and whether one of its texts was cut to ``data.max_length`` pieces."""
    most, buckets = config.data.max_length, config.model.affixes
    pieces = iter(tokenizer.encode_lines([text for texts in examples for text in texts]))
    rows, cut = [], []
    for texts in examples:
        parts = [next(pieces) for _ in texts]
        row = np.array([BEGIN, *(piece for part in parts for piece in (*part[:most], END))], np.int64)
        spelled = _spelled(tokenizer, texts, parts, most) if buckets else []
        rows.append(_with_affixes(row, spelled, buckets))
        cut.append(any(len(part) > most for part in parts))
    return rows, cut


def _spelled(tokenizer: Tokenizer, texts: Sequence[str], parts: Sequence[Sequence[int]], most: int) -> list[str]:
    """The pieces that are read, in letters; words as they are written, whether they are known or not."""
    if tokenizer.config.kind == "word":
        return [word for text in texts for word in text.split()[:most]]
    return [spelled for part in parts for spelled in tokenizer.pieces(part[:most])]


def _with_affixes(row: TextRow, words: Sequence[str], buckets: int) -> TextRow:
    """The row with the affixes of what its pieces spell beside them; where there are no buckets, itself."""
    if not buckets:
        return row
    table = np.zeros((len(row), 1 + AFFIXES), np.int64)
    table[:, 0] = row
    if words:
        table[_of_words(row), 1:] = [affix_buckets(word, buckets) for word in words]
    return table


def _of_words(pieces: TextRow) -> npt.NDArray[np.bool_]:
    """Which columns are pieces of a text, unknown ones too."""
    found: npt.NDArray[np.bool_] = (pieces > END) | (pieces == UNKNOWN)
    return found


def pieces_of(row: TextRow) -> TextRow:
    """The pieces of a row, a view of it."""
    found: TextRow = row if row.ndim == 1 else row[:, 0]
    return found


def network_inputs(tokens: Tensor, valid: Tensor) -> tuple[Tensor, Span]:
    """Return a table of ``text_table`` as a classifier reads it: each text is a row."""
    return tokens.flatten(0, valid.dim() - 2), Span.of(valid.flatten(0, -2))


def text_table(rows: Sequence[TextRow], *, apart: bool) -> tuple[Tensor, Tensor]:
    """Tokens (rows, length) and which of them are valid; with texts ``apart`` (rows, texts, length).

    Where rows have affixes, tokens have one dimension more, of the piece and its affixes.
    """
    if not apart:
        return padded(rows)
    parts = [texts_of(row) for row in rows]
    tokens, valid = padded([text for texts in parts for text in texts])
    shape = (len(rows), len(parts[0]))
    return tokens.unflatten(0, shape), valid.unflatten(0, shape)


def texts_of(row: TextRow) -> list[TextRow]:
    """The texts of a row, each from BEGIN to END."""
    ends = [at + 1 for at, piece in enumerate(pieces_of(row).tolist()) if piece == END]
    starts = [1, *ends[:-1]]
    return [np.concatenate([row[:1], row[start:end]]) for start, end in zip(starts, ends, strict=True)]

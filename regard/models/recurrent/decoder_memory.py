"""Base of recurrent decoders: the memory of a sentence, and the state from step to step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from regard.attention.contract import Decoder, Encoded, Memory, Reader, RowMap, sentences
from regard.core.state import State, select
from regard.models.dropout import Dropout
from regard.models.input import Input
from regard.models.recurrent.bridge import Bridge
from regard.models.recurrent.stack import Layers, Stack


class RecurrentMemory(NamedTuple):
    """Memory of a recurrent decoder.

    ``source``: a reader's memory, or a summary; ``first``: the first state of the cells.
    """

    source: Memory
    first: Layers


class RecurrentState(NamedTuple):
    """State of a recurrent decoder, one row per hypothesis; it cannot be truncated, because cells keep no history.

    ``layers``: the tensors that each layer's cell carries. ``feed``: the previous output vector with input feeding,
    else (). ``reader``: the reader's state. ``length``: the position. ``rows``: the sentence that each row reads.
    """

    layers: Layers
    feed: State
    reader: State
    length: Int[Tensor, "rows"]
    rows: Int[Tensor, "rows"]


class RecurrentDecoder(Decoder):
    """Base of decoders of stacked cells, most of which attend to the source; a subclass implements ``forward``.

    ``embedding``: target tokens to (rows, length, width).
    ``cells``: the layers of cells.
    ``reader``: encoder-decoder attention; None if the decoder reads a summary only.
    ``bridge``: the encoder's summary to the first state of the cells.
    ``width``: width of the features.
    ``dropout``: probability, on the features.
    """

    reader: Reader

    def __init__(
        self,
        embedding: Input,
        cells: Stack,
        reader: Reader | None,
        bridge: Bridge,
        *,
        width: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding, self.cells = embedding, cells
        if reader is not None:
            self.reader = reader
        self.bridge, self.dropout, self.width = bridge, Dropout(dropout), width

    def prepare(self, encoded: Encoded) -> RecurrentMemory:
        return RecurrentMemory(self.reader.prepare(encoded), self.bridge(encoded.final))

    def start(self, memory: RecurrentMemory, rows: Int[Tensor, "rows"]) -> RecurrentState:
        reader = self.reader.start(memory.source, RowMap.of(rows, sentences(memory)))
        return RecurrentState(select(memory.first, rows), (), reader, torch.zeros_like(rows), rows)


def valid_columns(valid: Bool[Tensor, "rows length"]) -> list[Bool[Tensor, "rows"] | None]:
    """Return the mask of valid rows for each position; None where all rows are valid."""
    return [None] * valid.shape[1] if bool(valid.all()) else list(valid.unbind(1))

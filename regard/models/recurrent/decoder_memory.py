"""Base of recurrent decoders: the memory of a sentence, the first state of the cells, the state from step to step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Decoder, Encoded, Memory, Reader, RowMap, sentences
from regard.core.state import State, select
from regard.models.dropout import Dropout
from regard.models.input import Input
from regard.models.recurrent.stack import Layers, Stack


class Bridge(nn.Module, ABC):
    """Base of maps from ``final`` (sentences, summary) to the first state of a stack of cells."""

    @abstractmethod
    def forward(self, final: Float[Tensor, "sentences summary"]) -> Layers: ...


class LearnedState(Bridge):
    """h_0 = tanh(W final + b) in each layer; LSTM cells start at 0.

    (Bahdanau et al. 2015, A.2.2: s_0 = tanh(W_s ←h_1).) Differs from the paper in: W reads all last states
    of the encoder, not ←h_1 alone, and has a bias. Works with any encoder.
    """

    def __init__(self, summary: int, cells: Stack) -> None:
        super().__init__()
        self.parts, self.width = [cell.parts for cell in cells.layers], cells.width
        self.linear = nn.Linear(summary, len(self.parts) * self.width)

    def forward(self, final: Float[Tensor, "sentences summary"]) -> Layers:
        hidden = torch.tanh(self.linear(final)).chunk(len(self.parts), 1)
        return tuple(
            (first, *(torch.zeros_like(first) for _ in range(parts - 1)))
            for first, parts in zip(hidden, self.parts, strict=True)
        )


class CopiedState(Bridge):
    """First state copied from the encoder's last, hidden states and cells (Luong et al. 2015, Sutskever 2014).

    No parameters. Raises ValueError unless the encoder has one direction and layers and cells of equal sizes.
    """

    def __init__(self, summary: int, cells: Stack) -> None:
        super().__init__()
        self.parts, self.width = [cell.parts for cell in cells.layers], cells.width
        size = sum(self.parts) * self.width
        if summary != size:
            raise ValueError(
                f"the encoder's summary cannot be copied: it has {summary} numbers, and the cells require {size}"
            )

    def forward(self, final: Float[Tensor, "sentences summary"]) -> Layers:
        carried = iter(final.split(self.width, 1))
        return tuple(tuple(next(carried) for _ in range(parts)) for parts in self.parts)


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

"""Base classes and types of mechanisms, mixers, readers, encoders and decoders.

Names of dimensions, used throughout: **batch** (or **rows**), **heads** and **key_heads** (each serves one or more
heads), **query** and **key** (columns of queries and of keys), **length** (columns of one sequence), **width**
(features) and **key_width**, where a key's may differ from a query's, **prepared** (features of a prepared key) and
**prepared_heads**, **value** (features of a value per head), **sentences** (rows of an encoder's batch; several decoder
rows may read the same sentence), **types** (the vocabulary). Signatures give shapes, and tests check them: within one
call a name is one size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.mask import Bound
from regard.attention.span import Span
from regard.core.state import State, join, leaves, select

Memory = State  # prepared once per sentence, by a reader or a decoder; dimension 0 is the sentence


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """Abilities of a mechanism or mixer; a config that needs one it lacks is refused with that as the reason."""

    causal: bool  # may be used where a query must not see later columns
    cross: bool  # may be used between two sequences of different length
    stream: Literal["exact", "segment", "none"]  # does a sequence in pieces give what one pass gives?
    weights: bool  # can it return attention weights?
    order_free: bool  # is a query's result free of its position and of the queries before it?
    normalized: bool  # do the weights of a query sum to 1, unless all are 0?
    fused: bool  # can it compute without materializing the weights?
    may_see_nothing: bool = False  # may all weights of a query be 0 though the mask allows some keys?
    differentiable: bool = True  # are gradients the derivatives of the result?
    same_width: bool = False  # must a query be as wide as a key?
    values_only: bool = True  # is the context Σ α v, a sum of values alone?
    signed: bool = False  # may weights be negative?
    leaves_itself_out: bool = False  # may the result of a column that sees others be free of its own features?


class Attended(NamedTuple):
    """Context and weights of each query, and the new state; ``weights`` may be None where ``need_weights`` is False."""

    context: Float[Tensor, "batch heads query value"]
    weights: Float[Tensor, "batch heads query key"] | None
    state: State


class Mechanism(nn.Module, ABC):
    """Base of mechanisms: attention of queries to keys. One final class a file; no mechanism imports another."""

    by_column: ClassVar[bool] = False  # does the column of a key, whatever its position, change its energy?

    def __init__(self) -> None:
        super().__init__()
        self.weight_dropout: nn.Module | None = None

    def drop_weights(self, dropout: nn.Module) -> None:
        """Pass weights through ``dropout`` before they are applied to values, while training.

        The weights returned, and those in a state, are the ones before dropout.
        """
        self.weight_dropout = dropout

    @property
    def dropping(self) -> nn.Module | None:
        """Dropout of the weights while training; None in evaluation and where no dropout is set."""
        return self.weight_dropout if self.training else None

    @abstractmethod
    def can(self) -> Abilities:
        """Abilities of this mechanism."""

    def prepare(
        self, key: Float[Tensor, "batch key_heads key key_width"]
    ) -> Float[Tensor, "batch prepared_heads key prepared"]:
        """Prepared keys, which ``start`` and ``forward`` take: computed once a key; the keys themselves by default."""
        return key

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> State:
        """State before the first query; () for a mechanism without memory."""
        return ()

    def warning(self, longest: int) -> str | None:
        """Message if these options suit sources of at most ``longest`` pieces badly; None if they suit."""
        return None

    @abstractmethod
    def forward(
        self,
        query: Float[Tensor, "batch heads query width"],
        key: Float[Tensor, "batch prepared_heads key prepared"],
        value: Float[Tensor, "batch key_heads key value"],
        bound: Bound,
        state: State = (),
        *,
        need_weights: bool = False,
    ) -> Attended:
        """Context of every query, from the prepared keys and the values that ``bound`` allows."""


class Mixed(NamedTuple):
    """Output of a mixer or reader: features, the new state, attention weights if there are any, named losses.

    A loss is a sum over rows and columns, in units of a column's: training adds it to what it minimizes.
    """

    output: Float[Tensor, "batch length width"]
    state: State
    weights: Float[Tensor, "batch heads query key"] | None = None
    losses: dict[str, Float[Tensor, ""]] | None = None


class Mixer(nn.Module, ABC):
    """Base of layers' parts that mix the columns of one sequence: self-attention, a recurrent cell, a convolution, …

    ``carries``: whether the state keeps the size it starts with, so that training may carry it from update to update.
    """

    carries: ClassVar[bool] = False

    @property
    def packs(self) -> bool:
        """Return whether documents of one row, told apart by ``Span.segment``, are each what they are alone."""
        return False

    @property
    def obeys_limit(self) -> bool:
        """Return whether no column sees a position from its ``Span.visible_until`` on."""
        return False

    @abstractmethod
    def can(self) -> Abilities:
        """Abilities of this mixer."""

    @property
    def position_work(self) -> int:
        """Multiply-adds of a position that neither a weight nor the length of the sequence explains.

        A config's options decide them; so they are compared with the weights before a received model is built.
        """
        return 0

    @abstractmethod
    def start(self, rows: int) -> State:
        """State before the first column, for so many rows."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch length width"], span: Span, state: State) -> Mixed:
        """Mixed features of one column or more; ``span`` tells positions and padding."""


class Encoded(NamedTuple):
    """Output of an encoder.

    ``states``: one vector a column. ``embedded``: the input embeddings (ConvS2S reads states + embedded as values).
    ``final``: a summary a sentence, for a recurrent decoder's first state. ``span``: positions and padding.
    """

    states: Float[Tensor, "sentences length width"]
    embedded: Float[Tensor, "sentences length width"]
    final: Float[Tensor, "sentences summary"]
    span: Span


class Encoder(nn.Module, ABC):
    """Base of encoders. ``width``: features of a state; ``summary``: features of ``final``."""

    width: int
    summary: int

    @abstractmethod
    def forward(self, inputs: Shaped[Tensor, "sentences length *features"], span: Span) -> Encoded:
        """Encode a batch of sentences.

        Args:
            inputs: columns of tokens or floats, as the encoder's ``Input`` reads them.
            span: positions and padding of the columns, and how much of the sentence each may see.

        Raises:
            ValueError: the span has ``visible_until``, which the encoder cannot obey.
        """


class RowMap(NamedTuple):
    """Map from decoder rows to the sentences they read, so that many rows read one memory without a copy.

    ``scatter`` lays rows out as (sentences, width), where ``width`` is the most rows that any sentence has: one
    attention call serves a batch of any beam width, and projected keys are not copied.
    """

    sentence: Int[Tensor, "rows"]
    slot: Int[Tensor, "rows"] | None  # index into sentences·width; None when row i reads sentence i for all i
    sentences: int
    width: int

    @classmethod
    def of(cls, sentence: Int[Tensor, "rows"], sentences: int) -> RowMap:
        rows = len(sentence)
        if rows == sentences and torch.equal(sentence, torch.arange(rows, device=sentence.device)):
            return cls(sentence, None, sentences, 1)
        order = torch.argsort(sentence, stable=True)
        counts = torch.bincount(sentence, minlength=sentences)
        first = counts.cumsum(0) - counts
        rank = torch.empty_like(order)
        rank[order] = torch.arange(rows, device=sentence.device) - first[sentence[order]]
        width = int(counts.max()) if rows else 1
        return cls(sentence, sentence * width + rank, sentences, width)

    def scatter(self, x: Shaped[Tensor, "rows *rest"]) -> Shaped[Tensor, "sentences width *rest"]:
        """Scatter rows into (sentences, width), padded with zeros."""
        if self.slot is None:
            return x[:, None]
        out = x.new_zeros(self.sentences * self.width, *x.shape[1:])
        return out.index_copy(0, self.slot, x).unflatten(0, (self.sentences, self.width))

    def fold(self, span: Span) -> Span:
        """Span of queries laid out as by ``scatter``, the rows of a sentence end to end; TypeError for a graph."""
        span.refuse_edges()
        columns = {**span.fields(), "given_position": span.position, "valid": span.valid}
        laid: dict[str, Any] = {name: self.scatter(field).flatten(1, 2) for name, field in columns.items()}
        return span._replace(start=span.start.new_zeros(self.sentences), **laid)

    def gather(self, x: Shaped[Tensor, "sentences width *rest"]) -> Shaped[Tensor, "rows *rest"]:
        """Inverse of ``scatter``."""
        return x[:, 0] if self.slot is None else x.flatten(0, 1).index_select(0, self.slot)


class SourceKeys(NamedTuple):
    """Memory of most readers: keys and values of the source, projected and prepared once, and the span of the keys.

    Joined sentences are padded to the longest.
    """

    key: Float[Tensor, "sentences prepared_heads length prepared"]
    value: Float[Tensor, "sentences key_heads length value"]
    span: Span

    def join(self, states: Sequence[SourceKeys]) -> SourceKeys:
        span = join([state.span for state in states])
        keys, values = ([pad(x, (0, 0, 0, span.valid.shape[1] - x.shape[2])) for x in every]
                        for every in zip(*((s.key, s.value) for s in states), strict=True))  # fmt: skip
        return SourceKeys(torch.cat(keys), torch.cat(values), span)


class Reader(nn.Module, ABC):
    """Base of encoder-decoder attention of any kind. ``width``: features of the output."""

    width: int

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Memory:
        """Memory of each sentence, such as projected keys and values."""

    @abstractmethod
    def start(self, memory: Memory, rows: RowMap) -> State:
        """State of each row before the first query."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "rows length width"], span: Span, memory: Memory, rows: RowMap, state: State
    ) -> Mixed:
        """Source context of each query; row i reads the sentence that ``rows`` names, without a copy of memory."""


class Decoded(NamedTuple):
    """Features for the output projection, the new state, and losses as ``Mixed`` has them."""

    features: Float[Tensor, "rows length width"]
    state: State
    losses: dict[str, Float[Tensor, ""]] = {}  # noqa: RUF012  # never changed


class Decoder(nn.Module, ABC):
    """Base of decoders, which decide the order of mixing and reading. ``width``: of the features.

    Every state of a decoder has two fields (``Int[Tensor, "rows"]``), which ``select`` carries along: ``rows``, the
    sentence that each row reads, and ``length``, the columns that it has read.
    """

    width: int

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Memory:
        """Memory of each sentence, prepared once."""

    @abstractmethod
    def start(self, memory: Memory, rows: Int[Tensor, "rows"]) -> State:
        """State before the first token; row i reads sentence ``rows[i]``."""

    @abstractmethod
    def forward(
        self, inputs: Shaped[Tensor, "rows length *features"], span: Span, memory: Memory, state: State
    ) -> Decoded:
        """Return the features of the next tokens of every row, after one column or more.

        Args:
            inputs: columns of tokens, as the decoder's ``Input`` reads them.
            span: positions and padding of the columns, which continue from ``state.length``, and how much of the
                source each may see.
            memory: of the sentences, from ``prepare``.
            state: of the rows, before these columns.

        Raises:
            ValueError: the span has ``visible_until``, which the decoder cannot obey.
        """


def mean_state(states: Float[Tensor, "rows length width"], span: Span) -> Float[Tensor, "rows width"]:
    """Mean of the states of valid columns; 0 where there is none."""
    weight = span.valid[..., None].to(states.dtype)
    return (states * weight).sum(1) / weight.sum(1).clamp_min(1)


def sentences(memory: Memory) -> int:
    """Number of sentences in a memory."""
    return len(leaves(memory)[0])


def compact(memory: Memory, state: State) -> tuple[Memory, State]:
    """Drop the sentences that no row reads any more; the smaller memory and the state with rows renumbered."""
    kept, rows = torch.unique(state.rows, return_inverse=True)
    return select(memory, kept), state._replace(rows=rows)

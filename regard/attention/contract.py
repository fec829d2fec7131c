"""Base classes and types of mechanisms, mixers, readers, encoders and decoders.

Signatures give shapes, and tests check them: within one call a name is one size. Names of dimensions, used throughout:

- **batch** or **rows**: rows of a batch. **sentences**: rows of an encoder's batch; several decoder rows may read one.
- **heads**, and **key_heads**, each of which serves one or more heads.
- **query** and **key**: number of queries and of keys. **length**: number of positions of one sequence.
- **width**: features. **key_width**: features of a key, where they may differ from those of a query.
- **prepared** and **prepared_heads**: features and heads of a prepared key. **value**: features of a value per head.
- **types**: entries of the vocabulary.
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
    """Abilities of a mechanism or mixer; a config that requires a missing one is rejected with that as the reason.

    Attributes:
        causal: whether it may be used where a query must not see later positions.
        cross: whether it may be used between two sequences of different length.
        stream: whether the result of a sequence in pieces is that of one pass: always (``exact``), for whole segments
            (``segment``), or ``none``.
        weights: whether it can return attention weights.
        order_free: whether a query's result is independent of its position and of earlier queries.
        normalized: whether the weights of a query sum to 1, unless all are 0.
        fused: whether it can compute without a table of the weights.
        may_see_nothing: whether all weights of a query may be 0 although the mask allows some keys.
        differentiable: whether gradients are the derivatives of the result.
        same_width: whether a query must be as wide as a key.
        values_only: whether the context is Σ α v, a sum of values alone.
        signed: whether weights may be negative.
        excludes_self: whether the result of a position that sees others may be independent of its own features.
    """

    causal: bool
    cross: bool
    stream: Literal["exact", "segment", "none"]
    weights: bool
    order_free: bool
    normalized: bool
    fused: bool
    may_see_nothing: bool = False
    differentiable: bool = True
    same_width: bool = False
    values_only: bool = True
    signed: bool = False
    excludes_self: bool = False


class Attended(NamedTuple):
    """Result of a mechanism.

    Attributes:
        context: (batch, heads, query, value) the context of each query.
        weights: (batch, heads, query, key) its weights; may be None unless ``need_weights`` is set.
        state: the new state.
    """

    context: Float[Tensor, "batch heads query value"]
    weights: Float[Tensor, "batch heads query key"] | None
    state: State


class Mechanism(nn.Module, ABC):
    """Base of mechanisms: attention of queries to keys. One final class per file; no mechanism imports another."""

    by_key_index: ClassVar[bool] = False  # does a key's index in the tensor, not only its position, change its energy?

    def __init__(self) -> None:
        super().__init__()
        self.weight_dropout: nn.Module | None = None

    def drop_weights(self, dropout: nn.Module) -> None:
        """Apply ``dropout`` to the weights before they are multiplied by values, in training only.

        The returned weights, and those in a state, are the weights before dropout.
        """
        self.weight_dropout = dropout

    @property
    def dropping(self) -> nn.Module | None:
        """Dropout of the weights in training; None in evaluation or without dropout."""
        return self.weight_dropout if self.training else None

    @abstractmethod
    def can(self) -> Abilities:
        """Return the abilities of this mechanism."""

    def prepare(
        self, key: Float[Tensor, "batch key_heads key key_width"]
    ) -> Float[Tensor, "batch prepared_heads key prepared"]:
        """Return prepared keys for ``start`` and ``forward``, computed once per key; by default the keys themselves."""
        return key

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> State:
        """Return the state before the first query; () for a mechanism without memory."""
        return ()

    def warning(self, longest: int) -> str | None:
        """Return a warning if these options do not suit sources of up to ``longest`` tokens, else None."""
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
        """Return the context of every query, from the prepared keys and the values that ``bound`` allows."""


class Mixed(NamedTuple):
    """Output of a mixer or reader.

    Attributes:
        output: (batch, length, width) features.
        state: the new state.
        weights: (batch, heads, query, key) attention weights; None if they are not computed.
        losses: named losses, each a sum over rows and positions. Training adds it to the loss per position that it
            minimizes.
    """

    output: Float[Tensor, "batch length width"]
    state: State
    weights: Float[Tensor, "batch heads query key"] | None = None
    losses: dict[str, Float[Tensor, ""]] | None = None


class Mixer(nn.Module, ABC):
    """Base of layers that mix the positions of one sequence: self-attention, a recurrent cell, a convolution, …

    ``carries``: whether the size of the state stays constant, so training can carry it from update to update.
    """

    carries: ClassVar[bool] = False

    @property
    def packs(self) -> bool:
        """Return whether packed documents, separated by ``Span.segment``, give the same results as separate rows."""
        return False

    @property
    def obeys_limit(self) -> bool:
        """Return whether no query sees a position at or after its ``Span.visible_until``."""
        return False

    @abstractmethod
    def can(self) -> Abilities:
        """Return the abilities of this mixer."""

    @property
    def position_work(self) -> int:
        """Multiply-adds per position that follow from neither the weights nor the sequence length.

        They depend on options of a config. Before a received model is built, they are therefore compared with its
        weights.
        """
        return 0

    @abstractmethod
    def start(self, rows: int) -> State:
        """Return the state before the first position, for this number of rows."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch length width"], span: Span, state: State) -> Mixed:
        """Return the mixed features of one or more positions; ``span`` has their positions and padding."""


class Encoded(NamedTuple):
    """Output of an encoder.

    Attributes:
        states: one vector per position.
        embedded: the input embeddings (ConvS2S reads states + embedded as values).
        final: one summary per sentence, for the first state of a recurrent decoder.
        span: positions and padding.
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
            inputs: tokens or float features, as the encoder's ``Input`` reads them.
            span: positions and padding of the inputs, and how much of the sentence each position may see.

        Raises:
            ValueError: the span has ``visible_until``, which the encoder cannot obey.
        """


class RowMap(NamedTuple):
    """Map from decoder rows to the sentences they read: many rows read one memory without a copy.

    ``scatter`` arranges rows as (sentences, width). One attention call then serves any beam width, and projected keys
    are not copied.

    Attributes:
        sentence: (rows,) the sentence that each row reads.
        slot: index into sentences·width; None when row i reads sentence i for all i.
        sentences: the number of sentences.
        width: the maximum number of rows per sentence.
    """

    sentence: Int[Tensor, "rows"]
    slot: Int[Tensor, "rows"] | None
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
        """Return the span of queries in the layout of ``scatter``, the rows of a sentence concatenated.

        Raises TypeError for a span with edges.
        """
        span.refuse_edges()
        fields = {**span.fields(), "given_position": span.position, "valid": span.valid}
        folded: dict[str, Any] = {name: self.scatter(field).flatten(1, 2) for name, field in fields.items()}
        return span._replace(start=span.start.new_zeros(self.sentences), **folded)

    def gather(self, x: Shaped[Tensor, "sentences width *rest"]) -> Shaped[Tensor, "rows *rest"]:
        """Invert ``scatter``."""
        return x[:, 0] if self.slot is None else x.flatten(0, 1).index_select(0, self.slot)


class SourceKeys(NamedTuple):
    """Memory of most readers: keys and values of the source, projected and prepared once.

    Joined sentences are padded to the longest.

    Attributes:
        key: (sentences, prepared heads, length, prepared) prepared keys.
        value: (sentences, key heads, length, value) values.
        span: positions and padding of the keys.
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
    """Base of encoder-decoder attention. ``width``: features of the output."""

    width: int

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Memory:
        """Return the memory of each sentence, such as projected keys and values."""

    @abstractmethod
    def start(self, memory: Memory, rows: RowMap) -> State:
        """Return the state of each row before the first query."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "rows length width"], span: Span, memory: Memory, rows: RowMap, state: State
    ) -> Mixed:
        """Return the source context of each query; row i reads its sentence in ``rows``, without a copy of memory."""


class Decoded(NamedTuple):
    """Output of a decoder.

    Attributes:
        features: (rows, length, width) for the output projection.
        state: the new state.
        losses: as in ``Mixed``.
    """

    features: Float[Tensor, "rows length width"]
    state: State
    losses: dict[str, Float[Tensor, ""]] = {}  # noqa: RUF012  # never mutated


class Decoder(nn.Module, ABC):
    """Base of decoders, which decide the order of mixing and reading. ``width``: features of the output.

    Every state of a decoder has two fields (``Int[Tensor, "rows"]``), which ``select`` carries along. ``rows``: the
    sentence that each row reads. ``length``: the number of positions that the row has read.
    """

    width: int

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Memory:
        """Return the memory of each sentence, prepared once."""

    @abstractmethod
    def start(self, memory: Memory, rows: Int[Tensor, "rows"]) -> State:
        """Return the state before the first token; row i reads sentence ``rows[i]``."""

    @abstractmethod
    def forward(
        self, inputs: Shaped[Tensor, "rows length *features"], span: Span, memory: Memory, state: State
    ) -> Decoded:
        """Return the features of the next tokens of every row, after one or more positions.

        Args:
            inputs: tokens, as the decoder's ``Input`` reads them.
            span: positions and padding of the inputs, which continue from ``state.length``, and how much of the source
                each may see.
            memory: of the sentences, from ``prepare``.
            state: of the rows, before these inputs.

        Raises:
            ValueError: the span has ``visible_until``, which the decoder cannot obey.
        """


def mean_state(states: Float[Tensor, "rows length width"], span: Span) -> Float[Tensor, "rows width"]:
    """Return the mean of the states of valid positions; 0 for a row without one."""
    weight = span.valid[..., None].to(states.dtype)
    return (states * weight).sum(1) / weight.sum(1).clamp_min(1)


def sentences(memory: Memory) -> int:
    """Return the number of sentences in a memory."""
    return len(leaves(memory)[0])


def compact(memory: Memory, state: State) -> tuple[Memory, State]:
    """Drop the sentences that no row reads any more.

    Returns the smaller memory, and the state with its rows renumbered.
    """
    used, rows = torch.unique(state.rows, return_inverse=True)
    return select(memory, used), state._replace(rows=rows)

"""The types every mechanism, mixer, reader and decoder is written against, fixed before any of them.

One legend of dimensions, used throughout: **batch** (or **rows**), **heads** and **key_heads** (each serves one or
more heads), **query** and **key** (columns of the asking and of the answering side), **length** (columns of one
sequence), **width** (features) and **key_width**, where a key's may differ from a query's, **prepared** (features of
what a mechanism makes of a key, once) and **prepared_heads**, **value** (features of a value per head), **sentences**
(rows of an encoder's batch; several decoder rows may read the same sentence), **types** (the vocabulary). Shapes stand
in the signatures, and the tests check them: within one call a word is one size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.mask import Bound, Span
from regard.core.state import State, leaves, select

__all__ = [
    "Abilities", "Attended", "Decoded", "Decoder", "Encoded", "Encoder", "Mechanism", "Memory", "Mixed", "Mixer",
    "Reader", "RowMap", "SourceKeys", "compact", "sentences",
]  # fmt: skip

Memory = State  # what a reader prepares once per sentence; dimension 0 is the sentence


@dataclass(frozen=True, kw_only=True)
class Abilities:
    """What a mechanism or mixer can do; a recipe that asks for more is refused with this as the reason."""

    causal: bool  # may serve where a query must not see what comes after it
    cross: bool  # may serve between two sequences of different length
    stream: Literal["exact", "segment", "none"]  # does feeding pieces equal one pass?
    weights: bool  # can it say where it looked?
    order_free: bool  # does a query's answer depend on neither its position nor the queries before it?
    normalised: bool  # do the weights of a query that looks somewhere sum to 1?
    fused: bool  # does it have a path that never materialises its weights?
    may_see_nothing: bool = False  # may a query look nowhere though the mask lets it look?
    differentiable: bool = True  # are its gradients the derivatives of what it computes?
    same_width: bool = False  # must a query be as wide as a key?
    values_only: bool = True  # is its context Σ α v, of nothing but the values?


class Attended(NamedTuple):
    """Each query's context, its weights and the new state; ``weights`` is None only when nobody asked for it."""

    context: Float[Tensor, "batch heads query value"]
    weights: Float[Tensor, "batch heads query key"] | None
    state: State


class Mechanism(nn.Module, ABC):
    """How much each query attends to each key. One final class a file; no mechanism imports another."""

    def __init__(self) -> None:
        super().__init__()
        self.weight_dropout: nn.Module | None = None

    def drop_weights(self, dropout: nn.Module) -> None:
        """While training, pass weights through ``dropout`` before they read the values.

        The weights that come out, and those a state remembers, are the ones before it.
        """
        self.weight_dropout = dropout

    @property
    def dropping(self) -> nn.Module | None:
        """Dropout of the weights while training; None in evaluation, or where nothing is dropped."""
        return self.weight_dropout if self.training else None

    @abstractmethod
    def can(self) -> Abilities: ...

    def prepare(
        self, key: Float[Tensor, "batch key_heads key key_width"]
    ) -> Float[Tensor, "batch prepared_heads key prepared"]:
        """What the methods below take for keys, made once a key however many queries ask: the key itself, or more."""
        return key

    def start(self, key: Float[Tensor, "batch prepared_heads key prepared"], bound: Bound) -> State:
        """The state before the first query: () for the memoryless majority."""
        return ()

    def warning(self, longest: int) -> str | None:
        """What is odd, though not wrong, about this mechanism over at most ``longest`` keys; None: nothing."""
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
        """The context of every query, from the prepared keys and the values that ``bound`` lets it see."""


class Mixed(NamedTuple):
    """What comes out, the new state, the weights if asked for, and named losses of its own."""

    output: Float[Tensor, "batch length width"]
    state: State
    weights: Float[Tensor, "batch heads query key"] | None = None
    losses: dict[str, Float[Tensor, ""]] | None = None


class Mixer(nn.Module, ABC):
    """Carries or restructures one sequence: self-attention, a recurrent cell, a gated convolution, …"""

    @abstractmethod
    def can(self) -> Abilities: ...

    @abstractmethod
    def start(self, rows: int) -> State: ...

    @abstractmethod
    def forward(self, x: Float[Tensor, "batch length width"], span: Span, state: State) -> Mixed:
        """One column or more; ``span`` says which positions these are and which are padding."""


class Encoded(NamedTuple):
    """What an encoder leaves of its sentences.

    ``states``; ``embedded``, its input embeddings (ConvS2S reads states + embedded as values); ``final``, a summary
    for a recurrent decoder's first state; the span of the columns.
    """

    states: Float[Tensor, "sentences length width"]
    embedded: Float[Tensor, "sentences length width"]
    final: Float[Tensor, "sentences summary"]
    span: Span


class Encoder(nn.Module, ABC):
    """Reads sources. ``width`` is that of its states, ``summary`` that of its ``final``."""

    width: int
    summary: int

    @abstractmethod
    def forward(self, tokens: Int[Tensor, "sentences length"], valid: Bool[Tensor, "sentences length"]) -> Encoded:
        """Read each sentence once; ``valid`` is False for padding."""


class RowMap(NamedTuple):
    """Which sentence each row reads, in a form that lets many rows read one memory without copying it.

    Queries are laid out as (sentences, width) with ``width`` the most rows any sentence has: one attention call per
    batch, whatever the beams, with the projected keys used where they are.
    """

    sentence: Int[Tensor, "rows"]
    slot: Int[Tensor, "rows"] | None  # into sentences·width; None when row i reads sentence i and no other
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
        """RowMap to where their sentence keeps them, zeros where a sentence has fewer rows."""
        if self.slot is None:
            return x[:, None]
        out = x.new_zeros(self.sentences * self.width, *x.shape[1:])
        return out.index_copy(0, self.slot, x).unflatten(0, (self.sentences, self.width))

    def gather(self, x: Shaped[Tensor, "sentences width *rest"]) -> Shaped[Tensor, "rows *rest"]:
        """The inverse of ``scatter``."""
        return x[:, 0] if self.slot is None else x.flatten(0, 1).index_select(0, self.slot)


class SourceKeys(NamedTuple):
    """What most readers remember: keys and values of the source, projected and prepared once.

    Joined sentences are padded to the longest.
    """

    key: Float[Tensor, "sentences prepared_heads length prepared"]
    value: Float[Tensor, "sentences key_heads length value"]
    valid: Bool[Tensor, "sentences length"]

    def join(self, states: Sequence[SourceKeys]) -> SourceKeys:
        longest = max(state.valid.shape[1] for state in states)
        padded = [
            (pad(s.key, (0, 0, 0, extra)), pad(s.value, (0, 0, 0, extra)), pad(s.valid, (0, extra)))
            for s in states
            for extra in [longest - s.valid.shape[1]]
        ]
        return SourceKeys(*(torch.cat(parts) for parts in zip(*padded, strict=True)))


class Reader(nn.Module, ABC):
    """Reads an encoder's states from a decoder: encoder-decoder attention of any kind.

    ``width`` is that of what it brings back.
    """

    width: int

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Memory:
        """Once per sentence: projected keys and values."""

    @abstractmethod
    def start(self, memory: Memory, rows: RowMap) -> State:
        """The reader's state before the first query, for each row."""

    @abstractmethod
    def forward(
        self, query: Float[Tensor, "rows length width"], span: Span, memory: Memory, rows: RowMap, state: State
    ) -> Mixed:
        """Each row reads the sentence that ``rows`` names; nothing is copied."""


class Decoded(NamedTuple):
    """``features``, ready for the output projection, and the new state."""

    features: Float[Tensor, "rows length width"]
    state: State


class Decoder(nn.Module, ABC):
    """Owns the order of mixing and reading, and the position. Every state it makes has a field ``rows``

    (``Int[Tensor, "rows"]``): the sentence each row reads, so that ``select`` carries it along. ``width`` is that of
    its features.
    """

    width: int

    @abstractmethod
    def prepare(self, encoded: Encoded) -> Memory: ...

    @abstractmethod
    def start(self, memory: Memory, rows: Int[Tensor, "rows"]) -> State: ...

    @abstractmethod
    def forward(
        self,
        tokens: Int[Tensor, "rows length"],
        memory: Memory,
        state: State,
        *,
        valid: Bool[Tensor, "rows length"] | None = None,
    ) -> Decoded:
        """The next tokens of every row, one column or more, of which ``valid``, a prefix of each row, count."""


def sentences(memory: Memory) -> int:
    """How many sentences a memory holds."""
    return len(leaves(memory)[0])


def compact(memory: Memory, state: State) -> tuple[Memory, State]:
    """Drop the sentences that no row reads any more."""
    kept, rows = torch.unique(state.rows, return_inverse=True)
    return select(memory, kept), state._replace(rows=rows)

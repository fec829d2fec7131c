"""Modules that are traced for ONNX: an encoder, and one step of a decoder, with separate tensors as inputs and outputs.

The state excludes the mask of the source and the sentence of each row, because the caller knows them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Memory
from regard.attention.key_value import KeyValue
from regard.attention.span import Span
from regard.core.state import State
from regard.models.encoder_decoder import EncoderDecoder, Session
from regard.models.recurrent.decoder_memory import RecurrentMemory
from regard.share.onnx_trace import data_free


class Cache(NamedTuple):
    """A ``KeyValue`` whose rows are all at the same step: new positions are last, and all positions are valid."""

    key: Float[Tensor, "batch prepared_heads past prepared"]
    value: Float[Tensor, "batch key_heads past value"]

    def append(
        self,
        key: Float[Tensor, "batch prepared_heads length prepared"],
        value: Float[Tensor, "batch key_heads length value"],
        span: Span,
    ) -> Cache:
        return Cache(torch.cat([self.key, key], 2), torch.cat([self.value, value], 2))

    @property
    def span(self) -> Span:
        return Span.of(torch.ones_like(self.key[:, 0, :, 0], dtype=torch.bool))


class DecoderStart(NamedTuple):
    """Memory and state of a session, as trees of the tensors that a step needs."""

    memory: Memory
    state: State

    @classmethod
    def of(cls, session: Session) -> DecoderStart:
        memory = session.memory
        if isinstance(memory, RecurrentMemory):
            memory = memory._replace(first=())  # only needed to compute the first state
        return cls(_without_spans(memory), _with_caches(_without_rows(session.state)))

    def session(self, valid: Tensor) -> Session:
        """Return the session in which row i reads sentence i; the inverse of ``of``."""
        rows = torch.arange(valid.shape[0])
        return Session(_with_spans(self.memory, Span.of(valid)), self.state._replace(rows=rows), valid.shape[0])

    def after(self, session: Session) -> DecoderStart:
        """Return the same memory with the state of a later session."""
        return self._replace(state=_without_rows(session.state))


def named(tree: State, name: str) -> dict[str, Tensor]:
    """Return every tensor of a tree by its path, depth first."""
    if isinstance(tree, Tensor):
        return {name: tree}
    fields = getattr(tree, "_fields", range(len(tree)))
    return {
        path: leaf
        for field, child in zip(fields, tree, strict=True)
        for path, leaf in named(child, f"{name}.{field}").items()
    }


def filled(like: State, tensors: Iterator[Tensor]) -> State:
    """Return a tree with the structure of ``like`` and with ``tensors``, depth first."""
    return next(tensors) if isinstance(like, Tensor) else _rebuilt(like, [filled(child, tensors) for child in like])


class EncoderPart(nn.Module):
    """The encoder: (source, valid) → the tensors of the memory and of the first state."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Int[Tensor, "batch source"], valid: Bool[Tensor, "batch source"]) -> tuple[Tensor, ...]:
        with data_free():
            start = DecoderStart.of(self.model.session(source, Span.of(valid)))
        return tuple(named(start, "").values())


class StepPart(nn.Module):
    """A decoder step: (tokens, valid, memory …, state …) → log-probabilities of the next token, and the new state."""

    def __init__(self, model: EncoderDecoder, like: DecoderStart) -> None:
        super().__init__()
        self.model, self.like = model, like

    def forward(
        self, tokens: Int[Tensor, "batch"], valid: Bool[Tensor, "batch source"], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        start: DecoderStart = filled(self.like, iter(tensors))
        with data_free():
            log_p, session = self.model.step(tokens[:, None], start.session(valid))
        return log_p[:, 0], *named(start.after(session).state, "").values()


def _without_rows(state: Any) -> State:
    return state._replace(rows=())


def _with_caches(state: State) -> State:
    """Return the state with a ``Cache`` instead of every ``KeyValue``."""
    if isinstance(state, Tensor):
        return state
    if isinstance(state, KeyValue):
        return Cache(state.key, state.value)
    return _rebuilt(state, [_with_caches(child) for child in state])


def _without_spans(tree: State) -> State:
    """Return the tree with () instead of spans, which all cover whole sources."""
    if isinstance(tree, Tensor):
        return tree
    return () if isinstance(tree, Span) else _rebuilt(tree, [_without_spans(child) for child in tree])


def _with_spans(tree: State, span: Span) -> State:
    """Return the tree with ``span`` in every empty field of that name; the inverse of ``_without_spans``."""
    if isinstance(tree, Tensor):
        return tree
    if getattr(tree, "span", None) == ():
        return tree._replace(span=span)
    return _rebuilt(tree, [_with_spans(child, span) for child in tree])


def _rebuilt(like: tuple[Any, ...], children: list[State]) -> State:
    make = getattr(type(like), "_make", tuple)  # a NamedTuple keeps its type
    return make(children)

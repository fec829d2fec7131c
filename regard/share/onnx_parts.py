"""What is traced for ONNX: an encoder, and one step of a decoder, that take and give tensors one by one.

Nothing is given twice: which source columns are valid and which sentence a row reads is known outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Memory
from regard.attention.heads import KeyValue
from regard.attention.mask import Span
from regard.core.state import State
from regard.models.encoder_decoder import EncoderDecoder, Session
from regard.models.recurrent.decoder_memory import RecurrentMemory
from regard.share.onnx_trace import answered

__all__ = ["Cache", "Opened", "OpeningPart", "SteppingPart", "filled", "named"]


class Cache(NamedTuple):
    """``KeyValue`` of rows that go in step: what is new comes last, and all of it counts."""

    key: Float[Tensor, "batch prepared_heads past prepared"]
    value: Float[Tensor, "batch key_heads past value"]

    def append(
        self,
        key: Float[Tensor, "batch prepared_heads length prepared"],
        value: Float[Tensor, "batch key_heads length value"],
        valid: Bool[Tensor, "batch length"],
    ) -> Cache:
        return Cache(torch.cat([self.key, key], 2), torch.cat([self.value, value], 2))

    def span(self) -> Span:
        return Span.of(torch.ones_like(self.key[:, 0, :, 0], dtype=torch.bool))


class Opened(NamedTuple):
    """Memory and state of a session as trees of just those tensors that a step cannot do without."""

    memory: Memory
    state: State

    @classmethod
    def of(cls, session: Session, valid: Tensor) -> Opened:
        memory = session.memory
        if isinstance(memory, RecurrentMemory):
            memory = memory._replace(first=())  # the state has begun
        return cls(_without(memory, valid), _in_step(_bare(session.state)))

    def session(self, valid: Tensor) -> Session:
        """The inverse of ``of``: each row reads its own sentence."""
        rows = torch.arange(valid.shape[0])
        return Session(_with(self.memory, valid), self.state._replace(rows=rows), valid.shape[0])

    def after(self, session: Session) -> Opened:
        """The same memory, and the state of a session that went on."""
        return self._replace(state=_bare(session.state))


def named(tree: State, name: str) -> dict[str, Tensor]:
    """Every tensor of a tree, depth first, by the path that leads to it."""
    if isinstance(tree, Tensor):
        return {name: tree}
    fields = getattr(tree, "_fields", range(len(tree)))
    return {
        path: leaf
        for field, child in zip(fields, tree, strict=True)
        for path, leaf in named(child, f"{name}.{field}").items()
    }


def filled(like: State, tensors: Iterator[Tensor]) -> State:
    """A tree of that form with other tensors, depth first."""
    return next(tensors) if isinstance(like, Tensor) else _made(like, [filled(child, tensors) for child in like])


class OpeningPart(nn.Module):
    """(source, valid) → the tensors of memory and first state."""

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Int[Tensor, "batch source"], valid: Bool[Tensor, "batch source"]) -> tuple[Tensor, ...]:
        with answered():
            opened = Opened.of(self.model.session(source, valid), valid)
        return tuple(named(opened, "").values())


class SteppingPart(nn.Module):
    """(tokens, valid, memory …, state …) → log-probabilities of what comes next, and the tensors of the new state."""

    def __init__(self, model: EncoderDecoder, like: Opened) -> None:
        super().__init__()
        self.model, self.like = model, like

    def forward(
        self, tokens: Int[Tensor, "batch"], valid: Bool[Tensor, "batch source"], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        opened: Opened = filled(self.like, iter(tensors))
        with answered():
            log_p, session = self.model.step(tokens[:, None], opened.session(valid))
        return log_p[:, 0], *named(opened.after(session).state, "").values()


def _bare(state: Any) -> State:
    return state._replace(rows=())


def _in_step(state: State) -> State:
    """The state with a ``Cache`` wherever keys and values are kept."""
    if isinstance(state, Tensor):
        return state
    if isinstance(state, KeyValue):
        return Cache(state.key, state.value)
    return _made(state, [_in_step(child) for child in state])


def _without(tree: State, known: Tensor) -> State:
    if isinstance(tree, Tensor):
        return () if tree is known else tree
    return _made(tree, [_without(child, known) for child in tree])


def _with(tree: State, known: Tensor) -> State:
    """The inverse of ``_without``, whose only such field is called ``valid``."""
    if isinstance(tree, Tensor):
        return tree
    whole = tree._replace(valid=known) if getattr(tree, "valid", None) == () else tree
    return _made(whole, [_with(child, known) for child in whole])


def _made(like: tuple[Any, ...], children: list[State]) -> State:
    make = getattr(type(like), "_make", tuple)  # a NamedTuple keeps its type
    return make(children)

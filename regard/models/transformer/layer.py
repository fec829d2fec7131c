"""Layer of a Transformer on either side: residual branches around mixer, reader and feed-forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.contract import Encoded, Memory, Mixed, Mixer, Reader, RowMap
from regard.attention.span import Span
from regard.core.state import State
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward, in_chunks
from regard.models.transformer.norms import Residual

Features = Float[Tensor, "rows length width"]
Losses = dict[str, Float[Tensor, ""]]


class LayerState(NamedTuple):
    """States of a layer's mixer and reader; () for a stateless one."""

    mixer: State
    reader: State = ()


class LayerResult(NamedTuple):
    """Results of a layer in addition to its features: the next state, and named losses of its mixer."""

    state: LayerState
    losses: Losses = {}  # noqa: RUF012  # never mutated


class Branch(NamedTuple):
    """One residual branch of a layer: a sub-layer, and the frame of norm, dropout and sum around it."""

    frame: Residual
    part: Callable[[Features], Mixed]

    def joined(self, x: Features) -> Mixed:
        """Return x after the branch, with the sub-layer's new state."""
        mixed = self.part(self.frame.before(x))
        return mixed._replace(output=self.frame.join(x, mixed.output))

    def difference(self, x: Features) -> Mixed:
        """Return the features that a pre-norm branch adds to x, with the sub-layer's new state."""
        mixed = self.part(self.frame.before(x))
        return mixed._replace(output=self.frame.dropout(mixed.output))


class TransformerLayer(nn.Module):
    """Mixer of one sequence, optional reader of another, and feed-forward (Vaswani et al. 2017, §3.1).

    Args:
        mixer: self-attention, or a mixer that replaces it.
        reader: attention to the encoder's states; None in an encoder and in a language model.
        feed_forward: two or three linear maps, applied to each position.
        frames: residual connection and norm around each of these, in this order.
        embedding_residual: start from λ x + μ e, e the embeddings of the stack, λ and μ learned from 1 and 0. No layer
            then has to carry the token's identity (Jordan et al. 2024, modded-nanogpt, which calls e x0).
        feed_forward_chunks: number of pieces of a sequence that the feed-forward processes one by one.
    """

    def __init__(
        self,
        mixer: Mixer,
        reader: Reader | None,
        feed_forward: FeedForward | GatedFeedForward,
        frames: tuple[Residual, ...],
        *,
        embedding_residual: bool = False,
        feed_forward_chunks: int = 1,
    ) -> None:
        super().__init__()
        self.mixer, self.reader, self.feed_forward = mixer, reader, feed_forward
        self.around_mixer, *around_reader, self.around_feed_forward = frames
        if around_reader:
            (self.around_reader,) = around_reader
        self.feed_forward_chunks = feed_forward_chunks
        self.start_mix = nn.Parameter(torch.tensor([1.0, 0.0])) if embedding_residual else None

    def prepare(self, encoded: Encoded) -> Memory:
        """Return the reader's memory of each sentence; () without a reader."""
        return () if self.reader is None else self.reader.prepare(encoded)

    def start(self, rows: int, memory: Memory = (), read_by: RowMap | None = None) -> LayerState:
        """Return the state before the first position of ``rows`` rows, which read ``memory`` through ``read_by``."""
        reader_state = () if self.reader is None or read_by is None else self.reader.start(memory, read_by)
        return LayerState(self.mixer.start(rows), reader_state)

    @property
    def branch_count(self) -> int:
        """Number of residual branches."""
        return 2 if self.reader is None else 3

    def result(self, states: list[State], losses: Losses | None = None) -> LayerResult:
        """Return the result of the layer from the states of its branches."""
        return LayerResult(LayerState(*states[:-1]), losses or {})  # the feed-forward's is ()

    def forward(
        self,
        x: Features,
        span: Span,
        memory: Memory = (),
        rows: RowMap | None = None,
        state: LayerState | None = None,
        embedded: Features | None = None,
        values: Float[Tensor, "rows length value"] | None = None,
        only: int | None = None,
    ) -> tuple[Features, LayerResult | State]:
        """Return the features after the layer, and its result; without a state, x is the first piece of the sequence.

        ``embedded``: input of the first layer of the stack; default: x. ``values``: value embeddings, for a mixer that
        adds them. ``only``: index of a branch; return its difference and its state instead.
        """
        if self.start_mix is not None:
            x = self.start_mix[0] * x + self.start_mix[1] * (x if embedded is None else embedded)
        states: list[State] = []
        losses: Losses = {}
        # Call the method of the class: with sharded weights, the instance's wrapper frees the gathered weights on exit.
        before = type(self).start(self, len(x)) if state is None else state
        branches = self.branches(span, memory, rows, before, values)
        if only is not None:
            single = branches[only].difference(x)
            if single.losses:
                raise ValueError("a mixer with losses cannot run as a single branch: set execution = plain")
            return single[:2]
        for branch in branches:
            mixed = branch.joined(x)
            x = mixed.output
            states.append(mixed.state)
            losses = added_losses(losses, mixed.losses or {})
        return x, self.result(states, losses)

    def branches(
        self,
        span: Span,
        memory: Memory,
        rows: RowMap | None,
        state: LayerState,
        values: Float[Tensor, "rows length value"] | None = None,
    ) -> list[Branch]:
        """Return the residual branches in order, for this span and these states."""
        added = () if values is None else (values,)  # only self-attention takes them
        own, reader = self._own_span(span), self.reader
        branches = [Branch(self.around_mixer, lambda x: self.mixer(x, own, state.mixer, *added))]
        if reader is not None:
            branches.append(Branch(self.around_reader, lambda x: reader(x, span, memory, rows, state.reader)))
        chunks = self.feed_forward_chunks
        last = Branch(self.around_feed_forward, lambda x: Mixed(in_chunks(self.feed_forward, x, chunks), ()))
        return [*branches, last]

    def _own_span(self, span: Span) -> Span:
        """Return the span for the mixer: with a reader, ``visible_until`` limits the source only."""
        if self.reader is not None and isinstance(span.visible_until, Tensor):
            return span._replace(visible_until=())
        if not self.mixer.obeys_limit:
            span.refuse_limit(self.mixer)
        return span


def added_losses(one: Losses, other: Losses) -> Losses:
    """Return the losses by name; losses of the same name are summed."""
    return one | {name: one[name] + loss if name in one else loss for name, loss in other.items()}


def stack_results(results: Iterable[LayerResult]) -> tuple[tuple[LayerState, ...], Losses]:
    """Return the states of the layers of a stack, and the sums of their losses."""
    results = tuple(results)
    return tuple(result.state for result in results), reduce(added_losses, (result.losses for result in results), {})

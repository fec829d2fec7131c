"""Layer of a Transformer on either side: branches, each a part inside a residual frame."""

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

Columns = Float[Tensor, "rows length width"]
Losses = dict[str, Float[Tensor, ""]]


class LayerState(NamedTuple):
    """States of a layer's mixer and reader; () where a part has none."""

    mixer: State
    reader: State = ()


class LayerResult(NamedTuple):
    """Results of a layer beside its columns: the state after them, and the losses that its parts name."""

    state: LayerState
    losses: Losses = {}  # noqa: RUF012  # never changed


class Branch(NamedTuple):
    """One residual branch of a layer: a part, and the frame of norm, dropout and sum around it."""

    frame: Residual
    part: Callable[[Columns], Mixed]

    def joined(self, x: Columns) -> Mixed:
        """x after the branch, with the part's new state."""
        mixed = self.part(self.frame.before(x))
        return mixed._replace(output=self.frame.join(x, mixed.output))

    def difference(self, x: Columns) -> Mixed:
        """Columns that a pre-norm layer's branch adds to x, with the part's new state."""
        mixed = self.part(self.frame.before(x))
        return mixed._replace(output=self.frame.dropout(mixed.output))


class TransformerLayer(nn.Module):
    """Mixer of one sequence, reader of another where there is one, feed-forward (Vaswani et al. 2017, §3.1).

    Args:
        mixer: self-attention, or what stands in its place.
        reader: attention to the encoder's states; None in an encoder and in a language model.
        feed_forward: two or three linear maps, column by column.
        frames: residual connection and norm around each of the parts, in this order.
        embedding_residual: start from λ x + μ e, e the embeddings of the stack, λ and μ learned from 1 and 0. No
            layer then has to carry the token's identity (Jordan et al. 2024, modded-nanogpt, which calls e x0).
        feed_forward_chunks: pieces that the columns go through the feed-forward in, one after the other.
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
        """Memory of each sentence that the reader reads; () without one."""
        return () if self.reader is None else self.reader.prepare(encoded)

    def start(self, rows: int, memory: Memory = (), read_by: RowMap | None = None) -> LayerState:
        """State before the first column of so many rows, which read ``memory`` as ``read_by`` says."""
        reading = () if self.reader is None or read_by is None else self.reader.start(memory, read_by)
        return LayerState(self.mixer.start(rows), reading)

    @property
    def branch_count(self) -> int:
        """Number of residual branches."""
        return 2 if self.reader is None else 3

    def result(self, states: list[State], losses: Losses | None = None) -> LayerResult:
        """Result of the layer from the states of its branches."""
        return LayerResult(LayerState(*states[:-1]), losses or {})  # the feed-forward's is ()

    def forward(
        self,
        x: Columns,
        span: Span,
        memory: Memory = (),
        rows: RowMap | None = None,
        state: LayerState | None = None,
        embedded: Columns | None = None,
        values: Float[Tensor, "rows length value"] | None = None,
        only: int | None = None,
    ) -> tuple[Columns, LayerResult | State]:
        """Columns after the layer, and its result beside them; without a state they are the first.

        ``embedded``: what the first layer of the stack was given; x unless given. ``values``: value embeddings, for a
        mixer that adds them. ``only``: number of a branch; what it adds to x, and the state of its part.
        """
        if self.start_mix is not None:
            x = self.start_mix[0] * x + self.start_mix[1] * (x if embedded is None else embedded)
        states: list[State] = []
        losses: Losses = {}
        # The class's: where ranks share weights, the instance's drops them at its end, as a call from outside must.
        before = type(self).start(self, len(x)) if state is None else state
        branches = self.branches(span, memory, rows, before, values)
        if only is not None:
            alone = branches[only].difference(x)
            if alone.losses:
                raise ValueError("a branch alone has no place for losses of its mixer: execution = plain has one")
            return alone[:2]
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
        """Residual branches in their order, for these columns and states."""
        added = () if values is None else (values,)  # which self-attention alone takes
        own, reader = self._own_span(span), self.reader
        found = [Branch(self.around_mixer, lambda x: self.mixer(x, own, state.mixer, *added))]
        if reader is not None:
            found.append(Branch(self.around_reader, lambda x: reader(x, span, memory, rows, state.reader)))
        chunks = self.feed_forward_chunks
        last = Branch(self.around_feed_forward, lambda x: Mixed(in_chunks(self.feed_forward, x, chunks), ()))
        return [*found, last]

    def _own_span(self, span: Span) -> Span:
        """Span of the columns as the mixer reads it: where a reader reads the source, that alone is limited."""
        if self.reader is not None and isinstance(span.visible_until, Tensor):
            return span._replace(visible_until=())
        if not self.mixer.obeys_limit:
            span.refuse_limit(self.mixer)
        return span


def added_losses(one: Losses, other: Losses) -> Losses:
    """Losses by name, those of the same name summed."""
    return one | {name: one[name] + loss if name in one else loss for name, loss in other.items()}


def stack_results(results: Iterable[LayerResult]) -> tuple[tuple[LayerState, ...], Losses]:
    """The states of the layers of a stack, and their losses together."""
    found = tuple(results)
    return tuple(each.state for each in found), reduce(added_losses, (each.losses for each in found), {})

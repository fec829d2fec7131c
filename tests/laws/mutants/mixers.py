"""Mixers that are wrong on purpose."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from regard.attention.contract import Mixed
from regard.attention.heads import SelfAttention
from regard.attention.key_value import KeyValue
from regard.attention.mask import Causal, Global, Mask, Padding, VisibleUntil, Window
from regard.attention.mechanisms.dot import Dot
from regard.attention.positions.distance_bias import Alibi
from regard.attention.positions.forgetting import ForgetGate, ForgettingBias
from regard.attention.positions.rotary import Rotary
from regard.core.state import State, select
from regard.models.convolutional.gated_convolution import GatedConvolution
from regard.models.transformer.average_attention import AverageAttention
from regard.models.transformer.hashed import HashedAttention
from regard.models.transformer.segment_memory import SegmentMemory
from regard.models.transformer.ssru import SimpleRecurrent

from ..cases import HEADS, MECHANISMS, PACKED, SIZES, WIDTH, bold, heads

CAUSAL = Causal() & Padding()


def _attention(kind: type[SelfAttention], mask: Mask = CAUSAL) -> SelfAttention:
    return kind(heads(MECHANISMS["dot"](SIZES)), mask=mask)


class Forgetful(SelfAttention):
    """Keeps the field ``lost`` of its keys' span as if it were 0 for all."""

    lost = "segment"

    def forward(self, x, span, state):
        mixed = super().forward(x, span, state)
        kept = mixed.state.span
        blank = {name: torch.zeros_like(field) for name, field in kept.fields().items() if name == self.lost}
        return mixed._replace(state=mixed.state._replace(span=kept._replace(**blank)))


class ForgetsPositions(Forgetful):
    """Keeps no given positions."""

    lost = "given_position"


class ForgetsGlobal(Forgetful):
    """Keeps no mark of global columns."""

    lost = "is_global"


class SumsAnew(ForgetGate):
    """Its sums start anew in every piece."""

    def forward(self, x, span, past):
        return super().forward(x, span, past._replace(decay=()))


class SumsOfLastSlot(ForgetGate):
    """Goes on from the last slot of the cache, whether it holds a key or not."""

    def forward(self, x, span, past):
        return super().forward(x, span, past._replace(valid=torch.ones_like(past.valid)))


def _forgetting(gate: type[ForgetGate], mask: Mask = CAUSAL) -> SelfAttention:
    return SelfAttention(heads(Dot(bias=ForgettingBias())), mask=mask, forget=bold(gate(WIDTH, HEADS)))


class SeesEmptySlots(SelfAttention):
    """Leaves it to positions to hide the slots of its cache that hold no key."""

    def __init__(self, attention, *, mask):
        super().__init__(attention, mask=mask)
        self.cached = mask


class LooksAcross(SelfAttention):
    """Sees the documents before its own."""

    def forward(self, x, span, state):
        return super().forward(x, span._replace(segment=torch.zeros_like(span.segment)), state)


class PeeksAhead(SelfAttention):
    """Its queries stand one position late, so each sees the next token."""

    def forward(self, x, span, state):
        late = span._replace(start=span.start + 1)
        fresh = super().forward(x, span, state)
        key, value = self.attention.keys_values(x)
        if state.key.shape[2]:
            return fresh
        bound = self.mask.bind(late, span)
        return fresh._replace(output=self.attention(self.attention.queries(x), key, value, bound).output)


class StaleCache(SelfAttention):
    """Forgets to hand on the last piece."""

    def forward(self, x, span, state):
        mixed = super().forward(x, span, state)
        return mixed._replace(state=state if state.key.shape[2] else mixed.state)


class StuckCache(KeyValue):
    """Truncates nothing, and selects nothing."""

    def truncate(self, length: Tensor) -> KeyValue:
        return self

    def select(self, rows: Tensor) -> KeyValue:
        return StuckCache(*select(tuple(self), torch.arange(len(rows)) % len(self.length)))

    def repeat(self, times: int) -> KeyValue:
        return StuckCache(*select(tuple(self), torch.arange(len(self.length)).repeat(times)))

    def join(self, states) -> KeyValue:
        joined = super().join(states)
        return joined._replace(span=joined.span._replace(valid=joined.span.valid.flip(0)))


class Stuck(SelfAttention):
    """Keeps a ``StuckCache``."""

    def start(self, rows):
        return StuckCache(*super().start(rows))

    def forward(self, x, span, state):
        mixed = super().forward(x, span, KeyValue(*state))
        return mixed._replace(state=StuckCache(*mixed.state))


class CountsPadding(SelfAttention):
    """Writes padded columns into the cache, and counts them."""

    def forward(self, x, span, state):
        mixed = super().forward(x, span, state)
        columns = torch.arange(mixed.state.key.shape[2])
        counted = mixed.state.span._replace(valid=columns < (state.length + x.shape[1])[:, None])
        return mixed._replace(state=mixed.state._replace(span=counted))


class TurnsByColumn(Rotary):
    """Every piece begins at position 0."""

    def forward(self, x, position):
        return super().forward(x, position - position[:, :1])


class FirstRowsDistances(Alibi):
    """Takes the distances of the first row for those of all."""

    def forward(self, query, bound):
        return super().forward(query, bound)[:1]


class LooksAtPadding(SelfAttention):
    """An encoder's attention that has forgotten the padding."""

    def forward(self, x, span, state):
        return super().forward(x, span._replace(valid=torch.ones_like(span.valid)), state)


class ZeroPast(GatedConvolution):
    """Every piece begins after zeros."""

    def forward(self, x: Tensor, span, state: State) -> Mixed:
        return super().forward(x, span, torch.zeros_like(state))


class PaddedPast(GatedConvolution):
    """Remembers the last columns, padded or not."""

    def forward(self, x: Tensor, span, state: State) -> Mixed:
        mixed = super().forward(x, span, state)
        return mixed._replace(state=torch.cat([state, x], 1)[:, -(self.kernel - 1) :])


class Centered(GatedConvolution):
    """Sees as far ahead as back."""

    def forward(self, x: Tensor, span, state: State) -> Mixed:
        return super().forward(torch.cat([x[:, 1:], torch.zeros_like(x[:, :1])], 1), span, state)


class Detached(GatedConvolution):
    """No gradient through the gate's input."""

    def forward(self, x: Tensor, span, state: State) -> Mixed:
        mixed = super().forward(x, span, state)
        return mixed._replace(output=mixed.output + (x - x.detach()).mean(-1, keepdim=True))


class HalfLoaded(GatedConvolution):
    """Loads its bias alone."""

    def load_state_dict(self, state_dict, strict=True, assign=False):
        return super().load_state_dict({"convolution.bias": state_dict["convolution.bias"]}, strict=False)


class CellOfPadding(SimpleRecurrent):
    """Its cell takes padded columns in."""

    def forward(self, x, span, state):
        return super().forward(x, span._replace(valid=torch.ones_like(span.valid)), state)


class MeanOfColumns(AverageAttention):
    """Divides by the columns of this piece, not by all that a row has met."""

    def forward(self, x, span, state):
        mixed = super().forward(x, span, state._replace(seen=torch.zeros_like(state.seen)))
        return mixed._replace(state=mixed.state._replace(seen=mixed.state.seen + state.seen))


def _packing(mixer: HashedAttention) -> HashedAttention:
    """With the mask by which a mutant says that documents are kept apart."""
    mixer.mask = PACKED
    return mixer


class SaysChunksAreExact(HashedAttention):
    """Claims that chunks, whose bounds later columns move, give what one pass gives."""

    def can(self):
        return replace(super().can(), stream="exact")


class SortsDocumentsTogether(HashedAttention):
    """Looks at columns of its bucket in other documents of the row."""

    def forward(self, x, span, state):
        return super().forward(x, span._replace(segment=()), state)


class BordersOfPieces(SegmentMemory):
    """Takes every piece for a segment."""

    def forward(self, x, span, state):
        mixed = super().forward(x, span, state)
        moved, _ = self._moved(mixed.state, torch.ones_like(mixed.state.read, dtype=torch.bool))
        return mixed._replace(state=moved._replace(read=-(-mixed.state.read // self.segment) * self.segment))


class BlockOfPadding(SegmentMemory):
    """Counts padded columns as read."""

    def forward(self, x, span, state):
        return super().forward(x, span._replace(valid=torch.ones_like(span.valid)), state)


class KeepsPadding(SegmentMemory):
    """Writes padding into the block of rows that stand at different columns, where what comes next overwrites it."""

    def _extended(self, x, valid, offset, block):
        return super()._extended(x, torch.ones_like(valid), offset, block)


MUTANTS = {
    "keeps-padding": (lambda: bold(KeepsPadding(WIDTH, heads=2, segment=3, memory=2)), "padding_leaves_no_trace"),
    "chunks-that-stream": (lambda: SaysChunksAreExact(WIDTH, heads=HEADS, buckets=2, chunk=2, nearest=False), "chunk"),
    "sorts-documents-together": (lambda: _packing(SortsDocumentsTogether(WIDTH, heads=HEADS, buckets=2)), "packed"),
    "borders-of-pieces": (lambda: bold(BordersOfPieces(WIDTH, heads=2, segment=2, memory=2)), "chunk"),
    "block-of-padding": (lambda: bold(BlockOfPadding(WIDTH, heads=2, segment=2, memory=2)), "batched"),
    "forgets-segments": (lambda: _attention(Forgetful, PACKED), "chunk"),
    "loses-segments": (lambda: _attention(Forgetful, PACKED), "packed"),
    "forgets-positions": (lambda: _attention(ForgetsPositions, PACKED & Window(1)), "packed"),
    "forgets-global": (lambda: _attention(ForgetsGlobal, Causal() & Padding() & (Window(0) | Global())), "chunk"),
    "sees-empty-slots": (lambda: _attention(SeesEmptySlots, Causal() & VisibleUntil()), "chunk"),
    "looks-across": (lambda: _attention(LooksAcross, PACKED), "packed"),
    "leaky-causal": (lambda: _attention(PeeksAhead), "causal"),
    "stale-cache": (lambda: _attention(StaleCache), "chunk"),
    "stuck-truncate": (lambda: _attention(Stuck), "truncated"),
    "stuck-select": (lambda: _attention(Stuck), "reorder"),
    "stuck-repeat": (lambda: _attention(Stuck), "repeated"),
    "stuck-join": (lambda: _attention(Stuck), "joined"),
    "cache-counts-padding": (lambda: _attention(CountsPadding), "batched"),
    "looks-at-padding": (lambda: LooksAtPadding(heads(MECHANISMS["dot"](SIZES)), mask=Padding()), "batched"),
    "turns-by-column": (
        lambda: SelfAttention(heads(MECHANISMS["dot"](SIZES)), mask=Causal() & Padding(), rotary=TurnsByColumn(4)),
        "chunk",
    ),
    "first-rows-distances": (
        lambda: SelfAttention(heads(Dot(bias=FirstRowsDistances())), mask=Causal() & Padding()),
        "joined",
    ),
    "sums-anew": (lambda: _forgetting(SumsAnew), "chunk"),
    "sums-anew-in-packs": (lambda: _forgetting(SumsAnew, PACKED), "chunk"),
    "sums-of-padded-slots": (lambda: _forgetting(SumsOfLastSlot), "batched"),
    "sums-of-unwritten-slots": (lambda: _forgetting(SumsOfLastSlot, PACKED), "joined"),
    "zero-past": (lambda: ZeroPast(WIDTH, kernel=3), "chunk"),
    "padded-past": (lambda: PaddedPast(WIDTH, kernel=3), "batched"),
    "centered": (lambda: Centered(WIDTH, kernel=3), "causal"),
    "half-loaded": (lambda: HalfLoaded(WIDTH, kernel=3), "saved"),
    "cell-of-padding": (lambda: CellOfPadding(WIDTH), "batched"),
    "mean-of-columns": (lambda: MeanOfColumns(WIDTH), "chunk"),
    "false-gradient": (lambda: Detached(WIDTH, kernel=3), "differentiable"),
}

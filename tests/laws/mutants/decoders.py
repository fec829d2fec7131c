"""Decoders that are wrong on purpose."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.contract import Decoded, RowMap
from regard.attention.heads import AttentionReader
from regard.attention.mask import Causal, Padding
from regard.attention.span import Span
from regard.core.state import select
from regard.models.recurrent.decoder_memory import LearnedState, RecurrentState
from regard.models.recurrent.decoders import BahdanauDecoder, InputFeedingDecoder, LuongDecoder
from regard.models.recurrent.stack import Stack
from regard.models.transformer.feed_forward import FeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm
from regard.models.transformer.transformer import TransformerDecoder, TransformerState

from ..cases import (
    MECHANISMS,
    SIZES,
    SUMMARY,
    WIDTH,
    SinusoidalPosition,
    attention,
    embedding,
    heads,
    single_reader,
    stack,
    wait_k,
    words,
)  # fmt: skip


def _transformer(
    kind: type[TransformerDecoder] = TransformerDecoder, read: type[AttentionReader] = AttentionReader
) -> TransformerDecoder:
    frames = tuple(PostNorm(WIDTH, dropout=0.0) for _ in range(3))
    reader = read(heads(MECHANISMS["dot"](SIZES)))
    layer = TransformerLayer(attention(Causal() & Padding()), reader, FeedForward(WIDTH, WIDTH), frames)
    return kind(embedding(SinusoidalPosition(WIDTH)), [layer], nn.Identity())


def _luong(kind: type[InputFeedingDecoder]) -> InputFeedingDecoder:
    cells = stack("lstm", 5 + WIDTH, 2)
    return kind(words(), cells, single_reader("local-p"), LearnedState(SUMMARY, cells))


def _bahdanau(kind: type[BahdanauDecoder]) -> BahdanauDecoder:
    cells = stack("gru-before", 5 + WIDTH, 1)
    return kind(words(), cells, single_reader("additive"), LearnedState(SUMMARY, cells), readout=WIDTH)


class OffByOne(TransformerDecoder):
    """Every piece but the first begins one position late."""

    def forward(self, inputs, span, memory, state):
        decoded = super().forward(inputs, span, memory, state)
        length = torch.where(state.length == 0, decoded.state.length + 1, decoded.state.length)
        return decoded._replace(state=decoded.state._replace(length=length))


class CountsColumns(TransformerDecoder):
    """Its position counts padded columns."""

    def forward(self, inputs, span, memory, state):
        decoded = super().forward(inputs, span, memory, state)
        return decoded._replace(state=decoded.state._replace(length=state.length + inputs.shape[1]))


class OneClock(TransformerDecoder):
    """All rows stand at the position of the first."""

    def forward(self, inputs, span, memory, state):
        same = state._replace(length=state.length[:1].expand_as(state.length))
        decoded = super().forward(inputs, span._replace(start=same.length), memory, same)
        return decoded._replace(state=decoded.state._replace(length=state.length + inputs.shape[1]))


class HalfTruncated(TransformerState):
    """Turns the position back, but not the caches."""

    def truncate(self, length: Tensor) -> TransformerState:
        return self._replace(length=torch.minimum(self.length, length))


class HalfTruncating(TransformerDecoder):
    """Keeps a ``HalfTruncated``."""

    def forward(self, inputs, span, memory, state):
        decoded = super().forward(inputs, span, memory, state)
        return decoded._replace(state=HalfTruncated(*decoded.state))


class ReadsNeighbor(AttentionReader):
    """Hands the rows of a sentence their answers in the wrong order."""

    def forward(self, query, span, memory, rows, state):
        wrong = rows if rows.slot is None else rows._replace(slot=rows.slot.flip(0))
        mixed = super().forward(query, span, memory, rows, state)
        if rows.slot is None:
            return mixed
        return mixed._replace(output=wrong.gather(rows.scatter(mixed.output)))


class ReadsByRow(AttentionReader):
    """Row i reads sentence i, whatever ``rows`` says."""

    def forward(self, query, span, memory, rows, state):
        own = RowMap.of(torch.arange(len(query)) % rows.sentences, rows.sentences)
        return super().forward(query, span, memory, own, state)


class LooksAtSourcePadding(AttentionReader):
    """Reads the padding of the source."""

    def prepare(self, encoded):
        memory = super().prepare(encoded)
        return memory._replace(span=memory.span._replace(valid=torch.ones_like(memory.span.valid)))


class SeesAll(AttentionReader):
    """Reads the whole source, however much of it a token may see."""

    def forward(self, query, span, memory, rows, state):
        return super().forward(query, span._replace(visible_until=()), memory, rows, state)


class FoldsWithoutSpan(AttentionReader):
    """Lets every folded query see as much of the source as the latest of them."""

    def _fold(self, span, rows):
        folded = super()._fold(span, rows)
        return folded._replace(visible_until=torch.ones_like(folded.visible_until) * span.visible_until.max())


class FrozenRows(TransformerDecoder):
    """Forgets which sentence a row reads as soon as rows move."""

    def forward(self, inputs, span, memory, state):
        still = state._replace(rows=torch.arange(len(inputs)) % len(memory[0].span.valid))
        decoded = super().forward(inputs, span, memory, still)
        return decoded._replace(state=decoded.state._replace(rows=state.rows))


class SeesTheEnd(TransformerDecoder):
    """Adds the mean embedding of all tokens it is given."""

    def forward(self, inputs, span, memory, state):
        decoded = super().forward(inputs, span, memory, state)
        mean = self.embedding.embed(inputs, torch.zeros_like(inputs)).mean(1, keepdim=True)
        return decoded._replace(features=decoded.features + mean)


class NoFeeding(InputFeedingDecoder):
    """Input feeding within a piece, but not from one to the next."""

    def forward(self, inputs, span, memory, state):
        return super().forward(inputs, span, memory, state._replace(feed=torch.zeros_like(state.feed)))


class PaddingAdvances(InputFeedingDecoder):
    """Padded steps run the cell."""

    def forward(self, inputs, span, memory, state):
        return super().forward(inputs, Span.without_padding(inputs, state.length), memory, state)


class RunsOn(Stack):
    """Whole sequences run through the cells to the end of their padding."""

    def run(self, x, length, state):
        return super().run(x, torch.full_like(length, x.shape[1]), state)


class AsksWithTheFirst(BahdanauDecoder):
    """Every token of a piece reads the source with the state before the piece."""

    def forward(self, inputs, span, memory, state):
        decoded = super().forward(inputs, span, memory, state)
        first = super().forward(inputs[:, :1], span.columns(0, 1), memory, state)
        return decoded._replace(features=first.features.expand_as(decoded.features) + decoded.features)


class StaleHidden(InputFeedingDecoder):
    """RowMap move, what the lowest layer carries does not."""

    def forward(self, inputs, span, memory, state) -> Decoded:
        decoded = super().forward(inputs, span, memory, state)
        return decoded._replace(state=Unmoved(*decoded.state))


class HalfSaved(InputFeedingDecoder):
    """Leaves its bridge out of what is saved."""

    def state_dict(self, *arguments, **options):
        kept = super().state_dict(*arguments, **options)
        return {name: tensor for name, tensor in kept.items() if not name.startswith("bridge")}

    def load_state_dict(self, state_dict, strict=True, assign=False):
        with torch.no_grad():
            self.bridge.linear.weight.zero_()
        return super().load_state_dict(state_dict, strict=False, assign=assign)


class Unmoved(RecurrentState):
    def select(self, rows: Tensor) -> RecurrentState:
        kept = torch.arange(len(rows)) % len(self.rows)
        layers = (select(self.layers[0], kept), *select(self.layers[1:], rows))
        return RecurrentState(layers, *select(tuple(self[1:]), rows))

    def repeat(self, times: int) -> RecurrentState:
        kept = torch.arange(len(self.rows)).repeat(times)
        moved = self.select(torch.arange(len(self.rows)).repeat_interleave(times))
        return moved._replace(layers=(select(self.layers[0], kept), *moved.layers[1:]))


def _runs_on() -> LuongDecoder:
    cells = RunsOn(list(stack("lstm", 5, 1).layers))
    return LuongDecoder(words(), cells, single_reader("dot-unscaled"), LearnedState(SUMMARY, cells))


MUTANTS = {
    "off-by-one-position": (lambda: _transformer(OffByOne), "chunk"),
    "counts-columns": (lambda: _transformer(CountsColumns), "ragged"),
    "one-clock": (lambda: _transformer(OneClock), "joined"),
    "half-truncated": (lambda: _transformer(HalfTruncating), "truncated"),
    "reads-neighbor": (lambda: _transformer(read=ReadsNeighbor), "shared"),
    "reads-by-row": (lambda: _transformer(read=ReadsByRow), "shared"),
    "reads-by-row-compacted": (lambda: _transformer(read=ReadsByRow), "compacted"),
    "folds-without-span": (lambda: wait_k(FoldsWithoutSpan), "shared"),
    "sees-all": (lambda: _transformer(read=SeesAll), "limited"),
    "folds-without-limit": (lambda: _transformer(read=FoldsWithoutSpan), "limited"),
    "frozen-rows": (lambda: _transformer(FrozenRows), "reorder"),
    "looks-at-source-padding": (lambda: _transformer(read=LooksAtSourcePadding), "batched"),
    "sees-the-end": (lambda: _transformer(SeesTheEnd), "causal"),
    "half-saved": (lambda: _luong(HalfSaved), "saved"),
    "no-feeding": (lambda: _luong(NoFeeding), "chunk"),
    "padding-advances": (lambda: _luong(PaddingAdvances), "ragged"),
    "runs-on": (_runs_on, "ragged"),
    "asks-with-the-first": (lambda: _bahdanau(AsksWithTheFirst), "chunk"),
    "stale-state": (lambda: _luong(StaleHidden), "reorder"),
    "stale-repeat": (lambda: _luong(StaleHidden), "repeated"),
}

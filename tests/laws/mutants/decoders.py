"""Decoders that are wrong on purpose."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.attention.contract import Decoded, Rows
from regard.attention.heads import AttentionReader
from regard.attention.mask import Causal, Padding
from regard.models.feed_forward import FeedForward
from regard.models.norms import PostNorm
from regard.models.recurrent import LuongDecoder, LuongState
from regard.models.transformer import DecoderLayer, TransformerDecoder, TransformerState

from ..things import (
    MECHANISMS,
    SIZES,
    SUMMARY,
    TYPES,
    WIDTH,
    SinusoidalPosition,
    attention,
    embedding,
    heads,
    single_reader,
)  # fmt: skip


def _transformer(
    kind: type[TransformerDecoder] = TransformerDecoder, read: type[AttentionReader] = AttentionReader
) -> TransformerDecoder:
    frames = tuple(PostNorm(WIDTH, dropout=0.0) for _ in range(3))
    reader = read(heads(MECHANISMS["dot"](SIZES)))
    layer = DecoderLayer(attention(Causal() & Padding()), reader, FeedForward(WIDTH, WIDTH), frames)
    return kind(embedding(SinusoidalPosition(WIDTH)), [layer], nn.Identity())


def _luong(kind: type[LuongDecoder]) -> LuongDecoder:
    reader = single_reader("local-p")
    return kind(nn.Embedding(TYPES, 5), reader, width=WIDTH, layers=2, summary=SUMMARY)


class OffByOne(TransformerDecoder):
    """Every piece but the first begins one position late."""

    def forward(self, tokens, memory, state, *, valid=None):
        decoded = super().forward(tokens, memory, state, valid=valid)
        length = torch.where(state.length == 0, decoded.state.length + 1, decoded.state.length)
        return decoded._replace(state=decoded.state._replace(length=length))


class CountsColumns(TransformerDecoder):
    """Its position counts padded columns."""

    def forward(self, tokens, memory, state, *, valid=None):
        decoded = super().forward(tokens, memory, state, valid=valid)
        return decoded._replace(state=decoded.state._replace(length=state.length + tokens.shape[1]))


class OneClock(TransformerDecoder):
    """All rows stand at the position of the first."""

    def forward(self, tokens, memory, state, *, valid=None):
        same = state._replace(length=state.length[:1].expand_as(state.length))
        decoded = super().forward(tokens, memory, same, valid=valid)
        return decoded._replace(state=decoded.state._replace(length=state.length + tokens.shape[1]))


class HalfTruncated(TransformerState):
    """Turns the position back, but not the caches."""

    def truncate(self, length: Tensor) -> TransformerState:
        return self._replace(length=torch.minimum(self.length, length))


class HalfTruncating(TransformerDecoder):
    """Keeps a ``HalfTruncated``."""

    def forward(self, tokens, memory, state, *, valid=None):
        decoded = super().forward(tokens, memory, state, valid=valid)
        return decoded._replace(state=HalfTruncated(*decoded.state))


class ReadsNeighbour(AttentionReader):
    """Hands the rows of a sentence their answers in the wrong order."""

    def forward(self, query, span, memory, rows, state):
        wrong = rows if rows.place is None else rows._replace(place=rows.place.flip(0))
        mixed = super().forward(query, span, memory, rows, state)
        if rows.place is None:
            return mixed
        return mixed._replace(output=wrong.gather(rows.scatter(mixed.output)))


class ReadsByRow(AttentionReader):
    """Row i reads sentence i, whatever ``rows`` says."""

    def forward(self, query, span, memory, rows, state):
        own = Rows.of(torch.arange(len(query)) % rows.sentences, rows.sentences)
        return super().forward(query, span, memory, own, state)


class LooksAtSourcePadding(AttentionReader):
    """Reads the padding of the source."""

    def prepare(self, encoded):
        memory = super().prepare(encoded)
        return memory._replace(valid=torch.ones_like(memory.valid))


class FrozenRows(TransformerDecoder):
    """Forgets which sentence a row reads as soon as rows move."""

    def forward(self, tokens, memory, state, *, valid=None):
        still = state._replace(rows=torch.arange(len(tokens)) % len(memory[0].valid))
        decoded = super().forward(tokens, memory, still, valid=valid)
        return decoded._replace(state=decoded.state._replace(rows=state.rows))


class SeesTheEnd(TransformerDecoder):
    """Adds the mean embedding of all tokens it is given."""

    def forward(self, tokens, memory, state, *, valid=None):
        decoded = super().forward(tokens, memory, state, valid=valid)
        mean = self.embedding(tokens, torch.zeros_like(tokens)).mean(1, keepdim=True)
        return decoded._replace(features=decoded.features + mean)


class NoFeeding(LuongDecoder):
    """Input feeding within a piece, but not from one to the next."""

    def forward(self, tokens, memory, state, *, valid=None):
        return super().forward(tokens, memory, state._replace(feed=torch.zeros_like(state.feed)), valid=valid)


class PaddingAdvances(LuongDecoder):
    """Padded steps run the cell."""

    def _step(self, embedded, counts, memory, rows, state) -> LuongState:
        return super()._step(embedded, torch.ones_like(counts), memory, rows, state)


class StaleHidden(LuongDecoder):
    """Rows move, their hidden state does not."""

    def forward(self, tokens, memory, state, *, valid=None) -> Decoded:
        decoded = super().forward(tokens, memory, state, valid=valid)
        return decoded._replace(state=Unmoved(*decoded.state))


class HalfSaved(LuongDecoder):
    """Leaves its bridge out of what is saved."""

    def state_dict(self, *arguments, **options):
        kept = super().state_dict(*arguments, **options)
        return {name: tensor for name, tensor in kept.items() if not name.startswith("bridge")}

    def load_state_dict(self, state_dict, strict=True, assign=False):
        with torch.no_grad():
            self.bridge.weight.zero_()
        return super().load_state_dict(state_dict, strict=False, assign=assign)


class Unmoved(LuongState):
    def select(self, rows: Tensor) -> LuongState:
        kept = torch.arange(len(rows)) % len(self.hidden)
        moved = (self.cell[rows], self.feed[rows], self.reader, self.length[rows], self.rows[rows])
        return LuongState(self.hidden[kept], *moved)

    def repeat(self, times: int) -> LuongState:
        rows = torch.arange(len(self.hidden)).repeat(times)
        moved = torch.arange(len(self.hidden)).repeat_interleave(times)
        return self.select(moved)._replace(hidden=self.hidden[rows])


MUTANTS = {
    "off-by-one-position": (lambda: _transformer(OffByOne), "chunk"),
    "counts-columns": (lambda: _transformer(CountsColumns), "ragged"),
    "one-clock": (lambda: _transformer(OneClock), "joined"),
    "half-truncated": (lambda: _transformer(HalfTruncating), "truncated"),
    "reads-neighbour": (lambda: _transformer(read=ReadsNeighbour), "shared"),
    "reads-by-row": (lambda: _transformer(read=ReadsByRow), "shared"),
    "reads-by-row-compacted": (lambda: _transformer(read=ReadsByRow), "compacted"),
    "frozen-rows": (lambda: _transformer(FrozenRows), "reorder"),
    "looks-at-source-padding": (lambda: _transformer(read=LooksAtSourcePadding), "batched"),
    "sees-the-end": (lambda: _transformer(SeesTheEnd), "causal"),
    "half-saved": (lambda: _luong(HalfSaved), "saved"),
    "no-feeding": (lambda: _luong(NoFeeding), "chunk"),
    "padding-advances": (lambda: _luong(PaddingAdvances), "ragged"),
    "stale-state": (lambda: _luong(StaleHidden), "reorder"),
    "stale-repeat": (lambda: _luong(StaleHidden), "repeated"),
}

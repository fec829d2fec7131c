"""Decoding by the kernels: the encoder and each step of a Transformer are one call of C."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from threading import Lock
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.attention.contract import Decoder, Encoder
from regard.attention.heads import AttentionReader, SelfAttention
from regard.attention.mask import Padding
from regard.attention.span import Span
from regard.engine.cache import BUCKET, FastSession, KeyValueTable
from regard.engine.native_head import NativeHead
from regard.engine.native_layer import Attention
from regard.engine.native_stack import NativeStack, native_obstacle
from regard.engine.obstacles import layer_obstacle
from regard.engine.transformer import leading
from regard.engine.transformer import obstacle as decoder_obstacle
from regard.models.input import TokenInput
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.transformer import TransformerDecoder, TransformerEncoder
from regard.native.beam import MOST_BEST
from regard.native.call import Call, Tables
from regard.native.library import Library, library
from regard.native.program import KEPT, FilledHeads, Format, Program
from regard.native.runner import Runner
from regard.search.best_types import BestTypes
from regard.search.contract import Reduce

AT_ONCE = 256  # rows of a thread that the encoder reads at a time, whose records stay in its cache
MOST_AHEAD = 32  # tokens that are decoded before others may enter


def obstacle(decoder: Decoder) -> str | None:
    """The reason why the kernels cannot compute this decoder; None if they can."""
    if (reason := decoder_obstacle(decoder)) is not None:
        return reason
    return next(filter(None, map(native_obstacle, cast(TransformerDecoder, decoder).stack)), None)


class NativeEncoderDecoder:
    """``session`` and ``step`` like EncoderDecoder's, with a FastSession as the state, in float32 or by 8-bit products.

    A row's result does not depend on the rows beside it, to the bit, whatever the format. Log-probabilities are
    float32. ValueError where there is an ``obstacle``, or no library.

    Args:
        encoder: the model's encoder; one that the kernels do not know is computed by torch.
        decoder: the model's decoder.
        projection: the output projection.
        bias: the bias of the output projection.
        format: ``float32``, or ``int8`` for products in 8 bits.
        threads: of the kernels; those of torch unless given.
    """

    def __init__(
        self, encoder: Encoder, decoder: Decoder, projection: Float[Tensor, "types width"],
        *, bias: Float[Tensor, "types"] | None = None, format: Format = "float32", threads: int | None = None,
    ) -> None:  # fmt: skip
        kernels = library()
        if kernels is None or (reason := obstacle(decoder)) is not None:
            raise ValueError(f"the kernels cannot compute this decoder: {reason if kernels else 'they are not there'}")
        threads = threads or torch.get_num_threads()
        decoder = deepcopy(decoder).eval().float()
        assert isinstance(decoder, TransformerDecoder)
        self.stack = NativeStack(
            kernels, format, cast(TokenInput, decoder.embedding), decoder.stack, decoder.norm, own_cells=True
        )
        self.stack.program.head(self.stack.features, projection, bias)
        self.runner = Runner(self.stack.program, threads)
        self.head = NativeHead(self.runner, len(projection))
        self._lock = Lock()  # threads of a server share a model, and a runner has room for one call
        readers = [cast(AttentionReader, layer.reader).attention for layer in decoder.stack]
        own = [cast(SelfAttention, layer.mixer).attention for layer in decoder.stack]
        self.own, self.read = ([Attention(each).sizes for each in found] for found in (own, readers))
        self.encoder = _NativeEncoder(kernels, format, encoder, readers, threads)

    @torch.no_grad()
    def session(self, source: Int[Tensor, "sentences length"], span: Span) -> FastSession:
        """Encode the sources; the session has one row per sentence, before the first target token."""
        span.refuse_limit(self)
        lengths = span.length.tolist()
        slots = len(lengths)
        cells = self._tables(self.own, slots, 2 * BUCKET, 1)
        sources = self._tables(self.read, slots, max(lengths, default=0))
        with self._lock:
            self.encoder.fill(sources, source, span, lengths)
        return FastSession.of(cells, sources, lengths)

    def _tables(self, layers: Sequence[FilledHeads], slots: int, *columns: int) -> list[KeyValueTable]:
        """Empty tables of all layers, cut from one piece of memory."""
        shapes = [(slots, each.key_heads, *columns, width) for each in layers for width in each[2:]]
        sizes = [math.prod(shape) for shape in shapes]
        parts = torch.zeros(sum(sizes), dtype=KEPT[self.stack.program.format]).split(sizes)
        views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        return [KeyValueTable(*pair) for pair in zip(views[::2], views[1::2], strict=True)]

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], session: FastSession
    ) -> tuple[Float[Tensor, "rows length types"], FastSession]:
        """Log-probabilities after each token, and the session after all."""
        log_p = []
        for column in tokens.split(1, 1):
            (each,), session = self.chunked_step(column, session, lambda log_p, rows: (log_p,))
            log_p.append(each)
        return torch.stack(log_p, 1), session

    @torch.no_grad()
    def chunked_step(
        self, tokens: Int[Tensor, "rows 1"], session: FastSession, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], FastSession]:
        """A ``ChunkedStep``; ``BestTypes`` are found while probabilities are computed, which nobody then sees."""
        session = session.resized()
        with self._lock:
            found, steps = self._run(tokens[:, 0], session, reduce)
        session.time = [time + steps for time in session.time]
        return found, session

    def _run(self, tokens: Int[Tensor, "rows"], session: FastSession, reduce: Reduce) -> tuple[tuple[Tensor, ...], int]:
        """Tensors that ``reduce`` makes, and the number of tokens that were fed."""
        last = max(session.time, default=0)
        ahead, beam = 1, isinstance(reduce, BestTypes) and reduce.beam is not None
        if isinstance(reduce, BestTypes) and len(tokens) and self._goes_ahead(reduce, session):
            ahead = min(reduce.ahead, session.history.shape[2] - last, MOST_AHEAD)
        if self.stack.grow(last + ahead):
            self.runner.refresh()
        if session.prepared is None:
            session.prepared = _PreparedRows(session)
        self.runner.batch.token = tokens.to(torch.int32, copy=True)
        session.prepared.fill(self.runner.batch)
        columns = max(last + ahead, session.columns)
        if ahead > 1 and beam:
            return self.head.run_beam(cast(BestTypes, reduce), len(tokens), columns, ahead)
        if ahead > 1:
            found = self.head.run_ahead(cast(BestTypes, reduce), len(tokens), columns, ahead)
            return found, found[0].shape[1]
        found = self.head.run(reduce, len(tokens), columns)
        session.prepared.time += 1
        return found, 1

    def _goes_ahead(self, wanted: BestTypes, session: FastSession) -> bool:
        """Whether several steps can be run: greedy ones, or of beams whose hypotheses share the cells of a slot."""
        if wanted.beam is None:
            return wanted.count == 1
        return wanted.count <= min(MOST_BEST, self.head.types) and session.width == wanted.beam.total.shape[1]


class _PreparedRows:
    """Rows of a session as the kernels take them; good until rows or tables change."""

    def __init__(self, session: FastSession) -> None:
        width, self._history = session.width, session.history
        each = np.array([session.time, session.slots, session.lengths], np.int32).reshape(3, -1)
        self.time, self._slot, self._length = torch.from_numpy(each.repeat(width, 1))
        self._place = torch.from_numpy(np.tile(np.arange(width, dtype=np.int32), len(session.slots)))
        self._cells = Tables([(table.key, table.value) for table in session.cells])
        self._sources = Tables([(table.key, table.value) for table in session.sources])

    def fill(self, batch: Call) -> None:
        batch.time, batch.slot, batch.place, batch.length = self.time, self._slot, self._place, self._length
        batch.history = self._history if self._history.shape[1] > 1 else None
        batch.cells, batch.sources = self._cells, self._sources


class _NativeEncoder:
    """Sources to the keys and values that a decoder's layers read."""

    def __init__(
        self, kernels: Library, format: Format, encoder: Encoder, readers: list[Any], threads: int
    ) -> None:  # fmt: skip
        self.encoder = deepcopy(encoder).eval().float()
        self.stack: NativeStack | None = None
        if encoder_obstacle(self.encoder) is None:
            known = cast(TransformerEncoder, self.encoder)
            layers = cast(Iterable[TransformerLayer], known.layers)
            self.stack = NativeStack(
                kernels, format, cast(TokenInput, known.embedding), layers, known.norm, own_cells=False
            )
            program, states = self.stack.program, self.stack.features
        else:
            program = Program(kernels, format)
            states = program.place(self.encoder.width)
        self.states = states
        sizes = [Attention(each).sizes for each in readers]
        room = program.place(max((each.key_heads * (each.width + each.value_width) for each in sizes), default=0))
        for number, each in enumerate(readers):
            Attention(each).add_source(program, states, room, number)
        self.runner = Runner(program, threads)

    def fill(
        self, sources: list[KeyValueTable], source: Int[Tensor, "sentences length"], span: Span, lengths: list[int]
    ) -> None:
        """Read the sources, one after the other, into the tables."""
        runner, longest = self.runner, max(lengths, default=0)
        states = None if self.stack else leading(self.encoder(source, span).states, span.valid)[0]
        if self.stack is not None and self.stack.grow(longest):
            runner.refresh()
        tables = Tables([(table.key, table.value) for table in sources])
        tokens = source.numpy().astype(np.int32)[span.valid.numpy()]  # numpy, whose small arrays cost less than torch's
        read = 0
        for first, last in groups(lengths, AT_ONCE * runner.threads):
            batch, end = runner.batch, np.cumsum(lengths[first:last], dtype=np.int32)
            rows = int(end[-1])
            number = np.arange(rows, dtype=np.int32)
            sentence = end.searchsorted(number, "right").astype(np.int32)
            begin = (end - np.array(lengths[first:last], np.int32))[sentence]
            batch.token, batch.slot = torch.from_numpy(tokens[read : read + rows]), torch.from_numpy(sentence + first)
            batch.begin, batch.time = torch.from_numpy(begin), torch.from_numpy(number - begin)
            batch.end, batch.sources = torch.from_numpy(end[sentence]), tables
            read += rows
            if states is not None:
                kept = torch.cat([states[row, : lengths[row]] for row in range(first, last)])
                runner.prepare(rows)[:, self.states.first : self.states.first + kept.shape[1]] = kept
            runner.run(rows, longest, [0, *end.tolist()])


def groups(lengths: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Bounds of groups of sentences, of so many rows together or of a single sentence."""
    first = total = 0
    for number, length in enumerate(lengths):
        if total + length > rows and number > first:
            yield first, number
            first, total = number, 0
        total += length
    if total:
        yield first, len(lengths)


def encoder_obstacle(encoder: Encoder) -> str | None:
    """The reason why an encoder is computed by torch; None where the kernels know it."""
    if type(encoder) is not TransformerEncoder or type(encoder.embedding) is not TokenInput:
        return "it is not the Transformer's encoder of tokens"
    if encoder.embedding.values is not None:
        return "its layers add to their values"
    for layer in cast(Iterable[TransformerLayer], encoder.layers):
        reason = layer_obstacle(layer, None, own={Padding()}) or native_obstacle(layer)
        if reason is not None:
            return reason
    return None

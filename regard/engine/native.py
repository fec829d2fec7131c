"""Decoding with the kernels: the encoder and each step of a Transformer are a single C call."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from threading import Lock
from typing import cast

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.functional import pad

from regard.attention.contract import Decoder, Encoded, Encoder
from regard.attention.heads import AttentionReader, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.span import Span
from regard.data.tokenizers.tokenizer import BEGIN, UNKNOWN
from regard.engine.cache import BUCKET, FastSession, KeyValueTable
from regard.engine.native_head import NativeHead
from regard.engine.native_layer import Attention
from regard.engine.native_pointer import NativePointer
from regard.engine.native_stack import NativeStack, native_obstacle
from regard.engine.obstacles import layer_obstacle
from regard.engine.pointer import source_tokens
from regard.engine.transformer import leading
from regard.engine.transformer import obstacle as decoder_obstacle
from regard.models.copying import Copying
from regard.models.input import TokenInput
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.transformer import TransformerDecoder, TransformerEncoder
from regard.native.beam import MAX_BEST
from regard.native.call import Call, Tables
from regard.native.library import Library, library
from regard.native.program import CACHE_TYPES, FilledHeads, Format, Program, filled
from regard.native.runner import Runner
from regard.search.best_types import BestTypes
from regard.search.contract import Reduce

ROWS_PER_THREAD = (
    256  # rows of a call that reads several tokens of each sentence, whose records fit into the thread's cache
)
MAX_STEPS = 32  # tokens that are decoded in one call, before other sentences may enter


def obstacle(decoder: Decoder) -> str | None:
    """Return the reason why the kernels cannot compute this decoder, or None."""
    if (reason := decoder_obstacle(decoder)) is not None:
        return reason
    return next(filter(None, map(native_obstacle, cast(TransformerDecoder, decoder).stack)), None)


class NativeEncoderDecoder:
    """Model with the ``session`` and ``step`` of EncoderDecoder and a FastSession as the state.

    It computes in float32 or with 8-bit products. A row's result does not depend on the other rows, to the bit, in
    every format. Log-probabilities are float32.

    Args:
        encoder: the model's encoder; torch computes an encoder that the kernels do not support.
        decoder: the model's decoder.
        projection: the output projection.
        bias: the bias of the output projection.
        copying: the pointer of a model that copies source tokens.
        format: ``float32``, or ``int8`` for products in 8 bits.
        threads: threads of the kernels; default: the number of torch's threads.

    Raises:
        ValueError: the decoder has an ``obstacle``, or the kernels are missing.
    """

    def __init__(
        self, encoder: Encoder, decoder: Decoder, projection: Float[Tensor, "types width"],
        *, bias: Float[Tensor, "types"] | None = None, copying: Copying | None = None, format: Format = "float32",
        threads: int | None = None,
    ) -> None:  # fmt: skip
        kernels = library()
        if kernels is None or (reason := obstacle(decoder)) is not None:
            raise ValueError(f"the kernels cannot compute this decoder: {reason if kernels else 'they are missing'}")
        threads = threads or torch.get_num_threads()
        decoder = deepcopy(decoder).eval().float()
        assert isinstance(decoder, TransformerDecoder)
        self.stack = NativeStack(
            kernels, format, cast(TokenInput, decoder.embedding), decoder.stack, decoder.norm, own_cells=True
        )
        own = [cast(SelfAttention, layer.mixer).attention for layer in decoder.stack]
        readers: list[Attention | NativePointer] = [
            Attention(cast(AttentionReader, layer.reader).attention) for layer in decoder.stack
        ]
        gate = None
        if copying is not None:
            pointer = NativePointer(copying)
            gate = pointer.add(self.stack.program, self.stack.features, len(readers))
            readers.append(pointer)
        self.stack.program.head(self.stack.features, projection, bias, gate)
        self.copies = copying is not None
        self.runner = Runner(self.stack.program, threads)
        self.head = NativeHead(self.runner, len(projection))
        self._lock = Lock()  # threads of a server share a model, and a runner holds one call
        self.own, self.read = [Attention(attention).sizes for attention in own], [reader.sizes for reader in readers]
        self.encoder = _NativeEncoder(kernels, format, encoder, readers, threads)

    @torch.no_grad()
    def session(self, source: Shaped[Tensor, "sentences length *features"], span: Span) -> FastSession:
        """Encode the sources; return a session with one row per sentence, before the first target token."""
        span.refuse_limit(self)
        if self.encoder.stack is None:
            return self.start(self.encoder.encoder(source, span), source)
        return self._opened(source, span, None)

    @torch.no_grad()
    def start(self, encoded: Encoded, source: Shaped[Tensor, "sentences length *features"]) -> FastSession:
        """Return the session of encoded sources before the first target token.

        Raises ValueError if the kernels encode the sources of this model themselves.
        """
        if self.encoder.stack is not None:
            raise ValueError("the kernels encode the sources of this model: use session")
        return self._opened(source, encoded.span, encoded.states)

    def _opened(
        self,
        source: Shaped[Tensor, "sentences length *features"],
        span: Span,
        states: Float[Tensor, "sentences positions width"] | None,
    ) -> FastSession:
        """Return the session of sources, whose ``states`` the kernels compute if they are None."""
        lengths = span.length.tolist()
        slots = len(lengths)
        cells = self._tables(self.own, slots, 2 * BUCKET, 1)
        longest = max(lengths, default=0)
        sources = self._tables(self.read, slots, longest)
        if self.copies:
            (tokens, valid), pointer = leading(source[..., None], span.valid), sources[-1]
            token = source_tokens(tokens[:, :longest, 0], valid[:, :longest])
            sources[-1] = KeyValueTable(pointer.key, pointer.value, token)
        with self._lock:
            if states is None:
                self.encoder.encode(sources, source, span, lengths)
            else:
                self.encoder.read(sources, states, span, lengths)
        return FastSession.of(cells, sources, lengths)

    def _tables(self, layers: Sequence[FilledHeads], slots: int, *lengths: int) -> list[KeyValueTable]:
        """Return empty tables of all layers, which share one block of memory."""
        shapes = [(slots, heads.key_heads, *lengths, width) for heads in layers for width in heads[2:]]
        sizes = [math.prod(shape) for shape in shapes]
        parts = torch.zeros(sum(sizes), dtype=CACHE_TYPES[self.stack.program.format]).split(sizes)
        views = [part.view(shape) for part, shape in zip(parts, shapes, strict=True)]
        return [KeyValueTable(*pair) for pair in zip(views[::2], views[1::2], strict=True)]

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], session: FastSession
    ) -> tuple[Float[Tensor, "rows length types"], FastSession]:
        """Return log-probabilities after each token, and the session after the last one."""
        log_p = []
        for token in tokens.split(1, 1):
            (token_log_p,), session = self.chunked_step(token, session, lambda log_p, rows: (log_p,))
            log_p.append(token_log_p)
        return torch.stack(log_p, 1), session

    @torch.no_grad()
    def chunked_step(
        self, tokens: Int[Tensor, "rows 1"], session: FastSession, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], FastSession]:
        """Compute a ``ChunkedStep``; ``BestTypes`` are selected during the computation of probabilities."""
        session = session.resized()
        with self._lock:
            reduced, steps = self._run(tokens[:, 0], session, reduce)
        session.time = [time + steps for time in session.time]
        return reduced, session

    def _run(self, tokens: Int[Tensor, "rows"], session: FastSession, reduce: Reduce) -> tuple[tuple[Tensor, ...], int]:
        """Return the tensors from ``reduce``, and the number of tokens that were processed."""
        last = max(session.time, default=0)
        ahead, beam = 1, isinstance(reduce, BestTypes) and reduce.beam is not None
        if isinstance(reduce, BestTypes) and len(tokens) and self._can_run_ahead(reduce, session):
            ahead = min(reduce.ahead, session.history.shape[2] - last, MAX_STEPS)
            known = 0 if beam else min(ahead, reduce.known(), self._piece(len(tokens)))
            if known > 1:
                return self._read_known(tokens, session, reduce, known), known
        self._prepare(tokens[:, None], session, last + ahead)
        longest = max(last + ahead, session.source_length)
        if ahead > 1 and beam:
            return self.head.run_beam(cast(BestTypes, reduce), len(tokens), longest, ahead)
        if ahead > 1:
            reduced = self.head.run_ahead(cast(BestTypes, reduce), len(tokens), longest, ahead)
            return reduced, reduced[0].shape[1]
        reduced = self.head.run(reduce, len(tokens), longest)
        session.prepared.time += 1
        return reduced, 1

    def _read_known(
        self, tokens: Int[Tensor, "rows"], session: FastSession, request: BestTypes, steps: int
    ) -> tuple[Tensor, ...]:
        """Return what ``steps`` single steps would, whose types are forced on all rows; the rows read them together."""
        forced = torch.tensor([types[:steps] for types in request.forced])
        end = max(session.time) + steps
        self._prepare(torch.cat([tokens[:, None], forced[:, :-1]], 1), session, end)
        cuts = range(0, forced.numel() + 1, steps)
        log_p = self.head.log_probabilities(forced.flatten(), max(end, session.source_length), cuts=cuts)
        session.prepared.time += steps
        return log_p.view_as(forced), forced

    @torch.no_grad()
    def attention(
        self, source: Int[Tensor, "sentences length"], span: Span, targets: Sequence[Sequence[int]], layer: int
    ) -> Float[Tensor, "sentences heads queries length"]:
        """Return the weights of one layer's attention to the source, for BEGIN and the tokens of each target.

        Rows beyond the end of a target are undefined. Positions beyond the end of a source have the weight 0.
        """
        rows, length = len(targets), max(map(len, targets)) + 1
        session = self.session(source, span).reserved(length)
        read = [[BEGIN, *target, *[UNKNOWN] * (length - 1 - len(target))] for target in targets]
        columns, parts, end = source.shape[1], list[Tensor](), 0
        for tokens in torch.tensor(read).split(self._piece(rows), 1):
            steps, end = tokens.shape[1], end + tokens.shape[1]
            longest = max(end, session.source_length)
            weights = torch.zeros(1, rows * steps, self.read[layer].heads, filled(longest))
            with self._lock:
                self._prepare(tokens, session, end)
                self.runner.batch.observed, self.runner.batch.observed_layer = weights, layer
                cuts = range(0, rows * steps + 1, steps)
                self.head.run(lambda log_p, rows: (), rows * steps, longest, every=steps, cuts=cuts)
            session.prepared.time += steps
            # The kernels know the longest source, which may be shorter than the padded ones.
            observed = pad(weights[0], (0, max(columns - weights.shape[-1], 0)))[..., :columns]
            parts.append(observed.unflatten(0, (rows, steps)))
        return torch.cat(parts, 1).transpose(1, 2)

    def _piece(self, rows: int) -> int:
        """Return the number of tokens of each row that are read in one call, which keeps its records small."""
        return max(ROWS_PER_THREAD * self.runner.threads // max(rows, 1), 1)

    def _prepare(self, tokens: Int[Tensor, "rows length"], session: FastSession, times: int) -> None:
        """Set the rows of the next call, which reads these tokens of each row, and ends before ``times``."""
        if self.stack.grow(times):
            self.runner.refresh()
        if session.prepared is None:
            session.prepared = _PreparedRows(session)
        session.prepared.fill(self.runner.batch, tokens.shape[1])
        self.runner.batch.token = tokens.flatten().to(torch.int32, copy=True)

    def _can_run_ahead(self, request: BestTypes, session: FastSession) -> bool:
        """Return whether several steps can be run: greedy ones, or beams whose hypotheses share the cells of a slot."""
        if request.beam is None:
            return request.count == 1
        return request.count <= min(MAX_BEST, self.head.types) and session.width == request.beam.total.shape[1]


class _PreparedRows:
    """Rows of a session in the form that the kernels read; valid until rows or tables change."""

    def __init__(self, session: FastSession) -> None:
        width, self._history = session.width, session.history
        numbers = np.array([session.time, session.slots, session.lengths], np.int32).reshape(3, -1)
        self.time, self._slot, self._length = torch.from_numpy(numbers.repeat(width, 1))
        self._place = torch.from_numpy(np.tile(np.arange(width, dtype=np.int32), len(session.slots)))
        self._cells = Tables([table.tensors for table in session.cells])
        self._sources = Tables([table.tensors for table in session.sources])

    def fill(self, batch: Call, length: int = 1) -> None:
        """Set the rows of a call in which each row of the session reads this number of tokens, one after the other."""
        batch.time, batch.slot, batch.place, batch.length = self.time, self._slot, self._place, self._length
        if length > 1:
            slot, place, sources = (x.repeat_interleave(length) for x in (self._slot, self._place, self._length))
            batch.slot, batch.place, batch.length = slot, place, sources
            batch.time = (self.time[:, None] + torch.arange(length, dtype=torch.int32)).flatten()
        batch.history = self._history if self._history.shape[1] > 1 else None
        batch.cells, batch.sources = self._cells, self._sources


class _NativeEncoder:
    """Encoder that computes the keys and values of sources for a decoder's layers."""

    def __init__(
        self, kernels: Library, format: Format, encoder: Encoder, readers: Sequence[Attention | NativePointer],
        threads: int,
    ) -> None:  # fmt: skip
        self.encoder = deepcopy(encoder).eval().float()
        self.stack: NativeStack | None = None
        self._causal = False
        if encoder_obstacle(self.encoder) is None:
            transformer = cast(TransformerEncoder, self.encoder)
            self._causal = reads_forward(transformer)
            layers = cast(Iterable[TransformerLayer], transformer.layers)
            self.stack = NativeStack(
                kernels, format, cast(TokenInput, transformer.embedding), layers, transformer.norm, own_cells=False
            )
            program, states = self.stack.program, self.stack.features
        else:
            program = Program(kernels, format)
            states = program.allocate(self.encoder.width)
        self.states = states
        sizes = [reader.sizes for reader in readers]
        projected = program.allocate(
            max((heads.key_heads * (heads.width + heads.value_width) for heads in sizes), default=0)
        )
        for number, reader in enumerate(readers):
            reader.add_source(program, states, projected, number)
        self.runner = Runner(program, threads)

    def encode(
        self, sources: list[KeyValueTable], source: Int[Tensor, "sentences length"], span: Span, lengths: list[int]
    ) -> None:
        """Encode tokens one source after the other and write their keys and values into the tables."""
        assert self.stack is not None
        if self.stack.grow(max(lengths, default=0)):
            self.runner.refresh()
        tokens = source.numpy().astype(np.int32)[span.valid.numpy()]  # small arrays cost less in numpy
        self._run(sources, lengths, torch.from_numpy(tokens), None)

    def read(
        self, sources: list[KeyValueTable], states: Float[Tensor, "sentences length width"], span: Span,
        lengths: list[int],
    ) -> None:  # fmt: skip
        """Write the keys and values of encoded sources into the tables. The encoder has no form for the kernels."""
        states, _ = leading(states.float(), span.valid)
        packed = torch.cat([row[:length] for row, length in zip(states, lengths, strict=True)])
        self._run(sources, lengths, torch.zeros(len(packed), dtype=torch.int32), packed)

    def _run(
        self, sources: list[KeyValueTable], lengths: list[int], tokens: Int[Tensor, "positions"],
        states: Float[Tensor, "positions width"] | None,
    ) -> None:  # fmt: skip
        """Run the program over all positions of the sources, a group of sources at a time."""
        runner, longest, read = self.runner, max(lengths, default=0), 0
        tables = Tables([table.tensors for table in sources])
        for first, last in groups(lengths, ROWS_PER_THREAD * runner.threads):
            batch, end = runner.batch, np.cumsum(lengths[first:last], dtype=np.int32)
            rows = int(end[-1])
            number = np.arange(rows, dtype=np.int32)
            sentence = end.searchsorted(number, "right").astype(np.int32)
            begin = (end - np.array(lengths[first:last], np.int32))[sentence]
            batch.token, batch.slot = tokens[read : read + rows], torch.from_numpy(sentence + first)
            batch.begin, batch.time = torch.from_numpy(begin), torch.from_numpy(number - begin)
            ends = number + np.int32(1) if self._causal else end[sentence]
            batch.end, batch.sources = torch.from_numpy(ends), tables
            if states is not None:
                width = slice(self.states.first, self.states.first + states.shape[1])
                runner.prepare(rows)[:, width] = states[read : read + rows]
            read += rows
            runner.run(rows, longest, [0, *end.tolist()])


def reads_forward(encoder: TransformerEncoder) -> bool:
    """Return whether the first layer is causal self-attention."""
    mixer = encoder.layers[0].mixer
    return isinstance(mixer, SelfAttention) and Causal() in mixer.mask.conjuncts()


def groups(lengths: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Yield bounds of groups of sentences, each with at most ``rows`` tokens or a single sentence."""
    first = total = 0
    for number, length in enumerate(lengths):
        if total + length > rows and number > first:
            yield first, number
            first, total = number, 0
        total += length
    if total:
        yield first, len(lengths)


def encoder_obstacle(encoder: Encoder) -> str | None:
    """Return the reason why torch computes this encoder, or None if the kernels can."""
    if type(encoder) is not TransformerEncoder or type(encoder.embedding) is not TokenInput:
        return "it is not the Transformer's encoder of tokens"
    if not encoder.embedding.reads_end:
        return "it does not read the end symbol"
    if encoder.embedding.values is not None:
        return "its layers add token vectors to the attention values"
    if encoder.embedding.segments is not None or type(encoder.embedding.norm) is not nn.Identity:
        return "its embeddings have segments or a norm"
    if encoder.embedding.token_dropout or type(encoder.layers[0].around_mixer.norm) is nn.Identity:
        return "its first layer has no norm, or its embeddings have token dropout"
    masks = {Causal(), Padding()} if reads_forward(encoder) else {Padding()}
    for layer in cast(Iterable[TransformerLayer], encoder.layers):
        reason = layer_obstacle(layer, None, own=masks) or native_obstacle(layer)
        if reason is not None:
            return reason
    return None

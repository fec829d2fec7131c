"""Laws of decoders, on which search relies."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.attention.contract import Decoded, Decoder, Encoded, Memory, compact, sentences
from regard.attention.span import Span
from regard.core.state import State, join, repeat, select, truncate
from regard.testing.draw import Draw, piece_of
from regard.testing.law import Law, law, ready, reloaded, run_laws, same

DECODER_LAWS: list[Law] = []


@dataclass(frozen=True, kw_only=True)
class DecoderCase:
    """A decoder in float64.

    Attributes:
        decoder: the decoder.
        width: features of the encoder's states.
        summary: features of the encoder's summary.
        types: entries of the vocabulary.
    """

    decoder: Decoder
    width: int
    summary: int
    types: int

    def run(
        self, tokens: Tensor, memory: Memory, state: State | None = None, *, valid: Tensor | None = None
    ) -> Decoded:
        """Decode tokens; with ``state`` None, from the start, where row i reads sentence i."""
        before = self.decoder.start(memory, torch.arange(len(tokens))) if state is None else state
        span = Span.without_padding(tokens, before.length)
        decoded: Decoded = self.decoder(tokens, span if valid is None else span._replace(valid=valid), memory, before)
        return decoded

    def read(self, draw: Draw, count: int, length: int | None = None) -> tuple[Encoded, Memory]:
        """Return a random encoder output for ``count`` sentences, and the decoder's memory of it."""
        valid = draw.valid(count, length or draw.integer(2, 5))
        states, embedded = (draw.tensor(*valid.shape, self.width) for _ in range(2))
        encoded = Encoded(states, embedded, draw.tensor(count, self.summary), Span.of(valid))
        return encoded, self.decoder.prepare(encoded)


def check_decoder(
    decoder: Decoder, *, width: int, types: int, summary: int | None = None, trials: int = 3, seed: int = 0
) -> list[str]:
    """Check every law of a decoder; return their names.

    Args:
        decoder: the decoder; a copy in float64 is tested.
        width: width of the encoder's states and embeddings.
        types: size of the target vocabulary.
        summary: width of the encoder's ``final``; by default ``width``.
        trials: random inputs per law.
        seed: seed of the first trial; later trials count up.

    Raises:
        AssertionError: a law is violated; the message names it.
    """
    case = DecoderCase(decoder=ready(decoder), width=width, summary=summary or width, types=types)
    return run_laws(DECODER_LAWS, case, trials=trials, seed=seed)


@law(DECODER_LAWS)
def chunk(case: DecoderCase, draw: Draw) -> None:
    """Tokens in any pieces with carried state give the same features as one pass: training equals decoding."""
    _, memory = case.read(draw, 3)
    tokens = draw.tokens(3, 6, case.types)
    whole = case.run(tokens, memory).features
    state, parts = case.decoder.start(memory, torch.arange(3)), []
    for positions in draw.pieces(6):
        part = case.run(tokens[:, positions], memory, state)
        state = part.state
        parts.append(part.features)
    same(torch.cat(parts, 1), whole, "features")


@law(DECODER_LAWS)
def ragged(case: DecoderCase, draw: Draw) -> None:
    """Padding does not advance a row: rows at different steps can share a batch, and later features are correct."""
    _, memory = case.read(draw, 3)
    tokens, valid = draw.tokens(3, 4, case.types), draw.valid(3, 4)
    more, more_valid = draw.tokens(3, 3, case.types), draw.valid(3, 3)
    first = case.run(tokens, memory, valid=valid)
    second = case.run(more, memory, first.state, valid=more_valid).features
    for row in range(3):
        before, after = int(valid[row].sum()), int(more_valid[row].sum())
        one = select(memory, torch.tensor([row]))
        separate = case.run(torch.cat([tokens[row, :before], more[row, :after]])[None], one).features[0]
        same(first.features[row, :before], separate[:before], f"row {row}")
        same(second[row, :after], separate[before:], f"features after row {row}")


@law(DECODER_LAWS)
def batched(case: DecoderCase, draw: Draw) -> None:
    """A sentence in a padded batch is decoded as it is alone."""
    encoded, memory = case.read(draw, 3)
    tokens = draw.tokens(3, 4, case.types)
    whole = case.run(tokens, memory).features
    for row in range(3):
        length = int(encoded.span.valid[row].sum())
        one = Encoded(
            encoded.states[row : row + 1, :length],
            encoded.embedded[row : row + 1, :length],
            encoded.final[row : row + 1],
            Span.of(encoded.span.valid[row : row + 1, :length]),
        )
        separate = case.run(tokens[row : row + 1], case.decoder.prepare(one)).features
        same(whole[row : row + 1], separate, f"sentence {row} of the batch, alone")


@law(DECODER_LAWS)
def causal(case: DecoderCase, draw: Draw) -> None:
    """A later token does not change earlier features beyond rounding; a token changes its own feature."""
    _, memory = case.read(draw, 2)
    tokens, position = draw.tokens(2, 5, case.types), draw.integer(0, 4)
    other = tokens.clone()
    other[:, position] = (tokens[:, position] + 1) % case.types
    one, two = case.run(tokens, memory).features, case.run(other, memory).features
    same(two[:, :position], one[:, :position], f"features before position {position}", tolerance=1e-13)
    assert not torch.allclose(two[:, position], one[:, position]), f"position {position} does not see its own token"


@law(DECODER_LAWS)
def reorder(case: DecoderCase, draw: Draw) -> None:
    """forward(tokens[rows], select(state, rows)) == forward(tokens, state)[rows], as beam search requires."""
    _, memory = case.read(draw, 3)
    rows, tokens, more = draw.rows(3), draw.tokens(3, 3, case.types), draw.tokens(3, 2, case.types)
    expected = case.run(more, memory, case.run(tokens, memory).state).features[rows]
    actual = case.run(more[rows], memory, select(case.run(tokens, memory).state, rows)).features
    same(actual, expected, "features after selecting rows")


@law(DECODER_LAWS)
def repeated(case: DecoderCase, draw: Draw) -> None:
    """A state repeated n times serves n copies of every row, next to each other, as at the start of a beam."""
    _, memory = case.read(draw, 2)
    times, tokens = draw.integer(1, 3), draw.tokens(2, 2, case.types)
    rows = torch.arange(2).repeat_interleave(times)
    more = draw.tokens(2, 2, case.types)
    expected = case.run(more, memory, case.run(tokens, memory).state).features[rows]
    actual = case.run(more[rows], memory, repeat(case.run(tokens, memory).state, times)).features
    same(actual, expected, "features after repeating rows")


@law(DECODER_LAWS)
def shared(case: DecoderCase, draw: Draw) -> None:
    """Several rows may read one sentence, with the same features as with copies; some sentences may have no reader."""
    _, memory = case.read(draw, 3)
    rows = draw.rows(3)
    tokens = draw.tokens(len(rows), 3, case.types)
    together = case.run(tokens, memory, case.decoder.start(memory, rows)).features
    separate = case.run(tokens, select(memory, rows)).features
    same(together, separate, f"rows {rows.tolist()} of one memory")


@law(DECODER_LAWS)
def compacted(case: DecoderCase, draw: Draw) -> None:
    """Dropping sentences that no row reads any more changes nothing."""
    _, memory = case.read(draw, 4)
    rows, tokens = draw.rows(4), draw.tokens(4, 2, case.types)
    more = draw.tokens(len(rows), 2, case.types)
    expected = case.run(more, memory, select(case.run(tokens, memory).state, rows)).features
    smaller, state = compact(memory, select(case.run(tokens, memory).state, rows))
    assert sentences(smaller) == len(set(rows.tolist())), "sentences without a reader are still in memory"
    same(case.run(more, smaller, state).features, expected, "features after compaction")


@law(DECODER_LAWS)
def joined(case: DecoderCase, draw: Draw) -> None:
    """Rows of two batches, with different source lengths and at different steps, continue as one batch."""
    memories = [case.read(draw, 2, length=length)[1] for length in (draw.integer(2, 3), draw.integer(4, 6))]
    tokens = [draw.tokens(2, length, case.types) for length in (draw.integer(1, 4), draw.integer(1, 4))]
    more = [draw.tokens(2, 2, case.types) for _ in range(2)]

    def state(batch: int) -> State:
        return case.run(tokens[batch], memories[batch]).state

    expected = torch.cat([case.run(more[batch], memories[batch], state(batch)).features for batch in range(2)])
    states = [state(batch)._replace(rows=state(batch).rows + 2 * batch) for batch in range(2)]
    actual = case.run(torch.cat(more), join(memories), join(states)).features
    same(actual, expected, "features after joining rows")


@law(DECODER_LAWS)
def truncated(case: DecoderCase, draw: Draw) -> None:
    """A truncated state equals that of the shorter input; a state that cannot be truncated raises TypeError."""
    _, memory = case.read(draw, 3)
    tokens, more = draw.tokens(3, 5, case.types), draw.tokens(3, 2, case.types)
    length = torch.tensor([draw.integer(1, 5) for _ in range(3)])
    whole = case.run(tokens, memory).state
    try:
        state = truncate(whole, length)
    except TypeError as refusal:
        assert "cannot be truncated" in str(refusal), refusal
        return
    short = case.run(tokens, memory, valid=torch.arange(5) < length[:, None]).state
    actual = case.run(more, memory, state).features
    same(actual, case.run(more, memory, short).features, "features after truncation")


@law(DECODER_LAWS)
def limited(case: DecoderCase, draw: Draw) -> None:
    """No token sees the source from its ``Span.visible_until`` on; a decoder that cannot obey it raises ValueError."""
    encoded, memory = case.read(draw, 3, length=5)
    rows, border = draw.rows(3), draw.integer(1, 4)
    tokens = draw.tokens(len(rows), 4, case.types)
    limit = (1 + draw.tokens(len(rows), 4, 5)).cummax(1).values  # later tokens see at least as much
    span = Span.without_padding(tokens)._replace(visible_until=limit)
    later = (torch.arange(5) >= border)[:, None]
    states, embedded = (torch.where(later, draw.tensor(*x.shape), x) for x in (encoded.states, encoded.embedded))
    other = case.decoder.prepare(encoded._replace(states=states, embedded=embedded))

    def read(memory: Memory, pieces: list[slice]) -> Tensor:
        state, parts = case.decoder.start(memory, rows), []
        for positions in pieces:
            part: Decoded = case.decoder(tokens[:, positions], piece_of(span, positions), memory, state)
            state = part.state
            parts.append(part.features)
        return torch.cat(parts, 1)

    try:
        whole = read(memory, [slice(0, 4)])
    except ValueError as refusal:
        assert "visible_until" in str(refusal), refusal
        return
    blind = (limit <= border)[..., None]
    same(read(other, [slice(0, 4)]) * blind, whole * blind, f"tokens that see {border} positions", tolerance=1e-13)
    same(read(memory, draw.pieces(4)), whole, "tokens in pieces")


@law(DECODER_LAWS)
def saved(case: DecoderCase, draw: Draw) -> None:
    """All learned parameters are in the state dict, and are restored from a safetensors file."""
    encoded, memory = case.read(draw, 2)
    tokens = draw.tokens(2, 4, case.types)
    again = replace(case, decoder=reloaded(case.decoder))
    actual = again.run(tokens, again.decoder.prepare(encoded)).features
    assert torch.equal(actual, case.run(tokens, memory).features), "features after loading"

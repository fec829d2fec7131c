"""Fast decoding with a Transformer decoder: fused projections, packed matrices, a cache written in place."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.attention.contract import Decoder, Encoder
from regard.attention.heads import AttentionReader
from regard.attention.span import Span
from regard.engine.cache import BUCKET, FastSession
from regard.engine.heads import shared_turns
from regard.engine.layer import FastLayer, StepLayout
from regard.engine.obstacles import layer_obstacle
from regard.engine.output import FastHead
from regard.engine.packed import ROUND, pack_layers
from regard.engine.parts import norm, padded
from regard.models.input import TokenInput
from regard.models.transformer.transformer import TransformerDecoder
from regard.search.contract import Reduce


def obstacle(decoder: Decoder) -> str | None:
    """The reason why this decoder has no fast form; None if it has one."""
    if type(decoder) is not TransformerDecoder:
        return f"a {type(decoder).__name__} is not the Transformer's decoder"
    if type(decoder.embedding) is not TokenInput:
        return "its input is something else than tokens"
    return next(filter(None, (layer_obstacle(layer, AttentionReader) for layer in decoder.stack)), None)


class FastEncoderDecoder:
    """``session`` and ``step`` like EncoderDecoder's, with a FastSession as the state.

    ValueError where there is an ``obstacle``.

    Args:
        encoder: the model's encoder, which is copied.
        decoder: the model's decoder, which is copied.
        projection: the output projection.
        bias: the bias of the output projection.
        dtype: the number format to compute in; that of ``projection`` unless given.
    """

    def __init__(
        self, encoder: Encoder, decoder: Decoder, projection: Float[Tensor, "types width"],
        *, bias: Float[Tensor, "types"] | None = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        if (reason := obstacle(decoder)) is not None:
            raise ValueError(f"there is no fast form of this decoder: {reason}")
        self.dtype = dtype = dtype or projection.dtype
        encoder, decoder = deepcopy((encoder, decoder))  # in one call: they may share an embedding
        encoder, decoder = encoder.eval().to(dtype), decoder.eval().to(dtype)
        assert isinstance(decoder, TransformerDecoder)
        self.encoder, self.embedding, self.norm = encoder, cast(TokenInput, decoder.embedding), norm(decoder.norm)
        self.head = FastHead(projection, bias, dtype)
        # One query against a few dozen keys gains nothing from matrix units: on a CPU float32 takes half the time.
        quicker = dtype == torch.bfloat16 and projection.device.type == "cpu"
        self.table_dtype = torch.float32 if quicker else dtype
        turns = shared_turns(decoder.stack, self.table_dtype)
        self.layers = [FastLayer(layer, self.table_dtype, turns) for layer in decoder.stack]
        pack_layers(encoder)

    @torch.no_grad()
    def session(self, source: Int[Tensor, "sentences length"], span: Span) -> FastSession:
        """Encode the sources; the session has one row per sentence, before the first target token."""
        span.refuse_limit(self)
        states, valid = leading(self.encoder(source, span).states, span.valid)
        sources = [layer.source_table(states, valid) for layer in self.layers]
        cells = [layer.empty_cells(states, BUCKET) for layer in self.layers]
        return FastSession.of(cells, sources, valid.sum(1).tolist())

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], session: FastSession
    ) -> tuple[Float[Tensor, "rows length types"], FastSession]:
        """Log-probabilities after each token, in float32 or wider, and the session after all."""
        log_p = []
        for column in tokens.split(1, 1):
            (each,), session = self.chunked_step(column, session, lambda log_p, rows: (log_p,))
            log_p.append(each)
        return torch.stack(log_p, 1), session

    @torch.no_grad()
    def chunked_step(
        self, tokens: Int[Tensor, "rows 1"], session: FastSession, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], FastSession]:
        """A ``ChunkedStep``: reduces few rows at a time, so that their probabilities stay in the cache."""
        session = session.resized()
        found = self.head.reduce(self._features(tokens[:, 0], session), len(tokens), reduce)
        session.time = [time + 1 for time in session.time]
        return found, session

    def _features(self, tokens: Int[Tensor, "rows"], session: FastSession) -> Float[Tensor, "padded width"]:
        rows = len(tokens)
        layout = StepLayout(session, rows if rows == 1 else rows + -rows % ROUND, self.table_dtype)
        x = self.embedding.embed(padded(tokens, layout.padded)[:, None], layout.position()[:, None])[:, 0]
        embedded = x
        for layer, cells, source in zip(self.layers, session.cells, session.sources, strict=True):
            x = layer(x, embedded, cells, source, layout)
        return self.norm(x)


def leading(
    states: Float[Tensor, "sentences length width"], valid: Bool[Tensor, "sentences length"]
) -> tuple[Float[Tensor, "sentences length width"], Bool[Tensor, "sentences length"]]:
    """States with the valid columns of each sentence first, in their order, and which these are."""
    order = torch.argsort(~valid, dim=1, stable=True)
    if torch.equal(valid, valid.gather(1, order)):
        return states, valid
    return states.gather(1, order[..., None].expand_as(states)), valid.gather(1, order)

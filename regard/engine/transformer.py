"""Fast decoding with a Transformer decoder: fused projections, packed matrices, a cache updated in place."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from regard.attention.contract import Decoder, Encoded, Encoder
from regard.attention.heads import AttentionReader
from regard.attention.span import Span
from regard.engine.cache import BUCKET, FastSession
from regard.engine.heads import shared_rotations
from regard.engine.layer import FastLayer, StepLayout
from regard.engine.obstacles import layer_obstacle
from regard.engine.packed import ROUND, FastHead, pack_layers
from regard.engine.parts import norm, padded
from regard.engine.pointer import FastPointer
from regard.models.copying import Copying
from regard.models.input import TokenInput
from regard.models.transformer.transformer import TransformerDecoder
from regard.search.contract import Reduce


def obstacle(decoder: Decoder) -> str | None:
    """Return the reason why this decoder has no fast implementation, or None."""
    if type(decoder) is not TransformerDecoder:
        return f"{type(decoder).__name__} is not the Transformer's decoder"
    if type(decoder.embedding) is not TokenInput:
        return "its input is not tokens only"
    return next(filter(None, (layer_obstacle(layer, AttentionReader) for layer in decoder.stack)), None)


class FastEncoderDecoder:
    """Model with the ``session`` and ``step`` of EncoderDecoder and a FastSession as the state.

    Args:
        encoder: the model's encoder, which is copied.
        decoder: the model's decoder, which is copied.
        projection: the output projection.
        bias: the bias of the output projection.
        copying: the pointer of a model that copies source tokens.
        dtype: the number format of the computation; default: that of ``projection``.

    Raises:
        ValueError: the decoder has an ``obstacle``.
    """

    def __init__(
        self, encoder: Encoder, decoder: Decoder, projection: Float[Tensor, "types width"],
        *, bias: Float[Tensor, "types"] | None = None, copying: Copying | None = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        if (reason := obstacle(decoder)) is not None:
            raise ValueError(f"no fast implementation of this decoder: {reason}")
        self.dtype = dtype = dtype or projection.dtype
        encoder, decoder, copying = deepcopy((encoder, decoder, copying))  # in one call: they may share an embedding
        encoder, decoder = encoder.eval().to(dtype), decoder.eval().to(dtype)
        assert isinstance(decoder, TransformerDecoder)
        self.encoder, self.embedding, self.norm = encoder, cast(TokenInput, decoder.embedding), norm(decoder.norm)
        self.head = FastHead(projection, bias, dtype)
        # Matrix units do not speed up one query against a few dozen keys: on a CPU, float32 takes half the time.
        use_float32 = dtype == torch.bfloat16 and projection.device.type == "cpu"
        self.table_dtype = torch.float32 if use_float32 else dtype
        rotations = shared_rotations(decoder.stack, self.table_dtype)
        self.layers = [FastLayer(layer, self.table_dtype, rotations) for layer in decoder.stack]
        self.pointer = None if copying is None else FastPointer(copying.to(dtype), self.table_dtype)
        pack_layers(encoder, unchanged=encoder.get_submodule("embedding"))

    @torch.no_grad()
    def session(self, source: Shaped[Tensor, "sentences length *features"], span: Span) -> FastSession:
        """Encode the sources; return a session with one row per sentence, before the first target token."""
        span.refuse_limit(self)
        return self.start(self.encoder(source, span), source)

    @torch.no_grad()
    def start(self, encoded: Encoded, source: Shaped[Tensor, "sentences length *features"]) -> FastSession:
        """Return the session of encoded sources before the first target token."""
        span = encoded.span
        states, valid = leading(encoded.states.to(self.dtype), span.valid)
        sources = [layer.source_table(states, valid) for layer in self.layers]
        if self.pointer is not None:
            tokens, _ = leading(source[..., None], span.valid)
            sources.append(self.pointer.source_table(states, valid, tokens[..., 0]))
        cells = [layer.empty_cells(states, BUCKET) for layer in self.layers]
        return FastSession.of(cells, sources, valid.sum(1).tolist())

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], session: FastSession
    ) -> tuple[Float[Tensor, "rows length types"], FastSession]:
        """Return log-probabilities after each token, in float32 or wider, and the session after the last one."""
        log_p = []
        for token in tokens.split(1, 1):
            (token_log_p,), session = self.chunked_step(token, session, lambda log_p, rows: (log_p,))
            log_p.append(token_log_p)
        return torch.stack(log_p, 1), session

    @torch.no_grad()
    def chunked_step(
        self, tokens: Int[Tensor, "rows 1"], session: FastSession, reduce: Reduce
    ) -> tuple[tuple[Tensor, ...], FastSession]:
        """Compute a ``ChunkedStep``; reduces a few rows at a time, to stay within the processor's cache."""
        session = session.resized()
        rows = len(tokens)
        layout = StepLayout(session, rows if rows == 1 else rows + -rows % ROUND, self.table_dtype)
        features = self._features(tokens[:, 0], session, layout)
        pointed = None if self.pointer is None else self.pointer(features, session.sources[-1], layout)
        reduced = self.head.reduce(features, rows, reduce, pointed)
        session.time = [time + 1 for time in session.time]
        return reduced, session

    def _features(
        self, tokens: Int[Tensor, "rows"], session: FastSession, layout: StepLayout
    ) -> Float[Tensor, "padded width"]:
        x = self.embedding.embed(padded(tokens, layout.padded)[:, None], layout.position()[:, None])[:, 0]
        embedded = x
        sources = session.sources[: len(self.layers)]  # without that of the pointer
        for layer, cells, source in zip(self.layers, session.cells, sources, strict=True):
            x = layer(x, embedded, cells, source, layout)
        return self.norm(x)


def leading(
    states: Float[Tensor, "sentences length width"], valid: Bool[Tensor, "sentences length"]
) -> tuple[Float[Tensor, "sentences length width"], Bool[Tensor, "sentences length"]]:
    """Move the valid positions of each sentence to the front, in their order; return states and validity."""
    order = torch.argsort(~valid, dim=1, stable=True)
    if torch.equal(valid, valid.gather(1, order)):
        return states, valid
    return states.gather(1, order[..., None].expand_as(states)), valid.gather(1, order)

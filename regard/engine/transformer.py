"""Fast decoding with a Transformer decoder: fused projections, packed matrices, a cache written in place."""

from __future__ import annotations

from copy import deepcopy
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Decoder, Encoder
from regard.attention.heads import PROJECTIONS, AttentionReader, MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.mechanisms.dot import Dot
from regard.engine.cache import BUCKET, FastSession
from regard.engine.layer import FastLayer, StepLayout, norm
from regard.engine.packed import ROUND, Format, Packed, PackedMatrix, pack, pack_layers
from regard.models.input import TokenInput
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward
from regard.models.transformer.layer import TransformerLayer
from regard.models.transformer.norms import PostNorm, PreNorm
from regard.models.transformer.transformer import TransformerDecoder
from regard.search.contract import Reduce

__all__ = ["FastEncoderDecoder", "obstacle"]

# Rows that share one pass over the output projection, and rows whose probabilities are computed and reduced at a time.
PROJECTED, REDUCED = 64, 16


def obstacle(decoder: Decoder) -> str | None:
    """The reason why this decoder has no fast form; None if it has one."""
    if type(decoder) is not TransformerDecoder:
        return f"a {type(decoder).__name__} is not the Transformer's decoder"
    if type(decoder.embedding) is not TokenInput:
        return "its input is something else than tokens"
    return next(filter(None, map(_obstacle, decoder.stack)), None)


def _obstacle(layer: TransformerLayer) -> str | None:
    """The reason why a layer has no fast form, or None; only exact classes count, since a subclass may differ."""
    mixer, reader = layer.mixer, layer.reader
    if type(layer) is not TransformerLayer or type(mixer) is not SelfAttention or type(reader) is not AttentionReader:
        return "a layer has something else than self-attention and encoder-decoder attention"
    if set(mixer.mask.conjuncts()) != {Causal(), Padding()} or mixer.rotary is not None:
        return "its self-attention is restricted, or turns its keys"
    if set(reader.mask.conjuncts()) != {Padding()}:
        return "its reading of the source is restricted"
    if mixer.value_mix is not None:
        return "its values have embeddings of their own"
    for attention in (mixer.attention, reader.attention):
        if type(attention.mechanism) is not Dot or attention.mechanism.bias is not None:
            return "its attention is not the plain product"
        if attention.query_norm is not None or attention.context_norm is not None or attention.gate is not None:
            return "its attention is normalised or gated"
        projections = (getattr(attention, name) for name in PROJECTIONS)
        if type(attention) is not MultiHead or not all(type(x) is nn.Linear for x in projections):
            return "its attention lacks a projection"
    frames = (layer.around_mixer, layer.around_reader, layer.around_feed_forward)
    if type(layer.feed_forward) not in (FeedForward, GatedFeedForward):
        return f"its feed-forward is a {type(layer.feed_forward).__name__}"
    if layer.start_mix is not None:
        return "its layers look back to the embedding"
    if not all(type(frame) in (PostNorm, PreNorm) for frame in frames):
        return "its residual frames are neither post-norm nor pre-norm"
    return None


class FastEncoderDecoder:
    """``session`` and ``step`` like EncoderDecoder's, with a FastSession as the state.

    ``format`` ``int8`` computes products in 8 bits and everything else in float32, but the layers of a single row in
    bfloat16; so a sentence decoded alone may get another output than in a batch. ValueError where there is an
    ``obstacle``.

    Args:
        encoder: the model's encoder, which is copied.
        decoder: the model's decoder, which is copied.
        projection: the output projection.
        bias: the bias of the output projection.
        dtype: the number format to compute in; that of ``projection`` unless given.
        format: ``float`` for products in ``dtype``, ``int8`` for products in 8 bits.
    """

    def __init__(
        self, encoder: Encoder, decoder: Decoder, projection: Float[Tensor, "types width"],
        *, bias: Float[Tensor, "types"] | None = None, dtype: torch.dtype | None = None, format: Format = "float",
    ) -> None:  # fmt: skip
        if (reason := obstacle(decoder)) is not None:
            raise ValueError(f"there is no fast form of this decoder: {reason}")
        self.dtype = dtype = dtype or projection.dtype
        self.format = format
        encoder, decoder = deepcopy((encoder, decoder))  # in one call: they may share an embedding
        encoder, decoder = encoder.eval().to(dtype), decoder.eval().to(dtype)
        assert isinstance(decoder, TransformerDecoder)
        self.encoder, self.embedding, self.norm = encoder, cast(TokenInput, decoder.embedding), norm(decoder.norm)
        output = PackedMatrix(
            projection.detach().to(dtype, copy=True), None if bias is None else bias.detach().to(dtype)
        )
        self.projection: Packed = pack(output, format, alone=format == "float")
        # One query against a few dozen keys gains nothing from matrix units: on a CPU float32 takes half the time.
        quicker = dtype == torch.bfloat16 and projection.device.type == "cpu"
        self.table_dtype = torch.float32 if quicker else dtype
        self.layers = [FastLayer(layer, format, self.table_dtype) for layer in decoder.stack]
        pack_layers(encoder, format)

    @torch.no_grad()
    def session(
        self, source: Int[Tensor, "sentences length"], source_valid: Bool[Tensor, "sentences length"]
    ) -> FastSession:
        """Encode the sources; the session has one row per sentence, before the first target token."""
        states = self.encoder(source, source_valid).states
        source_mask = torch.zeros_like(source_valid, dtype=self.table_dtype)
        source_mask = source_mask.masked_fill(~source_valid, torch.finfo(self.table_dtype).min)
        sources = [layer.source_table(states, source_valid) for layer in self.layers]
        cells = [layer.empty_cells(states, BUCKET) for layer in self.layers]
        return FastSession.of(cells, sources, source_mask, _extent(source_valid))

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
        session, count, found = session.resized(), len(tokens), []
        features = self._features(tokens[:, 0], session)
        for start in range(0, max(count, 1), PROJECTED):
            logits = self.projection(features[start : start + PROJECTED])[: count - start]
            for number, piece in enumerate(logits.split(REDUCED)):
                first = start + number * REDUCED
                log_p = torch.log_softmax(piece if piece.dtype == torch.float64 else piece.float(), -1)
                found.append(reduce(log_p, slice(first, first + len(piece))))
        session.time = [time + 1 for time in session.time]
        return tuple(map(torch.cat, zip(*found, strict=True))), session

    def _features(self, tokens: Int[Tensor, "rows"], session: FastSession) -> Float[Tensor, "padded width"]:
        rows = len(tokens)
        layout = StepLayout(session, rows if rows == 1 else rows + -rows % ROUND)
        padded = nn.functional.pad(tokens, (0, layout.padded - rows)) if layout.padded > rows else tokens
        x = self.embedding.embed(padded[:, None], layout.position()[:, None])[:, 0]
        x = x.bfloat16() if self.format == "int8" and rows == 1 else x
        for layer, cells, source in zip(self.layers, session.cells, session.sources, strict=True):
            x = layer(x, cells, source, layout)
        features = self.norm(x)
        if features.dtype == self.dtype:
            return features
        # Back to ``dtype``, so that probabilities are not rounded; here many products take as long as one.
        return nn.functional.pad(features.to(self.dtype), (0, 0, 0, ROUND - rows))


def _extent(valid: Bool[Tensor, "sentences length"]) -> list[int]:
    """Per row, the number of leading columns that include every valid one."""
    column = torch.arange(1, valid.shape[1] + 1, device=valid.device)
    extent: list[int] = torch.where(valid, column, 0).amax(1).tolist() if valid.numel() else [0] * len(valid)
    return extent

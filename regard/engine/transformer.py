"""A Transformer decoder for decoding: fused projections, packed matrices, keys and values written in place."""

from __future__ import annotations

from copy import deepcopy

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.contract import Decoder, Encoder
from regard.attention.heads import PROJECTIONS, AttentionReader, MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.mechanisms.dot import Dot
from regard.engine.cache import BUCKET, FastSession
from regard.engine.layer import FastLayer, Now, norm
from regard.engine.packed import ROUND, Format, Packed, PackedMatrix, pack, pack_layers
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward
from regard.models.transformer.norms import PostNorm, PreNorm
from regard.models.transformer.transformer import DecoderLayer, TransformerDecoder
from regard.search.batch_search import Read

__all__ = ["FastEncoderDecoder", "obstacle"]

# Rows that share one pass over the output projection, and those whose probabilities are computed and read at a time.
PROJECTED, READ = 64, 16


def obstacle(decoder: Decoder) -> str | None:
    """Why there is no fast form of this decoder; None if there is."""
    if type(decoder) is not TransformerDecoder:
        return f"a {type(decoder).__name__} is not the Transformer's decoder"
    return next(filter(None, map(_obstacle, decoder.stack)), None)


def _obstacle(layer: DecoderLayer) -> str | None:
    """A class of another name may do anything, in any order: only what is known is read."""
    mixer, reader = layer.mixer, layer.reader
    if type(layer) is not DecoderLayer or type(mixer) is not SelfAttention or type(reader) is not AttentionReader:
        return "a layer has something else than self-attention and encoder-decoder attention"
    if set(mixer.mask.conjuncts()) != {Causal(), Padding()} or mixer.rotary is not None:
        return "its self-attention is restricted, or turns its keys"
    for attention in (mixer.attention, reader.attention):
        if type(attention.mechanism) is not Dot or attention.mechanism.bias is not None:
            return "its attention is not the plain product"
        projections = (getattr(attention, name) for name in PROJECTIONS)
        if type(attention) is not MultiHead or not all(type(x) is nn.Linear for x in projections):
            return "its attention lacks a projection"
    frames = (layer.around_mixer, layer.around_reader, layer.around_feed_forward)
    if type(layer.feed_forward) not in (FeedForward, GatedFeedForward):
        return f"its feed-forward is a {type(layer.feed_forward).__name__}"
    if not all(type(frame) in (PostNorm, PreNorm) for frame in frames):
        return "its residual frames are neither post-norm nor pre-norm"
    return None


class FastEncoderDecoder:
    """``session`` and ``step`` as an EncoderDecoder has them, with a FastSession for its state.

    Made of copies of an EncoderDecoder's parts, in ``dtype`` where one is given: the parts stay as they are. ``format``
    ``int8`` computes products in 8 bits and the rest in ``dtype``, float32; but the layers of a row alone in bfloat16,
    so that it may say something else than it says among others. ValueError where there is an ``obstacle``.
    """

    def __init__(
        self, encoder: Encoder, decoder: Decoder, projection: Float[Tensor, "types width"],
        *, bias: Float[Tensor, "types"] | None = None, dtype: torch.dtype | None = None, format: Format = "float",
    ) -> None:  # fmt: skip
        if (reason := obstacle(decoder)) is not None:
            raise ValueError(f"there is no fast form of this decoder: {reason}")
        self.dtype = dtype = dtype or projection.dtype
        self.format = format
        encoder, decoder = deepcopy((encoder, decoder))  # together: they may share an embedding
        encoder, decoder = encoder.eval().to(dtype), decoder.eval().to(dtype)
        assert isinstance(decoder, TransformerDecoder)
        self.encoder, self.embedding, self.norm = encoder, decoder.embedding, norm(decoder.norm)
        output = PackedMatrix(
            projection.detach().to(dtype, copy=True), None if bias is None else bias.detach().to(dtype)
        )
        self.projection: Packed = pack(output, format, alone=format == "float")
        # One query against a few dozen keys is no work for matrix units: on a CPU float32 takes half the time.
        quicker = dtype == torch.bfloat16 and projection.device.type == "cpu"
        self.memory = torch.float32 if quicker else dtype
        self.layers = [FastLayer(layer, format, self.memory) for layer in decoder.stack]
        pack_layers(encoder, format)

    @torch.no_grad()
    def session(
        self, source: Int[Tensor, "sentences length"], source_valid: Bool[Tensor, "sentences length"]
    ) -> FastSession:
        """Read the sources once; one row per sentence, before the first target token."""
        states = self.encoder(source, source_valid).states
        absent = torch.zeros_like(source_valid, dtype=self.memory)
        absent = absent.masked_fill(~source_valid, torch.finfo(self.memory).min)
        sources = [layer.read(states, source_valid) for layer in self.layers]
        cells = [layer.empty(states, BUCKET) for layer in self.layers]
        return FastSession.of(cells, sources, absent, _extent(source_valid))

    @torch.no_grad()
    def step(
        self, tokens: Int[Tensor, "rows length"], session: FastSession
    ) -> tuple[Float[Tensor, "rows length types"], FastSession]:
        """Tokens to log-probabilities in float32 or wider, and the session after them."""
        log_p = []
        for column in tokens.split(1, 1):
            (each,), session = self.reading(column, session, lambda log_p, rows: (log_p,))
            log_p.append(each)
        return torch.stack(log_p, 1), session

    @torch.no_grad()
    def reading(
        self, tokens: Int[Tensor, "rows 1"], session: FastSession, read: Read
    ) -> tuple[tuple[Tensor, ...], FastSession]:
        """``step`` for who reads rows in pieces: probabilities of some fit into the cache, those of all do not."""
        session, count, found = session.fitted(), len(tokens), []
        features = self._features(tokens[:, 0], session)
        for start in range(0, max(count, 1), PROJECTED):
            logits = self.projection(features[start : start + PROJECTED])[: count - start]
            for number, piece in enumerate(logits.split(READ)):
                first = start + number * READ
                log_p = torch.log_softmax(piece if piece.dtype == torch.float64 else piece.float(), -1)
                found.append(read(log_p, slice(first, first + len(piece))))
        session.time = [time + 1 for time in session.time]
        return tuple(map(torch.cat, zip(*found, strict=True))), session

    def _features(self, tokens: Int[Tensor, "rows"], session: FastSession) -> Float[Tensor, "padded width"]:
        rows = len(tokens)
        now = Now(session, rows if rows == 1 else rows + -rows % ROUND)
        padded = nn.functional.pad(tokens, (0, now.padded - rows)) if now.padded > rows else tokens
        x = self.embedding(padded[:, None], now.position()[:, None])[:, 0]
        x = x.bfloat16() if self.format == "int8" and rows == 1 else x
        for layer, cells, source in zip(self.layers, session.cells, session.sources, strict=True):
            x = layer(x, cells, source, now)
        features = self.norm(x)
        if features.dtype == self.dtype:
            return features
        # Probabilities are not rounded, and many products are as quick here as one.
        return nn.functional.pad(features.to(self.dtype), (0, 0, 0, ROUND - rows))


def _extent(valid: Bool[Tensor, "sentences length"]) -> list[int]:
    """How many columns of each row, from the first, hold all that are valid."""
    column = torch.arange(1, valid.shape[1] + 1, device=valid.device)
    extent: list[int] = torch.where(valid, column, 0).amax(1).tolist() if valid.numel() else [0] * len(valid)
    return extent

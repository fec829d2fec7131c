"""From a config to a model, and from a model to the ``step`` that search sees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from regard.attention.catalogue import build_mechanism
from regard.attention.contract import Decoder, Encoder, Memory, compact
from regard.attention.heads import AttentionReader, MultiHead, SelfAttention
from regard.attention.mask import Causal, Padding
from regard.attention.position import LearnedPosition, NoPosition, Position, SinusoidalPosition
from regard.errors import ConfigError
from regard.models.configuration import MechanismConfig, ModelConfig
from regard.models.norms import PostNorm, PreNorm, Residual
from regard.models.transformer import (
    DecoderLayer,
    Embedding,
    EncoderLayer,
    FeedForward,
    TransformerDecoder,
    TransformerEncoder,
)  # fmt: skip
from regard.state import State, join, repeat, select, truncate

__all__ = ["Session", "Transducer", "build"]


class Session(NamedTuple):
    """What search carries from step to step: the memory of the sentences being read and the decoder's state.

    ``select`` also forgets sentences that no row reads any more, once they are half of the memory.
    """

    memory: Memory
    state: State
    sentences: int

    def select(self, rows: Int[Tensor, "rows"]) -> Session:
        state = select(self.state, rows)
        alive = len(torch.unique(state.rows))
        if 2 * alive > self.sentences:
            return self._replace(state=state)
        return Session(*compact(self.memory, state), alive)

    def repeat(self, times: int) -> Session:
        return self._replace(state=repeat(self.state, times))

    def truncate(self, length: Int[Tensor, "rows"]) -> Session:
        return self._replace(state=truncate(self.state, length))

    def join(self, sessions: list[Session]) -> Session:
        offsets = torch.tensor([0, *(session.sentences for session in sessions)]).cumsum(0).tolist()
        states = [s.state._replace(rows=s.state.rows + at) for s, at in zip(sessions, offsets[:-1], strict=True)]
        return Session(join([s.memory for s in sessions]), join(states), offsets[-1])


class Transducer(nn.Module):
    """An encoder, a decoder and the output projection: sequences in, sequences out."""

    def __init__(self, encoder: Encoder, decoder: Decoder, projection: nn.Parameter) -> None:
        super().__init__()
        self.encoder, self.decoder, self.projection = encoder, decoder, projection

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        source_valid: Bool[Tensor, "batch source"],
        target: Int[Tensor, "batch target"],
        target_valid: Bool[Tensor, "batch target"],
    ) -> Float[Tensor, "batch target width"]:
        """Teacher forcing: features of every target position, given the tokens before it."""
        memory = self.decoder.prepare(self.encoder(source, source_valid))
        rows = torch.arange(len(source), device=source.device)
        return self.decoder(target, memory, self.decoder.start(memory, rows), valid=target_valid).features

    def session(
        self, source: Int[Tensor, "sentences length"], source_valid: Bool[Tensor, "sentences length"]
    ) -> Session:
        """Read the sources once; one row per sentence, before the first target token."""
        memory = self.decoder.prepare(self.encoder(source, source_valid))
        rows = torch.arange(len(source), device=source.device)
        return Session(memory, self.decoder.start(memory, rows), len(source))

    def step(
        self, tokens: Int[Tensor, "rows length"], session: Session
    ) -> tuple[Float[Tensor, "rows length types"], Session]:
        """Tokens to log-probabilities in float32 or wider, and the session after them."""
        features, state = self.decoder(tokens, session.memory, session.state)
        logits = linear(features, self.projection)
        log_p = torch.log_softmax(logits.float() if logits.dtype == torch.bfloat16 else logits, -1)
        return log_p, session._replace(state=state)


def build(config: ModelConfig, *, source_types: int, target_types: int) -> Transducer:
    """The model of that config, freshly initialised from torch's default generator.

    ``share = "all"`` needs a joint vocabulary: source_types == target_types.
    """
    if config.share == "all" and source_types != target_types:
        raise ValueError(f"shared embeddings need one vocabulary; there are {source_types} and {target_types} types")
    target = _embedding_matrix(target_types, config.width)
    source = target if config.share == "all" else _embedding_matrix(source_types, config.width)
    projection = target if config.share != "none" else _embedding_matrix(target_types, config.width)
    encoder = TransformerEncoder(
        _embedding(source, config),
        [_encoder_layer(config) for _ in range(config.encoder_layers)],
        _last_norm(config),
    )
    decoder = TransformerDecoder(
        _embedding(target, config),
        [_decoder_layer(config) for _ in range(config.decoder_layers)],
        _last_norm(config),
    )
    model = Transducer(encoder, decoder, projection)
    _initialise(model)
    return model


def _embedding_matrix(types: int, width: int) -> nn.Parameter:
    return nn.Parameter(torch.empty(types, width).normal_(std=width**-0.5))


def _embedding(weight: nn.Parameter, config: ModelConfig) -> Embedding:
    positions: dict[str, Callable[[], Position]] = {
        "sinusoidal": lambda: SinusoidalPosition(config.width),
        "learned": lambda: LearnedPosition(config.width, longest=config.longest),
        "none": NoPosition,
    }
    return Embedding(weight, positions[config.position](), dropout=config.dropout)


def _frame(config: ModelConfig) -> Residual:
    return (PostNorm if config.norm == "post" else PreNorm)(config.width, dropout=config.dropout)


def _last_norm(config: ModelConfig) -> nn.Module:
    return nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()


def _multi_head(config: ModelConfig, mechanism: MechanismConfig, *, where: str) -> MultiHead:
    options: dict[str, Any] = dict(mechanism.model_extra or {})
    key_width = config.key_width or config.width // config.heads
    sizes = {"heads": config.heads, "query_width": key_width, "key_width": key_width}
    return MultiHead(
        config.width,
        heads=config.heads,
        mechanism=build_mechanism(mechanism.kind, options, where=where, sizes=sizes),
        key_width=config.key_width,
        value_width=config.value_width,
        key_heads=config.key_heads,
        bias=config.attention_bias,
    )


def _self_attention(config: ModelConfig) -> MultiHead:
    return _multi_head(config, config.self_attention, where="model.self_attention")


def _encoder_layer(config: ModelConfig) -> EncoderLayer:
    mixer = SelfAttention(_self_attention(config), mask=Padding())
    return EncoderLayer(mixer, FeedForward(config.width, config.feed_forward), (_frame(config), _frame(config)))


def _decoder_layer(config: ModelConfig) -> DecoderLayer:
    try:
        mixer = SelfAttention(_self_attention(config), mask=Causal() & Padding())
    except ValueError as problem:
        raise ConfigError(
            f"{config.self_attention.kind!r} attention cannot serve in a decoder",
            where="model.self_attention.kind",
            why=str(problem),
        ) from problem
    reader = AttentionReader(_multi_head(config, config.cross_attention, where="model.cross_attention"))
    frames = (_frame(config), _frame(config), _frame(config))
    return DecoderLayer(mixer, reader, FeedForward(config.width, config.feed_forward), frames)


def _initialise(model: nn.Module) -> None:
    """Glorot-uniform matrices and zero biases, as the paper's own code has it."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)

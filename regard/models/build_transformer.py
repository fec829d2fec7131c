"""The Transformer of a config."""

from __future__ import annotations

from typing import TypeVar

from torch import nn

from regard.attention.contract import Mixer
from regard.attention.mask import Causal, Padding
from regard.models.build_parts import embed, reader, self_attention
from regard.models.configuration import ModelConfig, TransformerDecoderConfig, TransformerEncoderConfig
from regard.models.norms import PostNorm, PreNorm, Residual
from regard.models.transformer import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    TransformerDecoder,
    TransformerEncoder,
)

__all__ = ["decoder", "encoder"]

Part = TypeVar("Part", bound=nn.Module)


def encoder(config: ModelConfig, embedding: nn.Parameter) -> TransformerEncoder:
    layers = [_encoder_layer(config) for _ in range(config.encoder_layers)]
    return _glorot(TransformerEncoder(embed(config, embedding), layers, _last_norm(config)))


def decoder(config: ModelConfig, embedding: nn.Parameter, *, states: int, summary: int) -> TransformerDecoder:
    layers = [_decoder_layer(config, states) for _ in range(config.decoder_layers)]
    return _glorot(TransformerDecoder(embed(config, embedding), layers, _last_norm(config)))


def _encoder_layer(config: ModelConfig) -> EncoderLayer:
    assert isinstance(config.encoder, TransformerEncoderConfig)
    own = config.encoder.self_attention
    mixer = self_attention(config, own, mask=Padding(), where="model.encoder.self_attention")
    return EncoderLayer(mixer, _feed_forward(config), (_frame(config), _frame(config)))


def _decoder_layer(config: ModelConfig, states: int) -> DecoderLayer:
    frames = (_frame(config), _frame(config), _frame(config))
    read = reader(config, width=config.width, memory_width=states)
    return DecoderLayer(_decoder_mixer(config), read, _feed_forward(config), frames)


def _decoder_mixer(config: ModelConfig) -> Mixer:
    assert isinstance(config.decoder, TransformerDecoderConfig)
    own = config.decoder.self_attention
    return self_attention(config, own, mask=Causal() & Padding(), where="model.decoder.self_attention")


def _feed_forward(config: ModelConfig) -> FeedForward:
    return FeedForward(config.width, config.feed_forward)


def _frame(config: ModelConfig) -> Residual:
    return (PostNorm if config.norm == "post" else PreNorm)(config.width, dropout=config.dropout)


def _last_norm(config: ModelConfig) -> nn.Module:
    return nn.LayerNorm(config.width) if config.norm == "pre" else nn.Identity()


def _glorot(part: Part) -> Part:
    """Glorot-uniform matrices and zero biases, as the paper's own code has it."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return part

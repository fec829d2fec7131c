"""Construction of the Transformer of a config."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from regard.attention.contract import Mixer
from regard.attention.mask import Causal, Padding
from regard.errors import ConfigError
from regard.models.architectures import TransformerDecoderConfig, TransformerEncoderConfig
from regard.models.configuration import ModelConfig
from regard.models.language_model import LanguageModel
from regard.models.parts import embed, reader, self_attention
from regard.models.transformer.build_positions import AttentionSite, attention_site
from regard.models.transformer.feed_forward import FeedForward, GatedFeedForward, feed_forward
from regard.models.transformer.mixers import build_mixer
from regard.models.transformer.norms import PostNorm, PreNorm, Residual, normalisation
from regard.models.transformer.transformer import DecoderLayer, EncoderLayer, TransformerDecoder, TransformerEncoder

__all__ = ["decoder", "encoder", "language_model"]

Part = TypeVar("Part", bound=nn.Module)


def encoder(config: ModelConfig, embedding: nn.Parameter) -> TransformerEncoder:
    assert isinstance(config.encoder, TransformerEncoderConfig)
    site = attention_site(config, config.encoder.self_attention, where="model.encoder.self_attention", causal=False)
    layers = [_encoder_layer(config, site) for _ in range(config.encoder_layers)]
    return _initial(TransformerEncoder(embed(config, embedding), layers, _last_norm(config)), config.init_std)


def decoder(config: ModelConfig, embedding: nn.Parameter, *, states: int, summary: int) -> TransformerDecoder:
    assert isinstance(config.decoder, TransformerDecoderConfig)
    site = attention_site(config, config.decoder.self_attention, where="model.decoder.self_attention", causal=True)
    layers = [_decoder_layer(config, site, states) for _ in range(config.decoder_layers)]
    return _initial(TransformerDecoder(embed(config, embedding), layers, _last_norm(config)), config.init_std)


def language_model(config: ModelConfig, embedding: nn.Parameter, projection: nn.Parameter) -> LanguageModel:
    """The decoder's side of the config without a source: ``decoder_layers`` of mixing and feed-forward."""
    assert isinstance(config.decoder, TransformerDecoderConfig)
    place = attention_site(config, config.decoder.self_attention, where="model.self_attention", causal=True)
    layers = [
        EncoderLayer(_decoder_mixer(config, place), _feed_forward(config), (_frame(config), _frame(config)))
        for _ in range(config.decoder_layers)
    ]
    bias = nn.Parameter(torch.zeros(len(projection))) if config.output_bias else None
    made = LanguageModel(embed(config, embedding), layers, _last_norm(config), projection, bias)
    return _initial(made, config.init_std)


def _encoder_layer(config: ModelConfig, site: AttentionSite) -> EncoderLayer:
    mixer = self_attention(config, site, mask=Padding())
    return EncoderLayer(mixer, _feed_forward(config), (_frame(config), _frame(config)))


def _decoder_layer(config: ModelConfig, site: AttentionSite, states: int) -> DecoderLayer:
    frames = (_frame(config), _frame(config), _frame(config))
    read = reader(config, width=config.width, memory_width=states, output_width=config.width)
    return DecoderLayer(_decoder_mixer(config, site), read, _feed_forward(config), frames)


def _decoder_mixer(config: ModelConfig, site: AttentionSite) -> Mixer:
    assert isinstance(config.decoder, TransformerDecoderConfig)
    attention, mixer = config.decoder.self_attention, config.decoder.mixer
    if mixer is None:
        return self_attention(config, site, mask=Causal() & Padding())
    if attention is not None:
        why = "the mixer replaces self-attention"
        raise ConfigError("a decoder has self-attention or a mixer, not both", where="model.decoder.mixer", why=why)
    return build_mixer(mixer.kind, mixer.options, width=config.width, where="model.decoder.mixer")


def _feed_forward(config: ModelConfig) -> FeedForward | GatedFeedForward:
    return feed_forward(config.activation, config.width, config.feed_forward, dropout=config.feed_forward_dropout)


def _frame(config: ModelConfig) -> Residual:
    frame = PostNorm if config.norm == "post" else PreNorm
    return frame(config.width, dropout=config.dropout, kind=config.normalisation)


def _last_norm(config: ModelConfig) -> nn.Module:
    return normalisation(config.normalisation, config.width) if config.norm == "pre" else nn.Identity()


def _initial(part: Part, std: float | None) -> Part:
    """Module with biases 0 and matrices Glorot-uniform, as in the paper's code, or N(0, std²), as in BERT."""
    for module in part.modules():
        if isinstance(module, nn.Linear):
            if std is None:
                nn.init.xavier_uniform_(module.weight)
            else:
                nn.init.normal_(module.weight, std=std)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return part

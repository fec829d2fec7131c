"""Construction of a model from a config, and the warnings of its mechanisms."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from regard.attention.contract import Decoder, Encoder, Mechanism
from regard.models.configuration import ModelConfig
from regard.models.convolutional import build as build_convolutional
from regard.models.copying import Copying
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.head import Head
from regard.models.input import Input, TokenInput, embedding_matrix
from regard.models.recurrent import build as build_recurrent
from regard.models.transformer import build as build_transformer


class Architecture(Protocol):
    """Builders of one architecture, from the config of that side and kind.

    ``input``: input layer of the network; the builder sets its positions, dropout and scale. ``states``, ``summary``:
    widths of the encoder's output.
    """

    def encoder(self, config: Any, input: Input) -> Encoder: ...

    def decoder(self, config: Any, input: Input, *, states: int, summary: int) -> Decoder: ...


ARCHITECTURES: dict[str, Architecture] = {
    "transformer": build_transformer,
    "recurrent": build_recurrent,
    "convolutional": build_convolutional,
}


def build(config: ModelConfig, *, source_types: int, target_types: int) -> EncoderDecoder:
    """Build the model of that config, initialized from torch's default generator.

    ``share = "all"`` requires a joint vocabulary: source_types == target_types.
    """
    if config.share == "all" and source_types != target_types:
        raise ValueError(
            f"shared embeddings require one vocabulary: source has {source_types} types, target has {target_types}"
        )
    target = embedding_matrix(target_types, config.decoder.embedding_width)
    source = target if config.share == "all" else embedding_matrix(source_types, config.encoder.embedding_width)
    projection = target if config.share != "none" else embedding_matrix(target_types, config.decoder.features)
    encoder = ARCHITECTURES[config.encoder.kind].encoder(config.encoder, TokenInput(source))
    decoder = ARCHITECTURES[config.decoder.kind].decoder(
        config.decoder, TokenInput(target), states=encoder.width, summary=encoder.summary
    )
    bias = nn.Parameter(torch.zeros(target_types)) if config.output_bias else None
    copying = Copying(config.decoder.features, encoder.width) if config.copying else None
    model = EncoderDecoder(encoder, decoder, Head(projection, bias), copying)
    if config.init_uniform is not None:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -config.init_uniform, config.init_uniform)
    return model


def mechanism_warnings(net: nn.Module, longest: int) -> list[str]:
    """Return the distinct warnings of the mechanisms of a network about sequences of up to ``longest`` tokens."""
    messages = (module.warning(longest) for module in net.modules() if isinstance(module, Mechanism))
    return list(dict.fromkeys(filter(None, messages)))

"""Construction of a model from a config, and the warnings of its mechanisms."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import nn

from regard.attention.contract import Decoder, Encoder, Mechanism
from regard.models.configuration import ModelConfig
from regard.models.convolutional import build as build_convolutional
from regard.models.copying import Copying
from regard.models.ctc import Ctc
from regard.models.ctc_model import CtcModel
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.forecaster import ForecastNet, ForecastSizes
from regard.models.forecaster_config import ForecasterModelConfig
from regard.models.frame_input import FrameInput, frame_input
from regard.models.head import Head
from regard.models.input import Input, TokenInput, embedding_matrix
from regard.models.recurrent import build as build_recurrent
from regard.models.speech_config import SpeechModelConfig
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
    """Build the model of tokens of that config, initialized from torch's default generator.

    Args:
        config: the model; ``share = "all"`` requires a joint vocabulary.
        source_types: entries of the source vocabulary.
        target_types: entries of the target vocabulary.
    """
    if config.share == "all" and source_types != target_types:
        raise ValueError(
            f"shared embeddings require one vocabulary: source has {source_types} types, target has {target_types}"
        )
    target = embedding_matrix(target_types, config.decoder.embedding_width)
    source = target if config.share == "all" else embedding_matrix(source_types, config.encoder.embedding_width)
    projection = target if config.share != "none" else embedding_matrix(target_types, config.decoder.features)
    return _assembled(config, TokenInput(source), target, projection)


def build_recognizer(config: SpeechModelConfig, *, channels: int, target_types: int) -> EncoderDecoder | CtcModel:
    """Build a model from frames to tokens, initialized from torch's default generator.

    Args:
        config: the model; without a decoder, CTC is its only output.
        channels: numbers of a frame.
        target_types: entries of the vocabulary.
    """
    frames = frame_input(channels, config.encoder.embedding_width, config.encoder.input)
    if config.alone:
        encoder = ARCHITECTURES[config.encoder.kind].encoder(config.encoder, frames)
        return CtcModel(encoder, Ctc(encoder.width, target_types))
    target = embedding_matrix(target_types, config.decoder.embedding_width)
    projection = target if config.share != "none" else embedding_matrix(target_types, config.decoder.features)
    return _assembled(config, frames, target, projection, ctc_weight=config.ctc)


def build_forecaster(config: ForecasterModelConfig, sizes: ForecastSizes, *, features: int) -> ForecastNet:
    """Build a model from series to forecasts, initialized from torch's default generator.

    Args:
        config: the model.
        sizes: numbers of time steps, series and outputs.
        features: numbers of a time step of an encoded sequence.
    """
    side, writer, together = config.encoder, config.decoder, config.channels == "together"
    encoder = ARCHITECTURES[side.kind].encoder(side, frame_input(features, side.embedding_width, side.input))
    decoder = None
    if writer.kind != "none":
        patches = FrameInput(sizes.patch * (sizes.targets if together else 1), writer.embedding_width)
        states = {"states": encoder.width, "summary": encoder.summary}
        decoder = ARCHITECTURES[writer.kind].decoder(writer, patches, **states)
    net = ForecastNet(
        encoder, sizes, normalize=config.normalize, output=config.output, together=together, skip=config.skip,
        dropout=config.head_dropout, decoder=decoder,
    )  # fmt: skip
    if net.skip is not None:
        net.skip.weight.requires_grad_(config.skip == "linear" and not config.skip_frozen)
    return net


def _assembled(
    config: ModelConfig, source: Input, target: nn.Parameter, projection: nn.Parameter, *, ctc_weight: float = 0.0
) -> EncoderDecoder:
    """Return the model that reads ``source``, with the matrices of the target and of the output projection."""
    encoder = ARCHITECTURES[config.encoder.kind].encoder(config.encoder, source)
    decoder = ARCHITECTURES[config.decoder.kind].decoder(
        config.decoder, TokenInput(target), states=encoder.width, summary=encoder.summary
    )
    bias = nn.Parameter(torch.zeros(len(projection))) if config.output_bias else None
    copying = Copying(config.decoder.features, encoder.width) if config.copying else None
    ctc = Ctc(encoder.width, len(projection)) if ctc_weight else None
    model = EncoderDecoder(encoder, decoder, Head(projection, bias), copying, ctc=ctc, ctc_weight=ctc_weight)
    if config.init_uniform is not None:
        for parameter in model.parameters():
            nn.init.uniform_(parameter, -config.init_uniform, config.init_uniform)
    return model


def mechanism_warnings(net: nn.Module, longest: int) -> list[str]:
    """Return the distinct warnings of the mechanisms of a network about sequences of up to ``longest`` tokens."""
    messages = (module.warning(longest) for module in net.modules() if isinstance(module, Mechanism))
    return list(dict.fromkeys(filter(None, messages)))

"""Construction of convolutional encoders and decoders from their configs."""

from __future__ import annotations

from itertools import pairwise

from torch import nn

from regard.errors import ConfigError
from regard.models.convolutional.config import (
    ConvolutionalDecoderConfig,
    ConvolutionalEncoderConfig,
    ConvolutionalStackConfig,
)
from regard.models.convolutional.decoder import ConvolutionalDecoder, ConvolutionalLayer, ConvolutionalReader
from regard.models.convolutional.encoder import CenteredConvolution, ConvolutionalEncoder
from regard.models.convolutional.gated_convolution import GatedConvolution
from regard.models.input import Input
from regard.models.parts import absolute_position, reader


def encoder(config: ConvolutionalEncoderConfig, input: Input) -> ConvolutionalEncoder:
    widths, kernels = _layers(config.all_blocks)
    try:
        layers = [
            CenteredConvolution(in_width, out_width, kernel=kernel, dropout=config.dropout)
            for (in_width, out_width), kernel in zip(pairwise(widths), kernels, strict=True)
        ]
    except ValueError as problem:
        why = str(problem)
        raise ConfigError(
            "an encoder with these blocks cannot be built", where="model.encoder.blocks", why=why
        ) from problem
    return ConvolutionalEncoder(
        _configured(config, input),
        layers,
        width=input.width,
        first_width=widths[0],
        last_width=widths[-1],
        dropout=config.dropout,
    )


def decoder(config: ConvolutionalDecoderConfig, input: Input, *, states: int, summary: int) -> ConvolutionalDecoder:
    width = input.width
    if states != width:
        raise ConfigError(
            "a convolutional decoder cannot read this encoder",
            where="model.decoder.kind",
            why=f"it adds the encoder's states (width {states}) to the source embeddings (width {width})",
            help="set model.embedding to the width of the encoder",
        )
    widths, kernels = _layers(config.all_blocks)
    layers = [
        _layer(config, in_width, out_width, kernel=kernel, embedding=width)
        for (in_width, out_width), kernel in zip(pairwise(widths), kernels, strict=True)
    ]
    return ConvolutionalDecoder(
        _configured(config, input),
        layers,
        width=width,
        first_width=widths[0],
        last_width=widths[-1],
        dropout=config.dropout,
    )


def _layer(
    config: ConvolutionalDecoderConfig, in_width: int, width: int, *, kernel: int, embedding: int
) -> ConvolutionalLayer:
    read = reader(config, config.cross_attention, width=embedding, memory_width=embedding)
    mixer = GatedConvolution(width, kernel=kernel, in_width=in_width, dropout=config.dropout)
    return ConvolutionalLayer(mixer, ConvolutionalReader(read), width=width, embedding=embedding, in_width=in_width)


def _layers(blocks: tuple[tuple[int, int, int], ...]) -> tuple[list[int], list[int]]:
    """Return the widths between the layers, one more than there are layers, and the kernels of the layers."""
    layers = [(width, kernel) for width, kernel, times in blocks for _ in range(times)]
    return [layers[0][0], *(width for width, _ in layers)], [kernel for _, kernel in layers]


def _configured(config: ConvolutionalStackConfig, input: Input) -> Input:
    """Return the input with positions; all of its parameters start N(0, 0.1²) and are added without a scale (§3.5)."""
    input.configure(absolute_position(config.position, input.width), dropout=config.dropout, scale=1.0)
    for parameter in input.parameters():
        nn.init.normal_(parameter, std=0.1)
    return input

"""Construction of recurrent encoders and decoders from their configs."""

from __future__ import annotations

from collections.abc import Callable

from regard.attention.contract import Decoder
from regard.errors import ConfigError
from regard.models.input import Input
from regard.models.parts import reader
from regard.models.recurrent.cells import GRU, LSTM, Cell, Elman
from regard.models.recurrent.config import (
    CellConfig,
    RecurrentDecoderConfig,
    RecurrentEncoderConfig,
    RecurrentStackConfig,
)
from regard.models.recurrent.decoder_memory import Bridge, CopiedState, LearnedState
from regard.models.recurrent.decoders import BahdanauDecoder, FixedContextDecoder, InputFeedingDecoder, LuongDecoder
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.recurrent.stack import Stack


def encoder(config: RecurrentEncoderConfig, input: Input) -> RecurrentEncoder:
    directions = 2 if config.bidirectional else 1
    in_widths = [input.width] + [config.features] * (config.layers - 1)
    layers = [[_cell(config.cell, in_width, config.width) for _ in range(directions)] for in_width in in_widths]
    return RecurrentEncoder(_configured(config, input), layers, dropout=config.dropout, reversed=config.reversed)


def decoder(config: RecurrentDecoderConfig, input: Input, *, states: int, summary: int) -> Decoder:
    input = _configured(config, input)
    if config.order == "none":
        cells = _stack(config, input.width + config.width)
        return FixedContextDecoder(
            input, cells, _bridge(config, summary, cells), summary=summary, dropout=config.dropout
        )
    read = reader(config, config.cross_attention, width=config.width, memory_width=states)
    if config.order == "bahdanau":
        cells = _stack(config, input.width + read.width)
        bridge, readout = _bridge(config, summary, cells), config.features
        return BahdanauDecoder(input, cells, read, bridge, readout=readout, dropout=config.dropout)
    cells = _stack(config, input.width + (config.width if config.input_feeding else 0))
    kind = InputFeedingDecoder if config.input_feeding else LuongDecoder
    return kind(input, cells, read, _bridge(config, summary, cells), dropout=config.dropout)


def _configured(config: RecurrentStackConfig, input: Input) -> Input:
    return input.configure(dropout=config.dropout, scale=None if config.scale_embedding else 1.0)


def _stack(config: RecurrentDecoderConfig, in_width: int) -> Stack:
    in_widths = [in_width] + [config.width] * (config.layers - 1)
    return Stack([_cell(config.cell, layer_width, config.width) for layer_width in in_widths], dropout=config.dropout)


def _bridge(config: RecurrentDecoderConfig, summary: int, cells: Stack) -> Bridge:
    try:
        return (CopiedState if config.start == "copied" else LearnedState)(summary, cells)
    except ValueError as problem:
        what = "the decoder's cells cannot start from the encoder's last states"
        raise ConfigError(what, where="model.decoder.start", why=str(problem)) from problem


def _cell(config: CellConfig, in_width: int, width: int) -> Cell:
    kinds: dict[str, Callable[[], Cell]] = {
        "elman": lambda: Elman(in_width, width),
        "lstm": lambda: LSTM(in_width, width),
        "gru": lambda: GRU(in_width, width, reset=config.reset, update=config.update),
    }
    cell = kinds[config.kind]()
    if config.orthogonal:
        cell.make_orthogonal()
    cell.add_forget_bias(config.forget_bias)
    return cell

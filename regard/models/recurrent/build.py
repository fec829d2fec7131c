"""Construction of the recurrent model of a config."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from regard.attention.contract import Decoder
from regard.errors import ConfigError
from regard.models.architectures import CellConfig, RecurrentDecoderConfig, RecurrentEncoderConfig
from regard.models.configuration import ModelConfig
from regard.models.parts import reader
from regard.models.recurrent.bahdanau import BahdanauDecoder
from regard.models.recurrent.bridge import Bridge, CopiedState, LearnedState
from regard.models.recurrent.cells import GRU, LSTM, Cell, Elman
from regard.models.recurrent.encoder import RecurrentEncoder
from regard.models.recurrent.fixed_context_decoder import FixedContextDecoder
from regard.models.recurrent.luong import InputFeedingDecoder, LuongDecoder
from regard.models.recurrent.stack import Stack
from regard.models.recurrent.token_embedding import TokenEmbedding

__all__ = ["decoder", "encoder"]


def encoder(config: ModelConfig, embedding: nn.Parameter) -> RecurrentEncoder:
    assert isinstance(config.encoder, RecurrentEncoderConfig)
    side = config.encoder
    directions = 2 if side.bidirectional else 1
    width = side.width or config.width // directions
    in_widths = [embedding.shape[1]] + [directions * width] * (config.encoder_layers - 1)
    layers = [[_cell(side.cell, in_width, width) for _ in range(directions)] for in_width in in_widths]
    words = TokenEmbedding(embedding, dropout=config.dropout, scaled=side.scale_embedding)
    return RecurrentEncoder(words, layers, dropout=config.dropout, reversed=side.reversed)


def decoder(config: ModelConfig, embedding: nn.Parameter, *, states: int, summary: int) -> Decoder:
    assert isinstance(config.decoder, RecurrentDecoderConfig)
    side = config.decoder
    words = TokenEmbedding(embedding, dropout=config.dropout, scaled=side.scale_embedding)
    if side.order == "none":
        cells = _stack(config, side.cell, words.width + config.width)
        return FixedContextDecoder(words, cells, _bridge(side, summary, cells), summary=summary, dropout=config.dropout)
    read = reader(config, width=config.width, memory_width=states)
    if side.order == "bahdanau":
        cells = _stack(config, side.cell, words.width + read.width)
        bridge, readout = _bridge(side, summary, cells), config.features
        return BahdanauDecoder(words, cells, read, bridge, readout=readout, dropout=config.dropout)
    cells = _stack(config, side.cell, words.width + (config.width if side.input_feeding else 0))
    kind = InputFeedingDecoder if side.input_feeding else LuongDecoder
    return kind(words, cells, read, _bridge(side, summary, cells), dropout=config.dropout)


def _stack(config: ModelConfig, cell: CellConfig, in_width: int) -> Stack:
    in_widths = [in_width] + [config.width] * (config.decoder_layers - 1)
    return Stack([_cell(cell, each, config.width) for each in in_widths], dropout=config.dropout)


def _bridge(side: RecurrentDecoderConfig, summary: int, cells: Stack) -> Bridge:
    try:
        return (CopiedState if side.start == "copied" else LearnedState)(summary, cells)
    except ValueError as problem:
        what = "the decoder's cells cannot start as the encoder's ended"
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

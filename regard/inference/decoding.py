"""A trained model as a function from source tokens to hypotheses: engines, and the start of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor

from regard.attention.positions.absolute import max_positions
from regard.attention.span import Span
from regard.config.settings import ChoiceConfig, SearchConfig
from regard.core.state import State
from regard.data.pairs import pad_sources
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.engine.native import NativeEncoderDecoder
from regard.engine.native import obstacle as decoder_obstacle
from regard.engine.obstacles import copying_obstacle
from regard.engine.transformer import FastEncoderDecoder
from regard.engine.transformer import obstacle as layers_obstacle
from regard.errors import ConfigError
from regard.inference.search_model import SearchInput, WatchBeam, require_probabilities, start_search
from regard.models.encoder_decoder import EncoderDecoder
from regard.native.library import find
from regard.search.contract import ChunkedStep, Reduce, StatePair, Symbols, chunked

Engine = Literal["reference", "float32", "torch", "bfloat16", "int8"]
RequestedEngine = Engine | Literal["auto"]  # auto: by trial, for a run
SYMBOLS = Symbols(BEGIN, END, suppressed=(PAD, BEGIN))


class Sources(Protocol):
    """The sources of a model: their form as tensors, and the limits of their outputs."""

    def pad(self, sources: Sequence[Any], ended: Sequence[bool]) -> tuple[Tensor, Tensor]:
        """Return the sources (rows, length, *features) and which positions are valid (rows, length).

        ``ended``: whether each source is complete; an END follows the tokens of a complete source only.
        """

    def limits(self, sources: Sequence[Any], settings: SearchConfig) -> list[int]:
        """Return the maximum number of tokens of the outputs of each source, END included."""


class TokenSources:
    """Sources of tokens: an output may have ``search.max_extra`` more tokens than its source, END included."""

    def pad(self, sources: Sequence[Sequence[int]], ended: Sequence[bool]) -> tuple[Tensor, Tensor]:
        return pad_sources([list(tokens) for tokens in sources], ended)

    def limits(self, sources: Sequence[Sequence[int]], settings: SearchConfig) -> list[int]:
        return [len(tokens) + 1 + settings.max_extra for tokens in sources]


def max_lengths(
    sources: Sources, inputs: Sequence[SearchInput], settings: SearchConfig, positions: int | None
) -> Tensor:  # fmt: skip
    """Return the maximum number of tokens of the outputs of each input, within all limits.

    Args:
        sources: of the model.
        inputs: of a search.
        settings: of the search.
        positions: the number of learned positions of the decoder; None if unlimited.
    """
    longest = torch.tensor(sources.limits([input.tokens for input in inputs], settings))
    for limit in (settings.max_length, positions):
        longest = longest if limit is None else longest.clamp_max(limit)
    return longest


class Decoding:
    """An encoder-decoder for one ``engine`` (see Translator).

    ``open`` encodes sources; ``step`` feeds a token to all rows.
    """

    def __init__(self, model: EncoderDecoder, engine: Engine, sources: Sources | None = None) -> None:
        self.sources: Sources = sources or TokenSources()
        self.device = model.head.weight.device
        self.positions = max_positions(model)  # outputs cannot exceed a learned position table
        self._model: EncoderDecoder | FastEncoderDecoder | NativeEncoderDecoder = model
        self._chunked_step: ChunkedStep = chunked(model.step)
        if engine != "reference":
            self._model = fast = fast_form(model, engine)
            self._chunked_step = fast.chunked_step

    @torch.no_grad()
    def open(
        self, ids: Sequence[int], inputs: Sequence[SearchInput], settings: ChoiceConfig, watch: WatchBeam | None = None
    ) -> StatePair:
        """See ``SearchModel``. ``inputs``: sources, which are encoded in one pass."""
        assert isinstance(settings, SearchConfig)
        tokens, ended = [input.tokens for input in inputs], [input.ended for input in inputs]
        source, valid = (x.to(self.device) for x in self.sources.pad(tokens, ended))
        longest = max_lengths(self.sources, inputs, settings, self.positions).to(self.device)
        session = self._model.session(source, Span.of(valid))
        best = (
            settings.beam if settings.covers else None
        )  # the coverage penalty ranks all finished hypotheses of a beam
        state, rows = start_search(
            ids, inputs, settings, SYMBOLS, max_lengths=longest, best=best, watch=watch
        )  # fmt: skip
        return state, session if rows == 1 else session.repeat(rows)

    def source_attention(
        self, sources: Sequence[Any], targets: Sequence[Sequence[int]], name: str, *, ended: bool = True
    ) -> Tensor | None:
        """Return the weights (sentences, heads, queries, positions) of an attention to the source, if the kernels do.

        Args:
            sources: one for each target.
            targets: the tokens of the outputs, without BEGIN and END; query t reads token t − 1.
            name: of the attention, as in ``attention.observe``: ``decoder.2.source``.
            ended: whether the sources are complete.

        Returns:
            The weights, undefined after the end of a target; None if the model has no such attention in the kernels.
        """
        side, _, rest = name.partition(".")
        layer, _, part = rest.partition(".")
        if not isinstance(self._model, NativeEncoderDecoder) or (side, part) != ("decoder", "source"):
            return None
        source, valid = self.sources.pad(sources, [ended] * len(sources))
        return self._model.attention(source, Span.of(valid), targets, int(layer))

    @torch.no_grad()
    def step(self, tokens: Tensor, session: State, read: Reduce) -> tuple[tuple[Tensor, ...], State]:
        """See ``ChunkedStep``. ModelError if the model computes no probabilities."""
        reduced, session = self._chunked_step(tokens, session, read)
        require_probabilities(reduced)
        return reduced, session


def fast_form(model: EncoderDecoder, engine: Engine) -> FastEncoderDecoder | NativeEncoderDecoder:
    """Return the model for the C kernels if they support it and the format, otherwise for torch.

    ValueError for int8 without the kernels.
    """
    parts: dict[str, Any] = {
        "encoder": model.encoder, "decoder": model.decoder, "projection": model.head.weight, "bias": model.head.bias,
        "copying": model.copying,
    }  # fmt: skip
    if engine == "int8" or (engine == "float32" and native_obstacle(model) is None):
        return NativeEncoderDecoder(**parts, format=engine)
    return FastEncoderDecoder(**parts, dtype=torch_dtype(engine))


def native_obstacle(model: EncoderDecoder) -> str | None:
    """Return the reason why the C kernels do not support this model; None if they do."""
    return kernels_missing(model.head.weight) or copying_obstacle(model.copying) or decoder_obstacle(model.decoder)


def torch_obstacle(model: EncoderDecoder) -> str | None:
    """Return the reason why the model cannot be decoded with packed matrices, on any engine; None if it can."""
    return copying_obstacle(model.copying) or layers_obstacle(model.decoder)


def kernels_missing(weight: Tensor) -> str | None:
    """Return the reason why the kernels cannot be used with such weights; None if they can."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32:
        dtype = str(weight.dtype).removeprefix("torch.")
        return f"they require float32 on a CPU, and the model is {dtype} on {weight.device.type}"
    return find().reason


def require_engine(engine: object) -> None:
    """Raise ConfigError unless this is the name of an engine."""
    if engine not in (names := (*get_args(Engine), "auto")):
        raise ConfigError(f"unknown engine {engine!r}", where="engine", help=f"use one of {', '.join(names)}")


def possible(engine: RequestedEngine | None, reason: str | None, missing: str | None) -> Engine:
    """Return the requested engine, or by default the best one with the model's own outputs.

    Args:
        engine: the requested engine; None for the default.
        reason: why the model has no fast form; None if it has one.
        missing: why the C kernels, the only engine for 8-bit products, do not support it; None if they do.
    """
    if engine is None:
        return "float32" if reason is None else "reference"
    require_engine(engine)
    if engine == "auto":
        raise ConfigError("engine auto requires a run folder", where="engine", help="use regard.load")
    if engine == "int8" and reason is None and missing is not None:
        raise ConfigError(
            "the model cannot decode in int8", where="engine", why=f"8-bit products need the C kernels: {missing}",
            help="omit it to use float32, exact up to rounding; regard doctor shows the state of the kernels",
        )  # fmt: skip
    if reason is not None and engine != "reference":
        raise ConfigError(
            f"the model cannot decode in {engine}", where="engine", why=reason, help="omit it, or use reference"
        )
    return engine


def torch_dtype(engine: Engine) -> torch.dtype | None:
    """Return the number format in which torch computes an engine; None for that of the model."""
    return torch.bfloat16 if engine == "bfloat16" else None

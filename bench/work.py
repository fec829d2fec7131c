"""What the measurements of ours alone run again and again: an update, or the decoding of a batch, of drawn numbers."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.span import Span
from regard.core.task import ExampleIndices
from regard.data.pairs import PairBatch
from regard.data.tokenizers.tokenizer import BEGIN, END, PAD
from regard.engine.native import NativeEncoderDecoder
from regard.engine.transformer import FastEncoderDecoder
from regard.inference.decoding import Engine, fast_form
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs.config import load_config
from regard.search.batch_search import search
from regard.search.beam import start_beam
from regard.search.contract import Symbols
from regard.search.rows import start_rows
from regard.tasks.translation.task import objective
from regard.training.optim import Optimizer
from regard.training.shards import Shards, Workers
from regard.training.strategy import Trainable

__all__ = ["OUTPUT", "decoding", "fast", "model", "reading", "update"]

OUTPUT = 16  # pieces that are decoded
SYMBOLS = Symbols(BEGIN, END, suppressed=(PAD, BEGIN, END))


def model(preset: str, types: int, *, copying: bool = False) -> EncoderDecoder:
    torch.manual_seed(1)
    config = ModelConfig.model_validate({"preset": preset, "copying": copying})
    return build(config, source_types=types, target_types=types)


def update(of: EncoderDecoder, *, batch: int, length: int, types: int, threads: int) -> Callable[[], None]:
    """Forward, backward and Adam in the model's number format, by one worker."""
    of, optimizer = of.train(), Optimizer(of)
    tokens, valid = _drawn(batch, length, types)
    rows = PairBatch(tokens, valid, tokens, tokens, valid, torch.arange(batch), float(valid.sum()))
    config = load_config({"data": {"train": []}, "train": {"label_smoothing": 0.1}})
    trainable, shards = Trainable(of, objective(config)), Shards(1, Workers(1, threads))
    whole = ExampleIndices(np.arange(batch), np.zeros(batch, np.int64))
    examples: Any = SimpleNamespace(collate=lambda each: rows)

    def run() -> None:
        found = shards.gradient(trainable, examples, [whole], {}, seed=(1,))
        optimizer.step(1e-6, found.values)

    return run


def fast(of: EncoderDecoder, kind: Engine) -> FastEncoderDecoder | NativeEncoderDecoder:
    """``float32``, ``bfloat16`` or ``int8``, by the kernels in C where they compute it."""
    return fast_form(of, kind)


def decoding(
    of: FastEncoderDecoder | NativeEncoderDecoder, *, batch: int, length: int, types: int, beam: int | None
) -> Callable[[], None]:
    """Every sentence to ``OUTPUT`` pieces, greedily where there is no beam."""
    source, span = _drawn(batch, length, types)
    longest: Any = torch.full((batch,), OUTPUT)

    @torch.no_grad()
    def run() -> None:
        numbers = range(batch)
        live = start_rows(numbers, SYMBOLS, max_lengths=longest)
        if beam is not None:
            live = start_beam(numbers, SYMBOLS, max_lengths=longest, width=beam)
        for _ in search(of.chunked_step, (live, of.session(source, span))):
            pass

    return run


def reading(of: FastEncoderDecoder | NativeEncoderDecoder, *, length: int, types: int) -> Callable[[], None]:
    """What comes before the first token of one sentence."""
    source, span = _drawn(1, length, types)

    def run() -> None:
        of.session(source, span)

    return run


def _drawn(batch: int, length: int, types: int) -> tuple[Tensor, Span]:
    tokens = torch.randint(4, types, (batch, length))
    return tokens, Span.without_padding(tokens)

"""The engine of a run by trial on its own validation data, remembered beside it."""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.mask import Span
from regard.attention.positions.absolute import max_positions
from regard.core.task import Report
from regard.data.corpus import Corpus
from regard.data.document_stream import DocumentStream
from regard.data.pairs import pad_sources
from regard.data.stream import Stream
from regard.data.tokenizers.catalogue import BEGIN
from regard.errors import DataError, StorageError
from regard.inference.decoding import Engine
from regard.inference.engine_choice import Lines, candidates, choose, explain, kernel_set, measure, trial_of
from regard.inference.remembered_choice import alone, recall, remember
from regard.models.encoder_decoder import EncoderDecoder, shift_right
from regard.models.language_model import LanguageModel
from regard.runs.run_folder import RunFolder, environment

__all__ = ["automatic_engine", "lines_of"]

ROWS, COLUMNS = 32, 24
CONDITIONS = ("regard", "torch", "processor", "vector_instructions", "threads")


def automatic_engine(
    run: RunFolder, net: nn.Module, codecs: Any, checkpoint: Path, say: Report,
    clock: Callable[[], float] = time.perf_counter,
) -> Engine | None:  # fmt: skip
    """The fastest engine that is exact enough for a run on this machine; None where there is nothing to choose.

    ``say`` is told which, and why.
    """
    names = candidates(net)
    if len(names) < 2:
        return None
    key = _key(checkpoint)
    with alone(run.path):
        measured = recall(run.path, key)
        if measured is None or set(measured) != set(names):
            lines = lines_of(run, net, codecs)
            if lines is None:
                say(f"engine float32: {run.data} holds no prepared lines to measure others on")
                return "float32"
            known = cast(EncoderDecoder | LanguageModel, net)
            measured = measure({name: trial_of(known, name, lines) for name in names}, clock)
            remember(run.path, key, measured)
    say(explain(measured))
    return choose(measured)


def _key(checkpoint: Path) -> str:
    """A sha256 over all that decides what is measured: the weights, versions, instructions and threads."""
    manifest = hashlib.sha256((checkpoint / "manifest.json").read_bytes()).hexdigest()
    now = environment()
    conditions = [manifest, kernel_set(), *(now[each] for each in CONDITIONS)]
    return hashlib.sha256(json.dumps(conditions).encode()).hexdigest()


def lines_of(run: RunFolder, net: nn.Module, codecs: Any) -> Lines | None:
    """A few lines of the prepared validation data, or else of the training data; None where neither is there."""
    positions, config = max_positions(net), cast(Any, run.config)
    for name in ("valid-0", "train-0"):
        try:
            if isinstance(net, EncoderDecoder):
                most = min(config.data.max_length, sys.maxsize if positions is None else positions - 1)  # END
                found = _pairs(Corpus.open(run.data / name), codecs, most)
            else:
                longest = min(COLUMNS, config.data.context, positions or COLUMNS)
                found = _text(_tokens(run.data / name), codecs, longest)
        except (DataError, StorageError):
            continue
        if found is not None:
            return found
    return None


def _pairs(corpus: Corpus, codecs: Any, most: int) -> Lines | None:
    rows = _spread(len(corpus), ROWS)
    sources, targets = ([side(row)[:most].tolist() for row in rows] for side in (corpus.source, corpus.target))
    if not rows or _highest(sources) >= len(codecs.source) or _highest(targets) >= len(codecs.target):
        return None
    source, source_valid = pad_sources(sources)
    wanted, counted = (each[:, :COLUMNS] for each in pad_sources(targets))
    return Lines(shift_right(wanted, BEGIN), wanted, counted, source, Span.of(source_valid))


def _tokens(folder: Path) -> Tensor:
    try:
        found: Stream | DocumentStream = Stream.open(folder)
    except DataError:
        found = DocumentStream.open(folder)
    length = len(found.tokens)
    if length < 2:
        raise DataError("there is no text here", where=str(folder))
    places = np.array(_spread(max(length - COLUMNS, 1), ROWS))[:, None] + np.arange(COLUMNS + 1)
    return torch.from_numpy(found.tokens[np.minimum(places, length - 1)].astype(np.int64))


def _text(tokens: Tensor, codecs: Any, longest: int) -> Lines | None:
    if int(tokens.max()) >= len(codecs.tokenizer):
        return None
    given, wanted = tokens[:, :longest], tokens[:, 1 : longest + 1]
    return Lines(given, wanted, torch.ones_like(wanted, dtype=torch.bool))


def _spread(count: int, wanted: int) -> list[int]:
    """So many of the numbers below ``count``, or all, evenly."""
    return sorted({number * count // wanted for number in range(wanted)}) if count else []


def _highest(rows: list[list[int]]) -> int:
    return max((number for row in rows for number in row), default=0)

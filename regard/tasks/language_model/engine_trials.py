"""Timed trials of the engines that can generate with a language model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.attention.positions.absolute import max_positions
from regard.core.task import RunFiles
from regard.data.document_stream import DocumentStream
from regard.data.stream import Stream
from regard.engine.language_model import obstacle
from regard.errors import DataError
from regard.inference.causal_decoding import causal_decoder, native_obstacle
from regard.inference.decoding import Engine
from regard.inference.engine_choice import COLUMNS, Lines, ReadingTrial, Trial, first_lines, spread, usable_engines
from regard.models.language_model import LanguageModel


@dataclass(frozen=True)
class CausalTrials:
    """Trials of a language model (``inference.engine_choice.EngineTrials``)."""

    run: RunFiles
    net: LanguageModel
    codecs: Any

    def candidates(self) -> list[Engine]:
        return usable_engines(self.net.head.weight, obstacle(self.net), native_obstacle(self.net))

    def lines(self) -> Lines | None:
        """Return a few windows of the prepared validation data, or of the training data without it."""
        return first_lines(self.run.data, self._read)

    def _read(self, folder: Path) -> Lines | None:
        longest, tokens = (
            min(COLUMNS, self.run.config.data.context, max_positions(self.net) or COLUMNS),
            _tokens(folder),
        )
        if int(tokens.max()) >= len(self.codecs.tokenizer):
            return None
        targets = tokens[:, 1 : longest + 1]
        return Lines(tokens[:, :longest], targets, torch.ones_like(targets, dtype=torch.bool))

    def trial(self, engine: Engine, lines: Lines) -> Trial:
        model: Any = causal_decoder(self.net, engine)  # every candidate engine has a decoder
        return ReadingTrial(model.chunked_step, partial(model.start, len(lines.inputs)), lines)


def _tokens(folder: Path) -> Tensor:
    try:
        stream: Stream | DocumentStream = Stream.open(folder)
    except DataError:
        stream = DocumentStream.open(folder)
    length = len(stream.tokens)
    if length < 2:
        raise DataError("the prepared data has no text", where=str(folder))
    positions = np.array(spread(max(length - COLUMNS, 1)))[:, None] + np.arange(COLUMNS + 1)
    return torch.from_numpy(stream.tokens[np.minimum(positions, length - 1)].astype(np.int64))

"""Trials of the decoding engines of a translation model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from regard.attention.positions.absolute import max_positions
from regard.attention.span import Span
from regard.core.task import RunFiles
from regard.data.corpus import Corpus
from regard.data.pairs import pad_sources
from regard.data.tokenizers.tokenizer import BEGIN
from regard.inference.decoding import Engine, fast_form, native_obstacle, torch_obstacle
from regard.inference.engine_choice import COLUMNS, Lines, ReadingTrial, Trial, first_lines, spread, usable_engines
from regard.models.encoder_decoder import EncoderDecoder, shift_right
from regard.tasks.translation.codecs import Codecs


@dataclass(frozen=True)
class PairTrials:
    """See ``inference.engine_choice.EngineTrials``."""

    run: RunFiles
    net: EncoderDecoder
    codecs: Codecs

    def candidates(self) -> list[Engine]:
        return usable_engines(self.net.head.weight, torch_obstacle(self.net), native_obstacle(self.net))

    def lines(self) -> Lines | None:
        """Return a few pairs of the prepared validation data, or else of the training data."""
        return first_lines(self.run.data, self._read)

    def _read(self, folder: Path) -> Lines | None:
        corpus, positions = Corpus.open(folder), max_positions(self.net) or sys.maxsize
        limit = min(self.run.config.data.max_length, positions - 1)  # one position is for END
        rows = spread(len(corpus))
        sources, targets = ([side(row)[:limit].tolist() for row in rows] for side in (corpus.source, corpus.target))
        if not rows or _highest(sources) >= len(self.codecs.source) or _highest(targets) >= len(self.codecs.target):
            return None
        source, source_valid = pad_sources(sources)
        target, target_valid = (table[:, :COLUMNS] for table in pad_sources(targets))
        return Lines(shift_right(target, BEGIN), target, target_valid, source, Span.of(source_valid))

    def trial(self, engine: Engine, lines: Lines) -> Trial:
        assert lines.source is not None and lines.source_span is not None
        model = fast_form(self.net, engine)
        return ReadingTrial(model.chunked_step, partial(model.session, lines.source, lines.source_span), lines)


def _highest(rows: list[list[int]]) -> int:
    return max((number for row in rows for number in row), default=0)

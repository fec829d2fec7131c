"""Export of models from text to text, compared by greedy outputs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.export_forms import PairForm
from regard.core.wording import pluralize
from regard.errors import ConfigError
from regard.runs.run_folder import RunFolder
from regard.share.export_format import Decode, ExportFormat, lines_to_compare
from regard.share.parity import PairModel, Parity, compare, greedy_decoder
from regard.tasks.load import load


@dataclass(frozen=True)
class PairExport:
    """A run opened for a format: see ``export_format.Export``."""

    run: RunFolder
    checkpoint: str | None
    model: PairModel
    writer: Callable[[PairExport, Path], None]
    decoder: Callable[[PairModel, Path], Decode]
    positions: int  # maximum length of a source, including its end symbol, and of an output
    quantization: str | None = None

    @property
    def config(self) -> Any:
        return self.run.config

    @property
    def longest(self) -> int:
        """Return the maximum number of pieces of a source that model and export can read."""
        return min(self.model.max_length, self.positions - 1)

    def inputs(self, source: Path | None, limit: int) -> list[list[int]]:
        """Return the pieces of each line, including lines that are too long."""
        lines = lines_to_compare(self.run, source, limit)
        if not lines:
            raise ConfigError(
                "no sentence to compare", where=str(source or self.run.path), help="name a file with --source FILE"
            )
        encoded = [self.model.source.encode(line) for line in lines]
        if min(map(len, encoded)) > self.longest:
            raise ConfigError(
                f"all sentences to compare are longer than {pluralize(self.longest, 'piece')}",
                help="name a file with shorter sentences: --source FILE",
            )
        return encoded

    def write(self, folder: Path) -> None:
        self.writer(self, folder)

    def compare(self, inputs: Sequence[Sequence[int]], folder: Path) -> Parity:
        short = [pieces for pieces in inputs if len(pieces) <= self.longest]
        parity = compare(greedy_decoder(self.model), self.decoder(self.model, folder), short, self.positions)
        return parity._replace(left_out=len(inputs) - len(short), longest=self.longest)


def pair_format(
    write: Callable[[PairExport, Path], None],
    decoder: Callable[[PairModel, Path], Decode],
    *,
    max_positions: Callable[[], int] = lambda: sys.maxsize,
    **options: Any,
) -> ExportFormat:
    """Return a format of models from text to text.

    Args:
        write: (export, folder) → None; writes the export into a new folder.
        decoder: (model, folder) → a greedy decoder over the export in that folder.
        max_positions: () → maximum length of a source, including its end symbol, and of an output in the format.
        options: other fields of the format.
    """

    def open_run(run: RunFolder, checkpoint: str | None) -> PairExport:
        model: Any = load(run.path, checkpoint=checkpoint, device="cpu")
        positions = min(model.decoding.positions or sys.maxsize, max_positions())
        return PairExport(run, checkpoint, model, write, decoder, positions)

    return ExportFormat(form=PairForm, open=open_run, **options)

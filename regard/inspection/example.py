"""A sentence to begin with: one of a run's validation data, read back from the numbers that training kept."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.data.corpora import Corpus
from regard.data.tokenizers.catalogue import SPECIALS
from regard.errors import RegardError
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.codecs import open_codecs

__all__ = ["example_of"]

LOOKED = 1000  # pairs from the beginning: more would only take longer
FITTING = (6, 24)  # pieces: enough to look at, and not too many to draw side by side


def example_of(run: RunFolder) -> str | None:
    """The first validation source of a fitting length, or the longest shorter one; None where the data is gone."""
    return _example(run.path)


@lru_cache(maxsize=64)
def _example(path: Path) -> str | None:
    """Looked for once: reading tokenizers takes a while, and validation data does not change."""
    try:
        run = RunFolder.open(path)
        corpus = Corpus.open(run.data / "valid-0")
        source = open_codecs(run).source
    except (RegardError, OSError):
        return None
    for index in _by_length(corpus.source_length[:LOOKED]):
        pieces = [int(piece) for piece in corpus.source(index)]
        known = all(len(SPECIALS) <= piece < len(source) for piece in pieces)
        if known and (text := source.decode(pieces).strip()):
            return text
    return None


def _by_length(lengths: npt.NDArray[np.int32]) -> list[int]:
    """Pairs of a fitting length in their order, then the shorter ones, longest first, then none that is too long."""
    least, most = FITTING
    fitting = np.flatnonzero((lengths >= least) & (lengths <= most))
    shorter = np.flatnonzero((lengths > 0) & (lengths < least))
    return [*fitting.tolist(), *shorter[np.argsort(-lengths[shorter], kind="stable")].tolist()]

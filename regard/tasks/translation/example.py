"""An example sentence of a run, decoded from its prepared validation data."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from regard.core.untrusted_files import FileVersion
from regard.data.corpus import Corpus
from regard.data.tokenizers.tokenizer import SPECIALS
from regard.errors import RegardError
from regard.runs.run_folder import RunFolder
from regard.tasks.translation.codecs import open_codecs

SEARCHED = 1000  # number of pairs that are searched for an example
FITTING = (6, 24)  # minimum and maximum number of pieces of an example that is easy to display


def example_sentence(run: RunFolder) -> str | None:
    """Return the first validation source of a fitting length, else the longest shorter one; None without data."""
    return _example(run.path, FileVersion.of(run.data / "valid-0" / "corpus.json"))


@lru_cache(maxsize=64)
def _example(path: Path, prepared: FileVersion) -> str | None:
    """Return the sentence; cached, because reading tokenizers is slow."""
    try:
        run = RunFolder.open(path)
        corpus = Corpus.open(run.data / "valid-0")
        source = open_codecs(run).source
    except (RegardError, OSError):
        return None
    for index in _by_length(corpus.source_length[:SEARCHED]):
        pieces = [int(piece) for piece in corpus.source(index)]
        known = all(len(SPECIALS) <= piece < len(source) for piece in pieces)
        if known and (text := source.decode(pieces).strip()):
            return text
    return None


def _by_length(lengths: npt.NDArray[np.int32]) -> list[int]:
    """Return the indices of pairs of a fitting length in order, then of shorter ones, longest first."""
    minimum, maximum = FITTING
    fitting = np.flatnonzero((lengths >= minimum) & (lengths <= maximum))
    shorter = np.flatnonzero((lengths > 0) & (lengths < minimum))
    return [*fitting.tolist(), *shorter[np.argsort(-lengths[shorter], kind="stable")].tolist()]

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

SEARCHED = 1000  # first pairs in which an example is looked for
FITTING = (6, 24)  # least and most pieces of an example that is easy to display


def example_sentence(run: RunFolder) -> str | None:
    """The first validation source of a fitting length, or else the longest shorter one; None without data."""
    return _example(run.path, FileVersion.of(run.data / "valid-0" / "corpus.json"))


@lru_cache(maxsize=64)
def _example(path: Path, prepared: FileVersion) -> str | None:
    """Read the sentence; cached, since reading tokenizers takes a while."""
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
    """Indices of pairs of a fitting length in order, then of shorter ones, longest first; longer ones are left out."""
    least, most = FITTING
    fitting = np.flatnonzero((lengths >= least) & (lengths <= most))
    shorter = np.flatnonzero((lengths > 0) & (lengths < least))
    return [*fitting.tolist(), *shorter[np.argsort(-lengths[shorter], kind="stable")].tolist()]

"""Harmonies of a run and of its baseline: the pitches of voices that are left out, compared with those of the piece.

    python bench/harmonies.py runs/chorales-voices data/jsb/valid.jsonl 2

The numbers are the voices to leave out, 1 the lowest. ``regard harmonize`` fills them in, by the network and by the
tables of chords. Only frames of four pitches are counted. The file is one that ``regard data notes`` writes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.baselines.gaps import GapBaseline, HiddenTokens
from regard.data.notes import Frame, frames_of
from regard.runs.run_folder import RunFolder
from regard.tasks.load import load
from regard.tasks.masked.baseline import open_tables
from regard.tasks.masked.filler import Filler
from regard.tasks.masked.harmony import harmonize

VOICES = 4


class ChordFiller:
    """The tables of a run in the place of its network, for ``harmonize``."""

    def __init__(self, filler: Filler, tables: GapBaseline) -> None:
        self.tokenizer, self.mask, self.context = filler.tokenizer, filler.mask, filler.context
        self.tables = tables

    def log_probabilities(self, tokens: Tensor) -> Tensor:
        """See ``Filler``."""
        evidence = self.tables.evidence(HiddenTokens.unknown([*tokens.numpy()], self.mask))
        return torch.from_numpy(evidence.log_probabilities)


def network_alone(filler: Filler) -> Filler:
    """Return the same without its wide part."""
    alone = copy(filler)
    alone.tables = None
    return alone


def main() -> None:
    run, file, voices = RunFolder.open(Path(sys.argv[1])), Path(sys.argv[2]), sorted(map(int, sys.argv[3:]))
    filler: Any = load(run.path)
    tables = filler.tables or open_tables(run, len(filler.tokenizer))
    models = {"model": filler} | ({"network alone": network_alone(filler)} if filler.tables else {})
    models |= {"tables of chords": ChordFiller(filler, tables)} if tables else {}
    rights = {name: np.array([right(model, piece, voices) for piece in pieces(file)]) for name, model in models.items()}
    for name, counts in rights.items():
        print(f"{name}: {100 * counts[:, 0].sum() / counts[:, 1].sum():.1f} % of {counts[:, 1].sum():,} pitches")


def pieces(file: Path) -> list[list[Frame]]:
    rows = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    return [frames_of(row["completion"] if "completion" in row else row["text"]) for row in rows]


def right(model: Any, piece: Sequence[Frame], voices: Sequence[int]) -> tuple[int, int]:
    """Return the number of pitches of the left-out voices that are those of the piece, and the number of all."""
    whole = [len(frame) == VOICES for frame in piece]
    known = [
        tuple(pitch for number, pitch in enumerate(frame, 1) if number not in voices) if four else frame
        for frame, four in zip(piece, whole, strict=True)
    ]
    filled = harmonize(model, known, voices).frames
    pairs = [
        (frame[voice - 1], other[voice - 1] if len(other) == VOICES else None)
        for frame, other, four in zip(piece, filled, whole, strict=True)
        for voice in (voices if four else ())
    ]
    return sum(one == other for one, other in pairs), len(pairs)


if __name__ == "__main__":
    main()

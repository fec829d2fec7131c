"""Whether an export says what its model says: the same sentences through both, and what differs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import atomic_files
from regard.runs.run_folder import environment

__all__ = ["Decode", "Parity", "compare", "limit"]

Decode = Callable[[Sequence[Sequence[int]], int], list[list[int]]]  # of these, with outputs shorter than that
SHOWN, EXTRA = 5, 50


class ParityDifference(NamedTuple):
    """``at``: the first piece that is not the same."""

    sentence: int
    at: int


class Parity(NamedTuple):
    """``seconds`` of both over all ``sentences``, each once, after one alone; ``left_out`` were too long for one."""

    sentences: int
    pieces: int
    differences: list[ParityDifference]
    seconds: tuple[float, float]
    left_out: int = 0

    def __str__(self) -> str:
        same = self.sentences - len(self.differences)
        speeds = [self.pieces / seconds for seconds in self.seconds]
        return (
            f"{same:,} of {self.sentences:,} sentences the same, piece by piece, greedily; "
            f"ours {speeds[0]:,.0f} pieces/s, exported {speeds[1]:,.0f}"
        )

    def write(self, folder: Path, to: str) -> None:
        """``parity.json`` beside the export; what is given away does not tell the machine."""
        record: dict[str, Any] = {
            "format": "regard-parity",
            "version": 1,
            "to": to,
            "search": "greedy, float32",
            "sentences": self.sentences,
            "left_out": self.left_out,
            "pieces": self.pieces,
            "differing": len(self.differences),
            "first_differences": [each._asdict() for each in self.differences[:SHOWN]],
            "seconds": {"regard": self.seconds[0], to: self.seconds[1]},
        }
        if to != "hub":
            record["environment"] = environment()
        atomic_files.write_bytes_atomically(folder / "parity.json", (json.dumps(record, indent=2) + "\n").encode())


def limit(sources: Sequence[Sequence[int]], positions: int = sys.maxsize) -> int:
    """No output of these is longer, nor than ``positions``, so that neither side's own limit makes a difference."""
    return min(max(map(len, sources)) + EXTRA, positions)


def compare(ours: Decode, theirs: Decode, sources: Sequence[Sequence[int]], positions: int = sys.maxsize) -> Parity:
    """Greedy outputs of both, as piece numbers. ``positions``: as many as either side has at least."""
    outputs, seconds, longest = [], [], limit(sources, positions)
    for decode in (ours, theirs):
        decode(sources[:1], longest)
        began = time.perf_counter()
        outputs.append(decode(sources, longest))
        seconds.append(time.perf_counter() - began)
    differences = [
        ParityDifference(number, _first_difference(*both))
        for number, both in enumerate(zip(*outputs, strict=True))
        if both[0] != both[1]
    ]
    return Parity(len(sources), sum(map(len, outputs[0])), differences, (seconds[0], seconds[1]))


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)

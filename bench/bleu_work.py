"""What both sides of ``time_to_bleu`` do beside training: their clock, and what they say after some updates."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from serving import Served

__all__ = ["Stretch", "chunks"]

ROWS = 64  # sentences decoded together


class Stretch:
    """``every`` updates, then greedy outputs of all sources, written down; only the updates are timed."""

    def __init__(self, served: Served, job: Path, outputs: Path) -> None:
        settings = json.loads(job.read_text())
        self.sources: list[list[int]] = settings["sources"]
        self.every, self.longest = settings["every"], settings["longest"]
        self.served, self.outputs = served, outputs
        self.updates, self.seconds, self.loss, self._began = 0, 0.0, 0.0, 0.0

    def begin(self) -> None:
        self._began = time.perf_counter()

    def updated(self, loss: float) -> bool:
        """Whether that was the last of the stretch; its clock then stands still."""
        self.updates, self.loss = self.updates + 1, loss
        if self.updates % self.every:
            return False
        self.seconds += time.perf_counter() - self._began
        return True

    def answer(self, decode: Callable[[Sequence[Sequence[int]]], list[list[int]]]) -> None:
        found = [output for chunk in chunks(self.sources) for output in decode(chunk)]
        self.outputs.write_text(json.dumps(found))
        self.served.answer(updates=self.updates, seconds=self.seconds, loss=self.loss)


def chunks(sources: Sequence[Sequence[int]]) -> list[Sequence[Sequence[int]]]:
    return [sources[start : start + ROWS] for start in range(0, len(sources), ROWS)]

"""A predictor for tasks that are tried for their training alone: a line to its number of words."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Sequence
from typing import Any

from regard.core.task import Indices, MetricSums, not_interrupted

__all__ = ["LINES", "WordCounter", "word_counter"]

LINES = ("a line", "another line of it")


class WordCounter:
    def __call__(self, inputs: Sequence[str]) -> list[int]:
        return [len(line.split()) for line in inputs]

    def read(self, line: str) -> str:
        return line

    def write(self, output: int, *, json: bool) -> str:
        return jsonlib.dumps({"words": output}) if json else str(output)

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = not_interrupted
    ) -> MetricSums:
        return {}


def word_counter(net: Any, codecs: Any, config: Any, engine: str | None = None) -> WordCounter:
    return WordCounter()

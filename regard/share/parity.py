"""Parity of an export with its model: the outputs of both for the same sentences, and the differences."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from regard.config.settings import SearchConfig
from regard.core import atomic_files
from regard.core.wording import pluralize
from regard.data.tokenizers.tokenizer import Tokenizer
from regard.inference.decoding import Decoding
from regard.inference.run_search import run_search
from regard.inference.search_model import SearchInput
from regard.models.encoder_decoder import EncoderDecoder
from regard.runs.run_folder import environment
from regard.share.export_format import Decode

MAX_LISTED = 5  # differences in parity.json
EXTRA = 50  # pieces of an output in addition to those of the longest source


class PairModel(Protocol):
    """The predictor of a task whose network is a ``core.export_forms.PairForm``."""

    model: EncoderDecoder
    source: Tokenizer
    target: Tokenizer
    max_length: int  # maximum pieces of a source

    @property
    def decoding(self) -> Decoding:
        """The model as a search uses it."""


class ParityDifference(NamedTuple):
    """A sentence whose outputs differ."""

    sentence: int
    position: int  # of the first different piece


class Parity(NamedTuple):
    """Result of a comparison."""

    sentences: int
    pieces: int  # number of pieces of the model's outputs
    differences: list[ParityDifference]
    seconds: tuple[float, float]  # of the model and of the export, for all sentences, after a warm-up
    left_out: int = 0  # sentences that are too long
    longest: int = 0  # maximum pieces of a compared sentence

    def __str__(self) -> str:
        same = self.sentences - len(self.differences)
        speeds = [self.pieces / seconds for seconds in self.seconds]
        left_out = (
            f"; {self.left_out:,} longer than {pluralize(self.longest, 'piece')} left out" if self.left_out else ""
        )
        return (
            f"equal greedy outputs for {same:,} of {pluralize(self.sentences, 'sentence')}; "
            f"model {speeds[0]:,.0f} pieces/s, export {speeds[1]:,.0f} pieces/s{left_out}"
        )

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` into the folder of the export; for the hub, without data about this machine."""
        record: dict[str, Any] = {
            "format": "regard-parity",
            "version": 1,
            "to": to,
            "search": "greedy, float32",
            "sentences": self.sentences,
            "left_out": self.left_out,
            "pieces": self.pieces,
            "differing": len(self.differences),
            "first_differences": [
                {"sentence": difference.sentence, "at": difference.position}
                for difference in self.differences[:MAX_LISTED]
            ],
            "seconds": {"regard": self.seconds[0], to: self.seconds[1]},
        }
        if to != "hub":
            record["environment"] = environment()
        atomic_files.write_bytes_atomically(folder / "parity.json", (json.dumps(record, indent=2) + "\n").encode())


def greedy_decoder(model: PairModel) -> Decode:
    """Return a greedy decoder over the model itself."""

    def decode(sources: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        decoding = model.decoding
        settings = SearchConfig(beam=1, max_extra=max_length, max_length=max_length)
        steps = run_search(decoding, enumerate(map(SearchInput, sources)), settings, rows=len(sources))
        outputs = dict(chain.from_iterable(steps))
        return [outputs[number][0].tokens[: max_length - 1] for number in range(len(sources))]

    return decode


def limit(sources: Sequence[Sequence[int]], positions: int = sys.maxsize) -> int:
    """Return a maximum output length for these sources that neither the model nor the export limits further."""
    return min(max(map(len, sources)) + EXTRA, positions)


def compare(model: Decode, export: Decode, sources: Sequence[Sequence[int]], positions: int = sys.maxsize) -> Parity:
    """Compare the greedy outputs of a model and its export.

    Args:
        model: a greedy decoder over the model.
        export: a greedy decoder over the export.
        sources: pieces of the sentences.
        positions: maximum output length of model and export.
    """
    outputs, seconds, max_length = [], [], limit(sources, positions)
    for decode in (model, export):
        decode(sources[:1], max_length)
        start = time.perf_counter()
        outputs.append(decode(sources, max_length))
        seconds.append(time.perf_counter() - start)
    differences = [
        ParityDifference(number, _first_difference(*both))
        for number, both in enumerate(zip(*outputs, strict=True))
        if both[0] != both[1]
    ]
    return Parity(len(sources), sum(map(len, outputs[0])), differences, (seconds[0], seconds[1]))


def _first_difference(one: Sequence[int], other: Sequence[int]) -> int:
    shorter = min(len(one), len(other))
    return next((index for index in range(shorter) if one[index] != other[index]), shorter)

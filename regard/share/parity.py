"""Parity of an export with its model: the same sentences decoded by both, and the differences."""

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

SHOWN = 5  # differences that parity.json lists
EXTRA = 50  # pieces that an output may have more than the longest source


class PairModel(Protocol):
    """The predictor of a task whose network is a ``core.export_forms.PairForm``."""

    model: EncoderDecoder
    source: Tokenizer
    target: Tokenizer
    max_length: int  # pieces of a source

    @property
    def decoding(self) -> Decoding:
        """The model as a search uses it."""


class ParityDifference(NamedTuple):
    """A sentence whose outputs differ; ``at``: position of the first piece that is not the same."""

    sentence: int
    at: int


class Parity(NamedTuple):
    """The result of a comparison."""

    sentences: int
    pieces: int  # of all outputs of the model itself
    differences: list[ParityDifference]
    seconds: tuple[float, float]  # of the model and of the export, over all sentences, after one sentence to warm up
    left_out: int = 0  # sentences too long for either side
    longest: int = 0  # pieces of a sentence that both sides read

    def __str__(self) -> str:
        same = self.sentences - len(self.differences)
        speeds = [self.pieces / seconds for seconds in self.seconds]
        left_out = (
            f"; {self.left_out:,} longer than {pluralize(self.longest, 'piece')} left out" if self.left_out else ""
        )
        return (
            f"{same:,} of {pluralize(self.sentences, 'sentence')} the same, piece by piece, greedily; "
            f"ours {speeds[0]:,.0f} pieces/s, exported {speeds[1]:,.0f}{left_out}"
        )

    def write(self, folder: Path, to: str) -> None:
        """Write ``parity.json`` beside the export; for the hub it does not describe this machine."""
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


def greedy_decoder(model: PairModel) -> Decode:
    """A greedy decoder over the model itself."""

    def decode(sources: Sequence[Sequence[int]], max_length: int) -> list[list[int]]:
        decoding = model.decoding
        settings = SearchConfig(beam=1, max_extra=max_length, max_length=max_length)
        steps = run_search(decoding, enumerate(map(SearchInput, sources)), settings, rows=len(sources))
        outputs = dict(chain.from_iterable(steps))
        return [outputs[number][0].tokens[: max_length - 1] for number in range(len(sources))]

    return decode


def limit(sources: Sequence[Sequence[int]], positions: int = sys.maxsize) -> int:
    """The length limit for outputs of these sources, small enough that neither side's own limit applies."""
    return min(max(map(len, sources)) + EXTRA, positions)


def compare(ours: Decode, theirs: Decode, sources: Sequence[Sequence[int]], positions: int = sys.maxsize) -> Parity:
    """Compare the greedy outputs of both; ``positions``: the fewest that either side has."""
    outputs, seconds, max_length = [], [], limit(sources, positions)
    for decode in (ours, theirs):
        decode(sources[:1], max_length)
        began = time.perf_counter()
        outputs.append(decode(sources, max_length))
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

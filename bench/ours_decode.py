"""Regard's worker: the job's weights in the fast decoder, decoding the job's sources whenever asked.

    python bench/ours_decode.py JOB reference|float32|bfloat16|int8 WORKERS

OMP_NUM_THREADS threads are dealt out to WORKERS, each a process with every so-manieth source of the list by length.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from serving import Served

from regard.attention.span import Span
from regard.core import VERSION
from regard.data.pairs import pad_sources
from regard.inference.decoding import fast_form
from regard.models.build import build
from regard.models.configuration import ModelConfig
from regard.models.encoder_decoder import EncoderDecoder
from regard.search.batch_search import search
from regard.search.beam import start_beam
from regard.search.contract import StatePair, Symbols, chunked
from regard.search.rows import start_rows

_decoder: Decoder


class Decoder:
    """The model of a job, and how to search."""

    def __init__(self, job: Path, kind: str, threads: int) -> None:
        torch.set_num_threads(threads)
        self.settings = json.loads((job / "job.json").read_text())
        types = self.settings["types"]
        model = build(ModelConfig.model_validate(self.settings["model"]), source_types=types, target_types=types)
        model.load_state_dict(load_file(job / "model.safetensors"), strict=False)
        self.model = model.eval()
        if kind != "reference":
            self.model = fast_form(model, kind)
        never = [self.settings["pad"], self.settings["begin"]] + [self.settings["end"]] * self.settings["fixed"]
        self.symbols = Symbols(self.settings["begin"], self.settings["end"], suppressed=tuple(never))

    @torch.no_grad()
    def decode(self, numbers: Sequence[int]) -> dict[int, list[int]]:
        """The best output of each source, by its number."""
        room = self.settings["rows"]
        left = iter(numbers)

        def waiting(free: int) -> StatePair | None:
            chosen = list(islice(left, free))
            return self._open(chosen) if chosen else None

        first = waiting(room)
        if first is None:
            return {}
        plain = isinstance(self.model, EncoderDecoder)
        step = chunked(self.model.step) if plain else self.model.chunked_step
        return {number: best[0].tokens for number, best in search(step, first, waiting, capacity=room)}

    def _open(self, chosen: list[int]) -> StatePair:
        settings: dict[str, Any] = self.settings
        source, valid = pad_sources([settings["sources"][number][:-1] for number in chosen])
        longest = torch.full((len(chosen),), settings["longest"])
        session = self.model.session(source, Span.of(valid))
        if settings["beam"] == 1:
            return start_rows(chosen, self.symbols, max_lengths=longest), session
        penalty = settings["length_penalty"]
        options = {"width": settings["beam"], "length_penalty": penalty, "length_offset": 0.0, "early": True}
        return start_beam(chosen, self.symbols, max_lengths=longest, **options), session


def _start(job: Path, kind: str, threads: int) -> None:
    global _decoder
    _decoder = Decoder(job, kind, threads)


def _decode(numbers: Sequence[int]) -> dict[int, list[int]]:
    return _decoder.decode(numbers)


def main(job: Path, kind: str, workers: int) -> None:
    served = Served()
    threads = int(os.environ["OMP_NUM_THREADS"])
    settings = json.loads((job / "job.json").read_text())
    order = sorted(range(len(settings["sources"])), key=lambda number: -len(settings["sources"][number]))
    shares = [order[start::workers] for start in range(workers)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start, (job, kind, threads // workers)) as pool:
        list(pool.map(_decode, [share[:1] for share in shares]))
        served.answer(version=VERSION, threads=threads, workers=workers)
        for _ in served:
            found: dict[int, list[int]] = {}
            for part in pool.map(_decode, shares):
                found |= part
            outputs = [found[number] for number in range(len(order))]
            served.answer(tokens=sum(map(len, outputs)) + (0 if settings["fixed"] else len(outputs)))
            (job / f"outputs-regard-{kind}.json").write_text(json.dumps(outputs))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))

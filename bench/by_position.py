"""Bits per byte of a language model by position in the document: what it gains from what it read long before.

    python bench/by_position.py RUN documents.jsonl [--memory N] [--stride N]

A model that carries its memory reads each document once; another is scored in windows that begin half a context apart,
so that each byte sees at least half a context. ``--memory``: columns remembered, where it should be another number than
in training. One token has to be one byte: tokenizer.kind = "byte".
"""

from __future__ import annotations

import argparse
import json
import math
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

import regard

EDGES = (0, 256, 512, 1024, 2048, 4096, 8192, 16384)


def buckets(log_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of bits and numbers of bytes by bucket of the position."""
    place = np.searchsorted(EDGES, np.arange(len(log_p)), side="right") - 1
    bits = np.bincount(place, -log_p / math.log(2), minlength=len(EDGES))
    return bits, np.bincount(place, minlength=len(EDGES))


def lengthen(model: object, memory: int) -> None:
    """Let every mixer remember so many columns."""
    for layer in model.stack:  # type: ignore[attr-defined]
        layer.mixer.set_memory(memory)


def main() -> None:
    options = _arguments()
    generator = regard.load(options.run)
    if options.memory is not None:
        lengthen(generator.model, options.memory)
    stride = options.stride or (None if generator.carried else generator.context // 2)
    began, bits, counts, files = time.perf_counter(), np.zeros(len(EDGES)), np.zeros(len(EDGES)), 0
    for line in options.documents.read_text("utf-8").splitlines()[: options.files]:
        score = generator.score(json.loads(line)["text"], stride=stride)
        assert score.bytes == score.tokens, "a token is no byte"
        found = buckets(np.array(score.piece_log_probabilities))
        bits, counts, files = bits + found[0], counts + found[1], files + 1
    names = [f"{low:,}-{high:,}" for low, high in pairwise(EDGES)] + [f"{EDGES[-1]:,}+"]
    print(f"{options.run}: {files} documents, {int(counts.sum()):,} bytes, {time.perf_counter() - began:.0f} s")
    for name, total, count in zip(names, bits, counts, strict=True):
        print(f"{name:>14}  {int(count):>9,} bytes  {total / max(count, 1):.3f} bits a byte")
    print(f"{'all':>14}  {int(counts.sum()):>9,} bytes  {bits.sum() / counts.sum():.3f} bits a byte")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--memory", type=int)
    parser.add_argument("--stride", type=int)
    parser.add_argument("--files", type=int, help="of the documents only the first so many")
    return parser.parse_args()


if __name__ == "__main__":
    main()

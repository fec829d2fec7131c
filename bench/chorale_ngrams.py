"""Baselines of the recipe chorales: n-grams of pitches and ends of frames, interpolated as Witten and Bell do.

    python bench/chorale_ngrams.py data/jsb/train.jsonl data/jsb/test.jsonl

Files as ``regard data notes`` writes them; of pieces at several heights those at their own (prompt C4) are counted.
Prints the joint −log p of a frame of the second file in nats, ends of frames and of pieces included, for contexts of 0
to 5 tokens.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

TYPES = 130  # pitches, the end of a frame and of a piece
Counts = dict[tuple[str, ...], Counter[str]]


def main() -> None:
    train, test = (list(pieces(Path(name))) for name in sys.argv[1:3])
    for longest in range(6):
        counts: Counts = defaultdict(Counter)
        for piece in train:
            for at, token in enumerate(piece):
                for length in range(min(longest, at) + 1):
                    counts[tuple(piece[at - length : at])][token] += 1
        nll = -sum(
            math.log(probability(counts, piece[max(at - longest, 0) : at], token))
            for piece in test
            for at, token in enumerate(piece)
        )
        print(f"{longest} tokens before: {nll / sum(piece.count('|') for piece in test):.2f} nats a frame")


def pieces(path: Path) -> Iterator[list[str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row.get("prompt", "C4\n") == "C4\n":
            text = row["completion"] if "completion" in row else row["text"]
            yield [*text.replace("\n", " | ").split(), "end"]


def probability(counts: Counts, before: list[str], token: str) -> float:
    """p(token | before), each context's share of what it has not seen given to the context one token shorter."""
    found = counts.get(tuple(before), Counter())
    shorter = probability(counts, before[1:], token) if before else 1 / TYPES
    return (found[token] + len(found) * shorter) / (found.total() + len(found)) if found else shorter


if __name__ == "__main__":
    main()

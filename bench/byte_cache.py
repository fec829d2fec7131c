"""Bits per byte of a language model of bytes, of an n-gram cache, and of both.

    regard data stdlib
    python bench/byte_cache.py [RUN] data/stdlib [--files N]

The cache counts which byte follows each context of up to 32 bytes, in the training files and in the file so far. It is
interpolated from the longest context down: P_k = λ · n(c, x) / n(c) + (1 − λ) P_{k−1}, first with the counts of the
file, then with those of the training files. λ depends on k, on n(c) and on the number of different bytes after c; EM
fits it to ``valid.jsonl`` (Jelinek and Mercer 1980). The last P is uniform, and with a run that of the network, which
reads windows that begin half a context apart. ``test.jsonl`` is read once. Without RUN, the cache alone.

``--ppmd`` compresses each file of the test part by PPMd of order 16, alone and after the training files, for comparison
(pip install pyppmd).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from regard.baselines.ngrams import FACTOR, Codes, ContextTokens, context_codes

Numbers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
LENGTHS = (0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)  # of contexts, in bytes
ROUNDS = 30  # of EM
BUCKETS = 65  # classes of counts: that of a new context, and 2 · 4 · 8


class Corpus(NamedTuple):
    """Bytes of files, one after the other.

    Attributes:
        bytes: (positions,).
        file: (positions,) number of the file.
        depth: (positions,) number of bytes before it in its file.
    """

    bytes: Numbers
    file: Numbers
    depth: Numbers


class Level(NamedTuple):
    """One step of the interpolation at each position.

    Attributes:
        share: n(c, x) / n(c); 0 where c is new.
        bucket: which λ applies; 0 where c is new, and λ is 0.
    """

    share: Floats
    bucket: Numbers


def read(path: Path, files: int | None = None) -> tuple[list[str], Corpus]:
    texts = [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()[:files]]
    raw = [np.frombuffer(text.encode(), np.uint8).astype(np.int64) for text in texts]
    file = np.repeat(np.arange(len(raw)), [len(own) for own in raw])
    depth = np.concatenate([np.arange(len(own)) for own in raw])
    return texts, Corpus(np.concatenate(raw), file, depth)


def contexts(corpus: Corpus) -> Iterator[Codes]:
    """Yield the hashes of the contexts of each length."""
    tokens = ContextTokens(np.roll(corpus.bytes, 1), corpus.depth - 1, corpus.bytes)
    return (code for length, code in enumerate(context_codes(tokens, LENGTHS[-1])) if length in LENGTHS)


def levels(train: Corpus, other: Corpus) -> Iterator[Level]:
    """Yield the levels of each length of context, the shortest first: of the training files, then of the file."""
    for known, code in zip(contexts(train), contexts(other), strict=True):
        gram = code * FACTOR + other.bytes.astype(np.uint64)
        counts, kinds, total = _counted(known, train.bytes, code, gram)
        yield _level(counts, kinds, total)
        own = other.file.astype(np.uint64) * np.uint64(0xD1B54A32D192ED03)
        yield _level(*_before(code ^ own, gram ^ own))


def _counted(known: Codes, after: Numbers, code: Codes, gram: Codes) -> tuple[Numbers, Numbers, Numbers]:
    """Return n(c, x), the number of different bytes after c, and n(c), in the training files."""
    symbols, first, counts = np.unique(known * FACTOR + after.astype(np.uint64), return_index=True, return_counts=True)
    held, place = np.unique(known[first], return_inverse=True)
    kinds, totals = np.bincount(place), np.bincount(place, counts).astype(np.int64)
    return _at(symbols, counts, gram), _at(held, kinds, code), _at(held, totals, code)


def _at(keys: Codes, values: Numbers, searched: Codes) -> Numbers:
    place = np.minimum(np.searchsorted(keys, searched), len(keys) - 1)
    return np.where(keys[place] == searched, values[place], 0)


def _before(code: Codes, gram: Codes) -> tuple[Numbers, Numbers, Numbers]:
    """Return the same three numbers of the positions before each one."""
    counts, ones = _rank(gram, np.ones(len(code), np.int64)), np.ones(len(code), np.int64)
    return counts, _rank(code, (counts == 0).astype(np.int64)), _rank(code, ones)


def _rank(keys: Codes, values: Numbers) -> Numbers:
    """Return the sum of the values at the positions before each one that have its key."""
    order = np.argsort(keys, kind="stable")
    ordered, sums = keys[order], np.cumsum(values[order])
    starts = np.r_[0, np.nonzero(ordered[1:] != ordered[:-1])[0] + 1]
    group = np.cumsum(np.r_[0, ordered[1:] != ordered[:-1]])
    before = sums - values[order]
    ranks = np.empty(len(keys), np.int64)
    ranks[order] = before - before[starts][group]
    return ranks


def _level(counts: Numbers, kinds: Numbers, totals: Numbers) -> Level:
    """Return the level of counts; a bucket is a class of ``kinds`` and of ``totals``."""
    size = np.minimum(np.log2(np.maximum(totals, 1)).astype(np.int64), 7)
    bucket = np.where(totals > 0, 1 + 8 * np.minimum(np.log2(np.maximum(kinds, 1)).astype(np.int64), 3) + size, 0)
    bucket += np.where((totals > 0) & (kinds == 1), 32, 0)  # always the same byte
    return Level(counts / np.maximum(totals, 1), bucket)


def fitted(chain: list[Level], last: Floats) -> list[Floats]:
    """Return λ of each level and bucket by EM; ``last``: the probability below the shortest context."""
    weights = [np.where(np.arange(BUCKETS) > 0, 0.5, 0.0) for _ in chain]
    for _ in range(ROUNDS):
        below = [last]
        for level, weight in zip(chain, weights, strict=True):
            own = weight[level.bucket]
            below.append(own * level.share + (1 - own) * below[-1])
        reached = np.ones(len(last))  # probability that the byte came from this level or from one below
        for number in reversed(range(len(chain))):
            level, own = chain[number], weights[number][chain[number].bucket]
            stopped = reached * own * level.share / below[number + 1]
            taken, visited = (np.bincount(level.bucket, part, BUCKETS) for part in (stopped, reached))
            weights[number] = np.where(np.arange(BUCKETS) > 0, (taken + 0.5) / (visited + 1), 0.0)
            reached -= stopped
    return weights


def probability(chain: list[Level], weights: list[Floats], last: Floats) -> Floats:
    for level, weight in zip(chain, weights, strict=True):
        own = weight[level.bucket]
        last = own * level.share + (1 - own) * last
    return last


def network(run: Path, texts: list[str]) -> Floats:
    """Return the probability of each byte."""
    import regard

    model: Any = regard.load(run)
    scores = [model.score(text, stride=None if model.carried else model.context // 2) for text in texts]
    return np.exp(np.concatenate([score.piece_log_probabilities for score in scores]))


def ppmd(train: list[str], test: list[str]) -> None:
    """Print the bits per byte of PPMd with an order of 16 and 256 MB of memory."""
    import pyppmd

    def size(content: bytes) -> int:
        return len(pyppmd.compress(content, max_order=16, mem_size=1 << 28))

    before, files = "".join(train).encode(), [text.encode() for text in test]
    known, count = size(before), sum(map(len, files))
    alone, after = sum(map(size, files)), sum(size(before + file) - known for file in files)
    bits = 8 * alone / count, 8 * after / count
    print(f"PPMd: {bits[0]:.3f} bits per byte of each file alone, {bits[1]:.3f} after the training files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="[RUN] FOLDER")
    parser.add_argument("--files", type=int, help="only the first files of the test and validation parts")
    parser.add_argument("--ppmd", action="store_true")
    given = parser.parse_args()
    *runs, folder = given.paths
    began = time.perf_counter()
    train_texts, train = read(folder / "train.jsonl")
    valid_texts, valid = read(folder / "valid.jsonl", given.files)
    test_texts, test = read(folder / "test.jsonl", given.files)
    chains = [list(levels(train, part)) for part in (valid, test)]
    print(f"{len(train.bytes):,} bytes of training, {len(test.bytes):,} of the test", flush=True)
    if given.ppmd:
        ppmd(train_texts, test_texts)
    uniform = [np.full(len(part.bytes), 1 / 256) for part in (valid, test)]
    _report("cache of each file alone", [chain[1::2] for chain in chains], uniform)
    _report("cache of the training files and of each file", chains, uniform)
    for run in runs:
        alone = [network(run, texts) for texts in (valid_texts, test_texts)]
        print(f"network alone: {_bits(alone[1]):.3f} bits per byte (validation {_bits(alone[0]):.3f})", flush=True)
        _report("network, and cache of each file", [chain[1::2] for chain in chains], alone)
        _report("network, and cache of the training files and of each file", chains, alone)
    print(f"{time.perf_counter() - began:.0f} s")


def _report(name: str, chains: list[list[Level]], last: list[Floats]) -> None:
    weights = fitted(chains[0], last[0])
    valid, test = (_bits(probability(chain, weights, own)) for chain, own in zip(chains, last, strict=True))
    print(f"{name}: {test:.3f} bits per byte (validation {valid:.3f})", flush=True)


def _bits(probabilities: Floats) -> float:
    return float(-np.log(probabilities).mean() / math.log(2))


if __name__ == "__main__":
    main()

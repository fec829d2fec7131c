"""Time and memory of an epoch's order over very many pairs: listed (``shuffled``) and computed (``feistel``).

    python bench/computed_order.py 100_000_000            # synthetic lengths in memory-mapped files, 2 GB of disk
    python bench/computed_order.py 10_000_000 shuffled

Prints, for each step, seconds and the growth of the process's own memory (pages of mapped files are not counted: the
system takes them back as it needs them).
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.corpus import FORMAT, Corpora, Corpus
from regard.data.pairs import PairExamples

CHUNK, LONGEST = 1 << 20, 128


def main() -> None:
    pairs, order = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "feistel"
    with tempfile.TemporaryDirectory() as folder:
        step("writing synthetic lengths", lambda: write(Path(folder), pairs))
        corpus = step("opening the corpus", lambda: Corpus.open(Path(folder)))
        examples: Any = None
        for name in ("order, its index made" if order == "feistel" else "lengths", "again, the index there"):
            examples = step(
                name,
                lambda: PairExamples(Corpora([corpus]), [1.0], tokens=4096, seed=1, computed=order == "feistel"),
            )
        batches = step("epoch 0", lambda: examples.batches(0))
        step("a batch in the middle", lambda: batches[len(batches) // 2])
        step("epoch 7 and its last batch", lambda: examples.batches(7)[-1])
        step("1,000 batches, one after the other", lambda: [batches[place] for place in range(5000, 6000)])
        print(f"{len(batches):,} batches an epoch")


def step(name: str, work: Callable[[], Any]) -> Any:
    before, started = memory(), time.perf_counter()
    found = work()
    print(
        f"{name:<36} {time.perf_counter() - started:9.3f} s   {memory() - before:+8.1f} MB   peak {memory('VmHWM'):.0f}"
    )
    return found


def memory(key: str = "RssAnon") -> float:
    """Megabytes of this process's own memory."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
    return int(line.split()[1]) / 1024


def write(folder: Path, pairs: int) -> None:
    random, tokens = np.random.default_rng(0), []
    for side in ("source", "target"):
        total = 0
        with (folder / f"{side}.offsets").open("wb") as file:
            file.write(np.zeros(1, "<i8").tobytes())
            for at in range(0, pairs, CHUNK):
                lengths = np.clip(random.gamma(2.5, 12, min(CHUNK, pairs - at)), 1, LONGEST).astype(np.int64)
                file.write((total + np.cumsum(lengths)).tobytes())
                total += int(lengths.sum())
        (folder / f"{side}.tokens").open("wb").truncate(2 * total)  # holes: nothing reads them
        tokens.append(total)
    (folder / "lines").open("wb").truncate(8 * pairs)
    report = {"pairs": pairs, "blank": 0, "long": 0, "long_lines": [], "source_unknown": 0, "target_unknown": 0}
    head = {**FORMAT, "name": "synthetic", "fingerprint": "", "dtype": "<u2", "source_tokens": tokens[0]}
    head |= {"target_tokens": tokens[1], "report": report | {"max_length": LONGEST}}
    (folder / "corpus.json").write_text(json.dumps(head))


if __name__ == "__main__":
    main()

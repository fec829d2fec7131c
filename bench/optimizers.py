"""Optimisers on one small language model: AdamW by its learning rate, and Muon, after so many updates.

    python bench/optimizers.py TEXT [--updates 700] [--only adamw=1e-3 muon=3e-3 ...] [--set KEY=VALUE] [--threads 1]

TEXT is plain or ``.gz``: tiny Shakespeare, of which nanoGPT has figures. Its first 90 % are for training, in characters
and the sizes of nanoGPT's model for a CPU: 4 layers of 128, context 64, 12 windows an update; weight decay 0.1, norms
clipped at 1, the rate a line to zero after a tenth of the updates. Prints nats a character over the rest of the text,
in windows of the context that do not overlap, and the median of the milliseconds of an update.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from regard.training.start import train

CHOICES = ("adamw=1e-3", "adamw=3e-3", "adamw=6e-3", "muon=3e-3", "muon=6e-3", "muon=1e-2")
CONTEXT, WINDOWS = 64, 12
MODEL = {"preset": "tiny", "position": "learned", "share": "all"}


def config_of(text: Path, choice: str, updates: int, threads: int) -> dict[str, Any]:
    """The config of one row, ``OPTIMIZER=RATE``."""
    optimizer, _, rate = choice.partition("=")
    parts = {name: [{"source": str(text), "share": share}] for name, share in
             (("train", [0.0, 0.9]), ("valid", [0.9, 1.0]))}  # fmt: skip
    return {
        "task": {"kind": "language-model"},
        "data": {**parts, "tokenizer": {"kind": "character"}, "context": CONTEXT},
        "model": MODEL,
        "train": {
            "optimizer": optimizer, "learning_rate": float(rate), "betas": [0.9, 0.99], "epsilon": 1e-8,
            "weight_decay": 0.1, "clip_norm": 1.0, "schedule": "linear", "steps": updates,
            "batch_tokens": CONTEXT * WINDOWS, "validate_every": updates, "save_every": updates,
            "precision": "float32", "threads": threads, "shards": 1,
        },
    }  # fmt: skip


def figures(run: Path) -> tuple[float, float]:
    """Nats a token of the last validation, and seconds of an update."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    nats = [record["validation"]["loss"] for record in records if "validation" in record]
    return nats[-1], statistics.median(record["seconds"] for record in records if "seconds" in record)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("--updates", type=int, default=700)
    parser.add_argument("--only", nargs="*", default=CHOICES)
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a key of every config")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    print(f"{given.updates} updates\n{'':14}{'nats':>8}{'ms an update':>16}")
    for choice in given.only:
        with tempfile.TemporaryDirectory() as folder:
            config = config_of(given.text.absolute(), choice, given.updates, given.threads)
            run = train(config, Path(folder) / "run", overrides=given.overrides)
            nats, seconds = figures(run)
        print(f"{choice:14}{nats:8.3f}{1000 * seconds:16.1f}", flush=True)


if __name__ == "__main__":
    main()

"""Sessions with a known structure: what a model of next items finds, beside what counting pairs can.

    python bench/next_items.py [--set KEY=VALUE]

Of 500 items each but the first two of a session is told by the one two before it, eight times of ten, and drawn at
random otherwise: the last item alone tells nothing. The best that anybody can do is a hit rate at 10 of 0.8 + 0.2 ·
10 / 500 = 0.804 for ten of eleven items, and 10 / 500 for the second: 0.733. 4,000 sessions of 12 items to train on,
500 to validate and 500 to measure. Prints the table of ``regard evaluate``.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

from regard.studies.curve_corpora import draw_session

SESSIONS = {"train": 4_000, "valid": 500, "test": 500}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a key of the config")
    given = parser.parse_args()
    folder, draw = Path("data/sessions"), random.Random(given.seed)
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in SESSIONS.items():
        rows = [json.dumps({"items": [f"i{item}" for item in draw_session(draw)]}) + "\n" for _ in range(count)]
        (folder / f"{part}.jsonl").write_text("".join(rows), encoding="utf-8")
    overrides = [part for override in given.overrides for part in ("--set", override)]
    train, valid = folder / "train.jsonl", folder / "valid.jsonl"
    regard("train", str(train), "--valid-file", str(valid), "--name", "sessions", *overrides)
    regard("evaluate", "runs/sessions", str(folder / "test.jsonl"))


def regard(*arguments: str) -> None:
    subprocess.run([sys.executable, "-c", "import sys; from regard.cli import main; main()", *arguments], check=True)


if __name__ == "__main__":
    main()

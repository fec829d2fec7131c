"""A small corpus without a recipe: what ``regard train`` chooses, against six configs that were set by hand.

    python bench/small_data.py FOLDER [--only automatic ...] [--set KEY=VALUE]

FOLDER holds ``g014b2b.train.gz``, word and phonemes a line. Of it 3,600 pairs are drawn to train on, 400 to validate on
and 2,000 to measure on, no word in two of the three; the test set of the split is not read. Prints a row a config: WER
and PER of the words, updates and seconds of training.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import subprocess
import sys
from pathlib import Path

SIZES = {"train": 3_600, "valid": 400, "held": 2_000}
ROWS = sorted((Path(__file__).parent / "compare" / "small").glob("[0-9]*.toml"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of the pairs that are drawn")
    parser.add_argument("--only", nargs="*", default=["automatic", *(row.stem for row in ROWS)])
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a key of every config")
    given = parser.parse_args()
    data = Path("data/small")
    draw(given.folder / "g014b2b.train.gz", data, given.seed)
    for name in given.only:
        train(name, data, given.overrides)
        print(json.dumps(measured(name, data)), flush=True)


def draw(corpus: Path, folder: Path, seed: int) -> None:
    """Words at random with all their pronunciations, until each part has its pairs."""
    known: dict[str, list[str]] = {}
    for line in gzip.open(corpus, "rt", encoding="utf-8").read().splitlines():
        word, sounds = line.split("\t")
        known.setdefault(word, []).append(sounds)
    words = sorted(known)
    random.Random(seed).shuffle(words)
    folder.mkdir(parents=True, exist_ok=True)
    left = iter(words)
    for part, size in SIZES.items():
        rows: list[str] = []
        while len(rows) < size:
            word = next(left)
            rows += [f"{word}\t{sounds}\n" for sounds in known[word]]
        (folder / f"{part}.tsv").write_text("".join(rows[:size]), encoding="utf-8")


def train(name: str, data: Path, overrides: list[str]) -> None:
    run = Path("runs") / f"small-{name}"
    what = [str(data / "train.tsv"), "--valid-file", str(data / "valid.tsv")]
    if name != "automatic":
        what = [str(Path(__file__).parent / "compare" / "small" / f"{name}.toml")]
    overrides = [part for override in overrides for part in ("--set", override)]
    regard("train", *(["--resume", str(run)] if run.exists() else [*what, "--name", run.name, *overrides]))


def measured(name: str, data: Path) -> dict[str, object]:
    run = Path("runs") / f"small-{name}"
    told = regard("evaluate", str(run), str(data / "held.tsv"), "--metric", "wer,per", "--json")
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    updates = [record for record in records if "loss" in record]
    return {
        "config": name,
        **{metric: round(score["value"], 2) for metric, score in json.loads(told)["scores"].items()},
        "updates": len(updates),
        "seconds": round(sum(record["seconds"] for record in updates)),
    }


def regard(*arguments: str) -> str:
    command = [sys.executable, "-c", "import sys; from regard.cli import main; main()", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()

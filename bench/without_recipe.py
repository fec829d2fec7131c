"""What ``regard train FILE`` reaches without a recipe, beside the baseline that it fits, over seeds.

    REGARD_DATA=FOLDER python bench/without_recipe.py multi30k lines sick relatedness sst --seeds 3
    REGARD_DATA=FOLDER python bench/without_recipe.py demo shakespeare

``multi30k``: English to German in 3.5 minutes, BLEU of test 2016 with a beam of 5. ``lines``: parts of speech.
``sick``, ``relatedness``: pairs of sentences. ``sst``: sentiment of sentences; ``sst-300`` and ``sst-1000``: of the
first texts of the training part. The last two are recipes: ``demo``, pronunciations in four minutes, and
``shakespeare``, characters in three. The checkpoint is chosen on the validation part, and the test part is read once
for each seed. For ``shakespeare`` the recipe validates on the part that is measured; ``shakespeare-inside`` validates
on the last tenth of its training part instead, and does not train on it.

Goals: multi30k ≥ 37.0 BLEU; lines ≥ 96.0 %; sick ≥ 79.5 %; relatedness ≥ .80; sst ≥ 84.0 %; demo ≤ 26.5 % WER;
shakespeare ≤ 1.50 nats. Prints each seed, then means and deviations; JSON goes to runs/bench/without-recipe.json.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

from machine import machine

FOLDER = Path("runs") / "bench" / "without-recipe"
Files = tuple[list[str], list[str], list[str]]  # arguments of training, validation, and evaluation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="+", choices=sorted(PROBLEMS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a key of every training")
    parser.add_argument("--again", action="store_true", help="train runs that exist again")
    given = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"machine": machine(), "date": date.today().isoformat()}
    for problem in given.problems:
        seeds = [_measured(problem, seed, given) for seed in range(1, given.seeds + 1)]
        results[problem] = seeds
        for name in seeds[0]:
            values = [figures[name] for figures in seeds if figures.get(name) is not None]
            spread = f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
            print(f"{problem}: {name:28} {statistics.mean(values):.4f}{spread} ({len(values)} seeds)", flush=True)
    (FOLDER.parent / "without-recipe.json").write_text(json.dumps(results, indent=2))


def _measured(problem: str, seed: int, given: argparse.Namespace) -> dict[str, float]:
    """Return the figures of a run of one seed, those of its baseline, and the duration of its training."""
    files, keys, metrics = PROBLEMS[problem](Path(os.environ["REGARD_DATA"]))
    train, valid, test = files
    run = FOLDER / f"{problem}-{seed}"
    overrides = [part for key in (*keys, f"seed={seed}", *given.overrides) for part in ("--set", key)]
    if given.again or not run.exists():
        _regard("train", *train, *valid, "--runs", str(FOLDER), "--name", run.name, *overrides)
    beam = ["--beam", "5"] if "bleu" in metrics else []
    found = json.loads(_regard("evaluate", str(run), *test, *beam, "--json"))
    scores = {name: score["value"] for name, score in found.get("scores", {}).items()}
    figures = {name: value for name, value in (found.get("figures", {}) | scores).items() if name in metrics}
    baseline = found.get("baseline") or {}
    figures |= {f"{name}, baseline": value for name, value in baseline.get("figures", {}).items() if name in metrics}
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    figures["minutes of training"] = sum(record.get("seconds", 0.0) for record in records) / 60
    print(json.dumps({"problem": problem, "seed": seed, **figures}), flush=True)
    return figures


def _multi30k(data: Path) -> tuple[Files, list[str], Sequence[str]]:
    parts = {part: _pair(data / "multi30k", part) for part in ("train", "val", "test_2016_flickr")}
    files = parts["train"], ["--valid", *parts["val"]], parts["test_2016_flickr"]
    return files, ["train.minutes=3.5"], ("bleu", "chrf")


def _pair(folder: Path, part: str) -> list[str]:
    return [str(next(folder.glob(f"{part}.{side}*"))) for side in ("en", "de")]


def _lines(data: Path) -> tuple[Files, list[str], Sequence[str]]:
    parts = {}
    for part in ("train", "dev", "test"):
        parts[part] = str(FOLDER / f"lines-{part}.jsonl")
        Path(parts[part]).write_bytes(gzip.decompress((data / "ud-lines" / f"{part}.jsonl.gz").read_bytes()))
    return ([parts["train"]], ["--valid-file", parts["dev"]], [parts["test"]]), [], ("accuracy", "macro_f1")


def _sst(data: Path, number: int | None = None) -> tuple[Files, list[str], Sequence[str]]:
    train, dev, test = (next((data / "sst").glob(f"sst2-{part}.tsv*")) for part in ("train", "dev", "test"))
    if number is not None:
        lines = gzip.open(train, "rt", encoding="utf-8").read().splitlines(keepends=True)
        train = FOLDER / f"sst-{number}.tsv"
        train.write_text("".join(lines[:number]), encoding="utf-8")
    return ([str(train)], ["--valid-file", str(dev)], [str(test)]), [], ("accuracy", "calibration_error", "loss")


def _sick(data: Path, label: str, metrics: Sequence[str]) -> tuple[Files, list[str], Sequence[str]]:
    parts = {}
    for part in ("train", "dev", "test"):  # as .csv: a .tsv of several columns is parallel text
        rows = [line.split("\t") for line in (data / "sick" / f"{part}.tsv").read_text("utf-8").splitlines()]
        parts[part] = str(FOLDER / f"sick-{part}.csv")
        with open(parts[part], "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    keys = ['data.text=["first", "second"]', f"data.label={label}"]
    return ([parts["train"]], ["--valid-file", parts["dev"]], [parts["test"]]), keys, metrics


def _demo(data: Path) -> tuple[Files, list[str], Sequence[str]]:
    from regard.data.public.cmudict import find_dictionary, write_corpora

    paths = write_corpora(find_dictionary(), Path("data") / "cmudict-demo")
    return (["demo"], [], [str(paths["test"]), "--metric", "wer,per"]), [], ("wer", "per")


def _shakespeare(data: Path, inside: bool = False) -> tuple[Files, list[str], Sequence[str]]:
    text = gzip.decompress((data / "lm-tinyshakespeare" / "input.txt.gz").read_bytes()).decode()
    whole, tail = FOLDER / "shakespeare.txt", FOLDER / "shakespeare-tail.txt"
    whole.write_text(text, encoding="utf-8")
    tail.write_text(text[int(len(text) * 0.9) :], encoding="utf-8")
    ends = (0.81, 0.9) if inside else (0.9, 1.0)
    shares = {"train": (0.0, ends[0]), "valid": ends}
    keys = [f'data.{part}=[{{source="{whole}", share=[{a}, {b}]}}]' for part, (a, b) in shares.items()]
    return (["shakespeare"], [], [str(tail)]), keys, ("loss", "perplexity")


PROBLEMS: dict[str, Any] = {
    "multi30k": _multi30k,
    "lines": _lines,
    "sst": _sst,
    "sst-300": lambda data: _sst(data, 300),
    "sst-1000": lambda data: _sst(data, 1000),
    "sick": lambda data: _sick(data, "entailment", ("accuracy", "calibration_error")),
    "relatedness": lambda data: _sick(data, "relatedness", ("pearson", "spearman", "r2")),
    "demo": _demo,
    "shakespeare": _shakespeare,
    "shakespeare-inside": lambda data: _shakespeare(data, inside=True),
}


def _regard(*arguments: str) -> str:
    command = [sys.executable, "-m", "regard", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()

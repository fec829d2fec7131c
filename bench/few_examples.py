"""Every task with 100, 300 and 1,000 examples and the automatic choice, beside the baseline that the run fits.

    REGARD_DATA=FOLDER scripts/bench small-data --seeds 5
    REGARD_DATA=FOLDER python bench/few_examples.py sentiment tags --sizes 100 --seeds 2

``sentiment``: SST-2; ``pairs``: SICK; ``tags``: UD English LinES; ``graphs``: rewired graphs of
``bench/whole_graphs.py``; ``items``: sessions of ``bench/next_items.py``; ``characters``: lines of tiny Shakespeare.
Each seed draws other examples from the training part. A share of them is held out as in ``regard train FILE``. The test
part is measured once for each seed: accuracy, and for the last two the hit rate at 10 and nats a character.

Prints the model, the baseline and their difference, which is positive if the model is better, with its standard error
over the seeds. Goal: no difference is below zero, one-sided t-tests with Holm's correction over the table (p < .05).
JSON goes to runs/bench/few-examples.json.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import next_items
import whole_graphs
from machine import machine
from scipy.stats import t as student

import regard
from regard.tasks.find_config import find_config

LINE = "{task:10} {size:5}  model {model:.4f}  baseline {baseline:.4f}  difference {difference:+.4f} ± {error:.4f}"
SIZES, MEASURED = (100, 300, 1000), 1_000  # examples of training, and of the test


class Problem(NamedTuple):
    """Lines of training and of test, with an optional first line of both, the name of the file, and the metric."""

    train: list[str]
    test: list[str]
    file: str
    metric: str
    head: str = ""
    keys: tuple[str, ...] = ()
    lower_is_better: bool = False


def sentiment(data: Path, seed: int) -> Problem:
    train, test = (_text(next((data / "sst").glob(f"sst2-{part}.tsv*"))) for part in ("train", "test"))
    return Problem(train, test, "data.tsv", "accuracy")


def pairs(data: Path, seed: int) -> Problem:
    train, test = (_commas(_text(data / "sick" / f"{part}.tsv")) for part in ("train", "test"))
    keys = ('data.text=["first", "second"]', "data.label=entailment")
    return Problem(train[1:], test[1:], "data.csv", "accuracy", head=train[0], keys=keys)


def tags(data: Path, seed: int) -> Problem:
    train, test = (_text(data / "ud-lines" / f"{part}.jsonl.gz") for part in ("train", "test"))
    return Problem(train, test, "data.jsonl", "accuracy")


def graphs(data: Path, seed: int) -> Problem:
    with tempfile.TemporaryDirectory() as place:
        whole_graphs.write("rewired", Path(place), seed)
        train, valid, test = (_text(Path(place) / f"{part}.jsonl") for part in ("train", "valid", "test"))
    return Problem(train + valid, test, "data.jsonl", "accuracy")


def items(data: Path, seed: int) -> Problem:
    draw = random.Random(seed)
    rows = [json.dumps({"items": [f"i{n}" for n in next_items.session(draw)]}) + "\n" for _ in range(2 * MEASURED)]
    return Problem(rows[MEASURED:], rows[:MEASURED], "data.jsonl", "hit_rate_10")


def characters(data: Path, seed: int) -> Problem:
    lines = _text(data / "lm-tinyshakespeare" / "input.txt.gz")
    first = random.Random(seed).randrange(30_000)  # consecutive lines, of the first nine tenths
    return Problem(lines[first : first + max(SIZES)], lines[-MEASURED:], "data.txt", "loss", lower_is_better=True)


PROBLEMS: dict[str, Callable[[Path, int], Problem]] = {
    "sentiment": sentiment, "pairs": pairs, "tags": tags, "graphs": graphs, "items": items, "characters": characters,
}  # fmt: skip


def measured(problem: Problem, size: int, seed: int) -> tuple[float, float] | None:
    """Return the metric of the model and of its baseline; None if the problem has fewer examples."""
    if len(problem.train) < size:
        return None
    ordered = problem.metric == "loss"
    rows = problem.train[:size] if ordered else random.Random(seed).sample(problem.train, size)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, lines in (("train", rows), ("test", problem.test[:MEASURED])):
            (folder / f"{name}-{problem.file}").write_text(problem.head + "".join(lines), encoding="utf-8")
        keys = [*problem.keys, f"seed={seed}", "train.threads=1"]
        config = find_config([str(folder / f"train-{problem.file}")], [], keys)
        metrics = ["loss"] if ordered else None  # unknown characters have no bits
        found = regard.evaluate(regard.train(config, folder / "run"), folder / f"test-{problem.file}", metrics=metrics)
    assert found.baseline is not None
    return found.figures[problem.metric], found.baseline.figures[problem.metric]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=[*PROBLEMS], metavar="PROBLEM")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    data, rows = Path(os.environ["REGARD_DATA"]), list[dict[str, Any]]()
    for name in given.problems:
        for size in given.sizes:
            drawn = [(PROBLEMS[name](data, seed), seed) for seed in range(1, given.seeds + 1)]
            figures = [found for problem, seed in drawn if (found := measured(problem, size, seed)) is not None]
            if figures:
                rows.append(_row(name, size, figures, sign=-1 if drawn[0][0].lower_is_better else 1))
                print(LINE.format_map(rows[-1]), flush=True)
    _correct(rows)
    below = [f"{row['task']} {row['size']}" for row in rows if row["corrected"] < 0.05]
    print(f"below the baseline (p < .05 after Holm's correction): {', '.join(below) or 'none'}")
    folder = Path("runs") / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "few-examples.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2))


def _row(task: str, size: int, figures: list[tuple[float, float]], sign: int) -> dict[str, Any]:
    """Return means, the difference with its standard error over seeds, and p of a difference of zero or more."""
    differences = [sign * (model - baseline) for model, baseline in figures]
    mean = statistics.mean(differences)
    error = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else float("nan")
    p = float(student.cdf(mean / error, len(differences) - 1)) if error > 0 else 1.0
    model, baseline = (statistics.mean(values) for values in zip(*figures, strict=True))
    own = {"task": task, "size": size, "seeds": len(figures), "model": model, "baseline": baseline}
    return own | {"difference": mean, "error": error, "p": p}


def _correct(rows: list[dict[str, Any]]) -> None:
    """Add the p-values after Holm's correction (Holm 1979)."""
    largest = 0.0
    for number, row in enumerate(sorted(rows, key=lambda row: row["p"])):
        largest = max(largest, min((len(rows) - number) * row["p"], 1.0))
        row["corrected"] = largest


def _text(path: Path) -> list[str]:
    raw = path.read_bytes()
    return (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8").splitlines(keepends=True)


def _commas(lines: list[str]) -> list[str]:
    """Return lines of cells between tabs as lines between commas: a .tsv of several columns is parallel text."""
    with tempfile.TemporaryFile("w+", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(line.rstrip("\n").split("\t") for line in lines)
        file.seek(0)
        return file.read().splitlines(keepends=True)


if __name__ == "__main__":
    main()

"""Every task with 100, 300 and 1,000 examples and the automatic choice, beside the baseline that the run fits.

    REGARD_DATA=FOLDER scripts/bench small-data --seeds 5
    REGARD_DATA=FOLDER python bench/few_examples.py sentiment tags --sizes 100 --seeds 2

``sentiment``: SST-2; ``pairs`` and ``relatedness``: SICK; ``dna``: splice junctions; ``tags``: UD English LinES;
``graphs``: rewired graphs of ``bench/whole_graphs.py``; ``nodes`` and ``links``: Cora; ``items``: sessions of
``bench/next_items.py``; ``characters`` and ``gaps``: lines of tiny Shakespeare; ``translation``: Multi30k;
``summaries``: AESLC. Each seed draws other examples from the training part. A share of them is held out as in
``regard train FILE``. The test part is measured once for each seed: accuracy, or Pearson's r, AUC, the hit rate at 10,
nats a character, BLEU and ROUGE-L. Test sentences with a tag that the training examples lack are left out, for model
and baseline alike; the caption of the table counts them.

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
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import whole_graphs
from machine import machine

from regard.data.npz_files import read_arrays
from regard.studies.curve_corpora import open_problems, session_problem
from regard.studies.learning_curves import (
    TESTED,
    Arrays,
    CurvePoint,
    Files,
    LineProblem,
    Problem,
    holm,
    paired_difference,
    train_and_measure,
)

LINE = "{task:10} {size:5}  model {model:.4f}  baseline {baseline:.4f}  difference {difference:+.4f} ± {error:.4f}"
LEFT_OUT = "test sentences left out, as they have a tag that the training examples lack: {counts}"
SIZES = (100, 300, 1000)  # examples of training


def public(task: str) -> Callable[[Path, int], Problem]:
    """Return the opener of a corpus of the study ``crossover``."""
    return lambda data, seed: open_problems([task], data, {})[task]


def pairs(label: str, metric: str) -> Callable[[Path, int], Problem]:
    """Return the opener of pairs of sentences with a column as the label."""

    def opened(data: Path, seed: int) -> Problem:
        train, test = (_commas(_text(data / "sick" / f"{part}.tsv")) for part in ("train", "test"))
        keys = ('data.text=["first", "second"]', f"data.label={label}")
        return LineProblem(train[1:], test[1:], "data.csv", metric, head=train[0], keys=keys)

    return opened


def dna(data: Path, seed: int) -> Problem:
    train, test = (_text(data / "splice" / f"{part}.tsv") for part in ("train", "test"))
    return LineProblem(train, test, "data.tsv", "accuracy", keys=("task=classification",))


def gaps(data: Path, seed: int) -> Problem:
    lines = _text(data / "lm-tinyshakespeare" / "input.txt.gz")
    first = int(0.9 * len(lines))
    return LineProblem(lines[:first], lines[-TESTED:], "data.txt", "accuracy", keys=("task=masked",), ordered=True)


def summaries(data: Path, seed: int) -> Problem:
    """Return the problem of e-mails and subjects; only 300 are read for the test, since each is decoded."""
    parts = []
    for part in ("train", "test"):
        rows = map(json.loads, _text(data / "aeslc" / f"{part}.jsonl.gz"))
        parts.append([f"{' '.join(row['source'].split())}\t{' '.join(row['target'].split())}\n" for row in rows])
    keys = ("task=translation", "data.long_sources=cropped", "data.max_length=120")
    return LineProblem(parts[0], parts[1][:300], "data.tsv", "rouge-l", keys=keys)


@dataclass(frozen=True)
class NodeProblem:
    """Nodes of one graph: training reads the labels of some of them; the test and validation masks stay."""

    arrays: Arrays
    metric: str = "accuracy"
    lower_is_better: bool = False

    def __len__(self) -> int:
        return len(self._free())

    def _free(self) -> Any:
        arrays = self.arrays
        return np.nonzero(~(arrays["val_mask"] | arrays["test_mask"]) & (arrays["y"] >= 0))[0]

    def digest(self) -> str:
        return sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in self.arrays.values())).hexdigest()

    def write(self, folder: Path, size: int, seed: int) -> Files:
        chosen = np.random.default_rng(seed).permutation(self._free())[:size]
        mask = np.zeros(len(self.arrays["y"]), bool)
        mask[chosen] = True
        arrays: dict[str, Any] = self.arrays | {"train_mask": mask}
        np.savez(folder / "nodes.npz", **arrays)
        return Files(folder / "nodes.npz", folder / "nodes.npz", ("task=nodes",))


def nodes(data: Path, seed: int) -> Problem:
    return NodeProblem(read_arrays(data / "planetoid" / "cora.npz"))


def graphs(data: Path, seed: int) -> Problem:
    with tempfile.TemporaryDirectory() as place:
        whole_graphs.write("rewired", Path(place), seed)
        train, valid, test = (_text(Path(place) / f"{part}.jsonl") for part in ("train", "valid", "test"))
    return LineProblem(train + valid, test, "data.jsonl", "accuracy")


def items(data: Path, seed: int) -> Problem:
    return session_problem(seed, TESTED)


PROBLEMS: dict[str, Callable[[Path, int], Problem]] = {
    "sentiment": public("sentiment"), "pairs": pairs("entailment", "accuracy"),
    "relatedness": pairs("relatedness", "pearson"), "dna": dna, "tags": public("tags"), "graphs": graphs,
    "nodes": nodes, "links": public("links"), "items": items, "characters": public("characters"), "gaps": gaps,
    "translation": public("translation"), "summaries": summaries,
}  # fmt: skip


def main() -> None:
    given = _arguments()
    data, rows = Path(os.environ["REGARD_DATA"]), list[dict[str, Any]]()
    for name in given.problems:
        for size in given.sizes:
            drawn = [PROBLEMS[name](data, seed) for seed in range(1, given.seeds + 1)]
            measured = [
                train_and_measure(problem, size, seed, ["train.threads=1"])
                for seed, problem in enumerate(drawn, start=1)
                if len(problem) >= size
            ]
            if measured:
                rows.append(_row(name, size, measured, lower_is_better=drawn[0].lower_is_better))
                print(LINE.format_map(rows[-1]), flush=True)
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["corrected"] = p
    if counts := [f"{row['task']} {row['size']}: up to {row['left_out']}" for row in rows if row["left_out"]]:
        print(LEFT_OUT.format(counts=", ".join(counts)))
    below = [f"{row['task']} {row['size']}" for row in rows if row["corrected"] < 0.05]
    print(f"below the baseline (p < .05 after Holm's correction): {', '.join(below) or 'none'}")
    folder = Path("runs") / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "few-examples.json").write_text(json.dumps({"machine": machine(), "rows": rows}, indent=2))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="*", default=[*PROBLEMS], metavar="PROBLEM")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seeds", type=int, default=5)
    return parser.parse_args()


def _row(task: str, size: int, measured: list[CurvePoint], *, lower_is_better: bool) -> dict[str, Any]:
    """Return means, the difference with its standard error over seeds, and p of a difference of zero or more."""
    model = [run.model for run in measured]
    baseline = [run.baseline for run in measured if run.baseline is not None]
    difference = paired_difference(model, baseline, lower_is_better=lower_is_better)
    own = {"task": task, "size": size, "seeds": len(measured), "left_out": max(run.omitted for run in measured)}
    means = {"model": statistics.mean(model), "baseline": statistics.mean(baseline)}
    return own | means | {"difference": difference.mean, "error": difference.error, "p": difference.p}


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

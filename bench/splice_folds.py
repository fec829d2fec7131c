"""Splice junctions in ten folds: what ``regard train`` chooses for them, beside logistic regression by place.

    python bench/splice_folds.py FOLDER [--folds 10] [--set KEY=VALUE]

FOLDER holds ``train.tsv``, ``dev.tsv`` and ``test.tsv`` of sequences and classes, which are thrown together and cut by
a hash of the sequence, so that equal ones never stand on two sides. Of what is not the fold a tenth is held out. The
regression sees which 1, 2 and 3 letters stand at each place; its penalty is fixed. Prints the accuracy of each fold.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from machine import machine

LETTERS, CLASSES = "ACGT", ("EI", "IE", "N")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], dest="overrides", help="a key of the config")
    given = parser.parse_args()
    lines = [
        line for name in ("train", "dev", "test") for line in (given.folder / f"{name}.tsv").read_text().splitlines()
    ]
    work = Path("runs/splice-folds")
    work.mkdir(parents=True, exist_ok=True)
    print(machine())
    rows = []
    for fold in range(given.folds):
        parts = {"test": [line for line in lines if _fold(line, given.folds) == fold]}
        rest = [line for line in lines if _fold(line, given.folds) != fold]
        parts |= {"valid": rest[fold::10], "train": [line for at, line in enumerate(rest) if at % 10 != fold]}
        for name, of in parts.items():
            (work / f"{name}-{fold}.tsv").write_text("".join(f"{line}\n" for line in of))
        rows.append((_ours(work, fold, given.overrides), _regression(rest, parts["test"])))
        print(json.dumps({"fold": fold, "regard": rows[-1][0], "regression": rows[-1][1]}), flush=True)
    for name, values in zip(("regard", "regression"), zip(*rows, strict=True), strict=True):
        print(f"{name:12}{statistics.mean(values):.4f} ± {statistics.stdev(values) / len(values) ** 0.5:.4f}")


def _fold(line: str, folds: int) -> int:
    return int.from_bytes(hashlib.sha256(line.split("\t")[0].encode()).digest()[:4]) % folds


def _ours(work: Path, fold: int, overrides: list[str]) -> float:
    run = work / f"run-{fold}"
    settings = [each for override in (*overrides, "train.threads=1") for each in ("--set", override)]
    regard = [sys.executable, "-m", "regard"]
    names = [str(work / f"{name}-{fold}.tsv") for name in ("train", "valid", "test")]
    command = [*regard, "train", names[0], "--valid-file", names[1], "--runs", str(work), "--name", run.name, *settings]
    subprocess.run(command, check=True, capture_output=True)
    told = subprocess.run([*regard, "evaluate", str(run), names[2], "--json"], check=True, capture_output=True)
    accuracy: float = json.loads(told.stdout)["figures"]["accuracy"]
    return accuracy


def _regression(train: list[str], test: list[str], penalty: float = 1e-3) -> float:
    (x, y), (held, wanted) = (_features(part) for part in (train, test))
    weight = torch.zeros(x.shape[1], len(CLASSES), requires_grad=True)
    bias = torch.zeros(len(CLASSES), requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=100, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(x @ weight + bias, y) + penalty * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return float(((held @ weight + bias).argmax(1) == wanted).double().mean())


def _features(lines: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Which 1, 2 and 3 letters stand at each place, one-hot; a letter that is none of the four is none."""
    found = []
    for line in lines:
        sequence = line.split("\t")[0]
        row = []
        for size in (1, 2, 3):
            table = torch.zeros(len(sequence) - size + 1, 4**size)
            for at in range(len(table)):
                places = [LETTERS.find(letter) for letter in sequence[at : at + size]]
                if min(places) >= 0:
                    table[at, sum(place * 4**power for power, place in enumerate(places))] = 1
            row.append(table.flatten())
        found.append(torch.cat(row))
    labels = torch.tensor([CLASSES.index(line.split("\t")[1]) for line in lines])
    return torch.stack(found), labels


if __name__ == "__main__":
    main()

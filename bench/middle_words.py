"""Words in the middle of lines: the share that a run, its network alone and its tables alone predict.

    python bench/middle_words.py lines input.txt data/middle
    regard train middle-words --set 'data.train=[{source="data/middle/train.txt"}]' \\
        --set 'data.valid=[{source="data/middle/valid.txt"}]' --set data.tokenizer.size=6000
    python bench/middle_words.py measure runs/middle-words data/middle/valid.txt

``lines`` writes the lines of the study ``middle-word``: its test lines, and its training lines, of which every tenth is
validation data. ``measure`` hides the middle word of each line that the vocabulary contains.
"""

from __future__ import annotations

import sys
from copy import copy
from pathlib import Path
from typing import Any

import torch

from regard.data.text_files import read_lines
from regard.data.tokenizers.tokenizer import BEGIN, END, UNKNOWN
from regard.models.gap_gate import GapGate
from regard.studies.middle_word import LONGEST, SHORTEST, WORD
from regard.tasks.load import load


def main() -> None:
    action, source, target = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    if action == "lines":
        write_lines(source, target)
    else:
        measure(source, target)


def write_lines(text: Path, folder: Path) -> None:
    """Write the lines of ``studies.middle_word.read_words``."""
    distinct = dict.fromkeys(tuple(WORD.findall(line.lower()))[:LONGEST] for line in read_lines(text))
    lines = [" ".join(line) + "\n" for line in distinct if len(line) >= SHORTEST]
    train = [line for number, line in enumerate(lines) if number % 10 != 9]
    parts = {
        "test": lines[9::10],
        "valid": train[9::10],
        "train": [line for number, line in enumerate(train) if number % 10 != 9],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        (folder / f"{name}.txt").write_text("".join(part), encoding="utf-8")


def measure(run: Path, file: Path) -> None:
    filler: Any = load(run)
    rows = [filler.tokenizer.encode(line) for line in read_lines(file)]
    rows = [row for row in rows if row[len(row) // 2] != UNKNOWN]
    models = {"model": filler}
    if filler.tables is not None:
        network, tables = copy(filler), copy(filler)
        network.tables, tables.model = None, copy(filler.model)
        tables.model._modules = filler.model._modules | {
            "gate": GapGate(filler.model.gate.chains, filler.model.gate.buckets)
        }
        models |= {"network alone": network, "tables alone": tables}
    for name, model in models.items():
        right = sum(predicts(model, row) for row in rows)
        print(f"{name}: {100 * right / len(rows):.2f} % of {len(rows):,} middle words")


def predicts(filler: Any, row: list[int]) -> bool:
    """Return whether the middle word is the most probable one."""
    middle = len(row) // 2
    tokens = [BEGIN, *row[:middle], filler.mask, *row[middle + 1 :], END]
    return int(filler.log_probabilities(torch.tensor([tokens]))[0].argmax()) == row[middle]


if __name__ == "__main__":
    main()

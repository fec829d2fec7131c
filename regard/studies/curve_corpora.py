"""Corpora of the learning curves: public ones below one folder, generated sessions, or a file of the user."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.npz_files import read_arrays
from regard.data.text_files import read_lines
from regard.errors import ConfigError, DataError
from regard.studies.learning_curves import TESTED, LineProblem, LinkProblem, Problem

ITEMS, RULE, LENGTH = 500, 0.8, 12  # of generated sessions: items, share that follows the rule, items of a session
SESSIONS = 30_000
TEST_SHARE = 0.1  # of a file of the user


class _Source(NamedTuple):
    """Files of a corpus and where to get them.

    Attributes:
        files: patterns below the folder of corpora, without .gz; alternatives are separated by "|".
        origin: where to get them.
    """

    files: tuple[str, ...]
    origin: str


SOURCES = {
    "sentiment": _Source(
        ("sst/sst2-train.tsv", "sst/sst2-test.tsv"),
        "SST-2, data/SST2 of https://github.com/clairett/pytorch-sentiment-classification",
    ),
    "tags": _Source(
        ("ud-lines/train.jsonl", "ud-lines/test.jsonl"),
        "https://github.com/UniversalDependencies/UD_English-LinES, as JSON lines with `tokens` and `tags`",
    ),
    "characters": _Source(
        ("tiny-shakespeare/input.txt|lm-tinyshakespeare/input.txt",), "regard data fetch tiny-shakespeare"
    ),
    "links": _Source(("planetoid/cora.npz",), "regard data fetch planetoid"),
    "translation": _Source(
        tuple(f"multi30k/{part}.{side}" for part in ("train", "test_2016_flickr") for side in ("en", "de")),
        "regard data fetch multi30k",
    ),
}
TASKS = ("sentiment", "tags", "characters", "links", "items", "translation")


def open_problems(tasks: Sequence[str], data: Path | None, own: Mapping[str, Path]) -> dict[str, Problem]:
    """Return the problems of tasks by name.

    Args:
        tasks: names of ``TASKS``.
        data: folder of the public corpora.
        own: files of the user by task; they replace the corpus.

    Raises:
        ConfigError: if corpora are missing; it names all of them and where to get them.
        DataError: if a file cannot be read or is too small.
    """
    missing = [task for task in tasks if task not in own and task in SOURCES and not _is_complete(task, data)]
    if missing:
        sources = "; ".join(f"{task}: {', '.join(SOURCES[task].files)} ({SOURCES[task].origin})" for task in missing)
        folder = "no folder of corpora is set" if data is None else f"the folder {data} lacks them"
        available = [task for task in tasks if task not in missing]
        help = f"--data FOLDER (or REGARD_DATA), or --set {missing[0]}=FILE for a file of yours"
        help += f", or --set tasks={','.join(available)}" if available else ""
        raise ConfigError(
            "data for the study are missing", where=", ".join(missing), why=f"{folder}: {sources}", help=help
        )
    return {task: _of_file(task, own[task]) if task in own else _public(task, data) for task in tasks}


def _is_complete(task: str, data: Path | None) -> bool:
    return data is not None and all(_find(data, names) is not None for names in SOURCES[task].files)


def _find(data: Path, names: str) -> Path | None:
    """Return the first file that exists, plain or gzipped."""
    paths = (data / f"{name}{ending}" for name in names.split("|") for ending in ("", ".gz"))
    return next((path for path in paths if path.is_file()), None)


def _public(task: str, data: Path | None) -> Problem:
    if task == "items":
        return session_problem(seed=0, train=SESSIONS)
    assert data is not None
    files = [path for names in SOURCES[task].files if (path := _find(data, names)) is not None]
    if task == "links":
        return link_problem(files[0])
    if task == "characters":
        return _text_problem(_lines(files[0]), TESTED)
    if task == "translation":
        parts = [_lines(file) for file in files]
        return _row_problem(task, _pairs(*parts[:2]), _pairs(*parts[2:]))
    return _row_problem(task, _lines(files[0]), _lines(files[1]))


def _of_file(task: str, file: Path) -> Problem:
    """Return the problem of a file of the user, of which a tenth is the test part; the same for every seed."""
    if task == "links":
        return link_problem(file)
    lines = _lines(file)
    tested = min(round(TEST_SHARE * len(lines)), TESTED)
    if tested < 1:
        raise DataError("the file has too few lines", where=str(file), why="a tenth of them is the test part")
    if task == "characters":
        return _text_problem(lines, tested)
    random.Random(0).shuffle(lines)
    return _row_problem(task, lines[tested:], lines[:tested])


def _row_problem(task: str, train: list[str], test: list[str]) -> LineProblem:
    if task == "sentiment":
        return LineProblem(train, test, "data.tsv", "accuracy", keys=("task=classification",))
    if task == "tags":
        return LineProblem(train, test, "data.jsonl", "accuracy", keys=("task=tagging",))
    if task == "items":
        return LineProblem(train, test, "data.jsonl", "hit_rate_10", keys=("task=next-item",))
    return LineProblem(train, test, "data.tsv", "bleu", keys=("task=translation",))


def _text_problem(lines: list[str], tested: int) -> LineProblem:
    """Return the problem of one text: examples are consecutive lines, and the last lines are the test part."""
    first = int(0.9 * len(lines))  # the usual split of the corpus
    return LineProblem(lines[:first], lines[-tested:], "data.txt", "loss", lower_is_better=True, ordered=True)


def link_problem(file: Path) -> LinkProblem:
    """Return the problem of the graph in a .npz; a tenth of its edges, at most ``TESTED``, is the test part."""
    arrays = {name: array for name, array in read_arrays(file).items() if name == "edges" or name.startswith("x")}
    if "edges" not in arrays:
        raise DataError("the file is not a graph", where=str(file), why="it has no array `edges`")
    order = np.random.default_rng(0).permutation(len(arrays["edges"]))
    tested = min(round(TEST_SHARE * len(order)), TESTED)
    if tested < 3:
        raise DataError("the graph has too few edges", where=str(file), why="a tenth of them is the test part")
    return LinkProblem(arrays, order[tested:], np.sort(order[:tested]))


def session_problem(seed: int, train: int, test: int = TESTED) -> LineProblem:
    """Return the problem of generated sessions, drawn by ``seed``."""
    draw = random.Random(seed)
    rows = [json.dumps({"items": [f"i{item}" for item in draw_session(draw)]}) + "\n" for _ in range(train + test)]
    return _row_problem("items", rows[test:], rows[:test])


def draw_session(draw: random.Random) -> list[int]:
    """Return a session: from the third item on, a share of ``RULE`` is determined by the item two before it."""
    items = [draw.randrange(ITEMS), draw.randrange(ITEMS)]
    while len(items) < LENGTH:
        items.append((items[-2] * 7 + 3) % ITEMS if draw.random() < RULE else draw.randrange(ITEMS))
    return items


def _lines(file: Path) -> list[str]:
    return [f"{line}\n" for line in read_lines(file)]


def _pairs(sources: Sequence[str], targets: Sequence[str]) -> list[str]:
    return [f"{source.rstrip()}\t{target}" for source, target in zip(sources, targets, strict=True)]

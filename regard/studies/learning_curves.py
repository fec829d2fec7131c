"""Learning curves: a model and its baseline, trained on subsets of growing size, and their paired differences.

The study ``crossover`` and ``bench/few_examples.py`` share this file. A ``Problem`` writes a subset of its training
examples and its test examples to files; ``train_and_measure`` trains on them with the automatic choice.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from regard.tasks.evaluate import evaluate
from regard.tasks.find_config import find_config
from regard.training.start import train

TESTED = 1_000  # test examples, at most
Arrays = dict[str, npt.NDArray[Any]]


class Files(NamedTuple):
    """Files of one training and its test.

    Attributes:
        train: file of the training examples; a share of them is held out as in ``regard train FILE``.
        test: file of the test examples.
        keys: overrides of the config, KEY=VALUE.
        settings: keys of the section ``data`` for the evaluation.
        omitted: test examples left out, because they have a label that the training examples lack.
    """

    train: Path
    test: Path
    keys: tuple[str, ...] = ()
    settings: Mapping[str, Any] = MappingProxyType({})
    omitted: int = 0


class Problem(Protocol):
    """Training and test examples of a task, and the metric that compares models."""

    @property
    def metric(self) -> str:
        """Name of the metric of the test."""

    @property
    def lower_is_better(self) -> bool:
        """True if a smaller value of the metric is better."""

    def __len__(self) -> int:
        """Return the number of training examples."""

    def digest(self) -> str:
        """Return a hash of all examples."""

    def write(self, folder: Path, size: int, seed: int) -> Files:
        """Write ``size`` training examples, drawn by ``seed``, and the test examples to files in ``folder``."""


@dataclass(frozen=True)
class LineProblem:
    """Examples in lines of text.

    Attributes:
        train: lines of the training part, each with its line break.
        test: lines of the test part; the first ``TESTED`` of them are used.
        file: name of the files; its ending determines their form.
        metric: see ``Problem``.
        lower_is_better: see ``Problem``.
        head: first line of both files, such as the names of columns.
        keys: overrides of the config.
        ordered: whether examples are consecutive lines of one text instead of single lines.
    """

    train: list[str]
    test: list[str]
    file: str
    metric: str
    lower_is_better: bool = False
    head: str = ""
    keys: tuple[str, ...] = ()
    ordered: bool = False

    def __len__(self) -> int:
        return len(self.train)

    def digest(self) -> str:
        return sha256("".join([*self.train, "\0", *self.test]).encode()).hexdigest()

    def write(self, folder: Path, size: int, seed: int) -> Files:
        draw = random.Random(seed)
        if self.ordered:
            first = draw.randrange(len(self.train) - size + 1)
            rows = self.train[first : first + size]
        else:
            rows = draw.sample(self.train, size)
        test = self.test[:TESTED]
        known = with_known_tags(rows, test) if self.file.endswith(".jsonl") else test
        files = Files(
            folder / f"train-{self.file}", folder / f"test-{self.file}", self.keys, omitted=len(test) - len(known)
        )
        for path, lines in ((files.train, rows), (files.test, known)):
            path.write_text(self.head + "".join(lines), encoding="utf-8")
        return files


@dataclass(frozen=True)
class LinkProblem:
    """Edges of one graph: training reads some of them and all nodes, and the test ranks the others.

    Attributes:
        arrays: arrays of a .npz with ``edges`` (number, 2) and features of the nodes, without labels.
        test: rows of ``edges`` for the test.
        train: rows of ``edges`` of which training examples are drawn.
    """

    arrays: Arrays
    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]
    metric: str = "auc"
    lower_is_better: bool = False

    def __len__(self) -> int:
        return len(self.train)

    def digest(self) -> str:
        parts = [*self.arrays.values(), self.train, self.test]
        return sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()

    def write(self, folder: Path, size: int, seed: int) -> Files:
        chosen = np.sort(np.random.default_rng(seed).permutation(self.train)[:size])
        # A file has its own held-out edges: training spares one for the test, and the test uses all but two.
        one = 1 / len(self.test)
        files = Files(
            folder / "train-graph.npz",
            folder / "test-graph.npz",
            ("task=links", f"data.test_share={1 / size}"),
            {"part": "train", "valid_share": one, "test_share": one},
        )
        for path, rows in ((files.train, chosen), (files.test, self.test)):
            np.savez(path, **(self.arrays | {"edges": self.arrays["edges"][rows]}))
        return files


def with_known_tags(train: Sequence[str], test: Iterable[str]) -> list[str]:
    """Return the test lines whose tags all occur in the training lines; a model cannot predict other tags.

    Args:
        train: JSON objects, one per line; ``tags`` may be missing.
        test: as ``train``.
    """
    known = {tag for line in train for tag in _tags(line)}
    return [line for line in test if known.issuperset(_tags(line))]


def _tags(line: str) -> list[str]:
    tags: list[str] = json.loads(line).get("tags", [])
    return tags


class CurvePoint(NamedTuple):
    """Metric of a model and of its baseline on the test, and the circumstances.

    Attributes:
        model: metric of the model.
        baseline: metric of the baseline that the run fitted; None if the run has no baseline.
        wide: whether the baseline is part of the model (``model.wide``).
        seconds: duration of training and test.
        omitted: test examples left out, see ``Files``.
    """

    model: float
    baseline: float | None
    wide: bool
    seconds: float
    omitted: int


def train_and_measure(problem: Problem, size: int, seed: int, keys: Sequence[str] = ()) -> CurvePoint:
    """Train the automatic choice on ``size`` examples and measure model and baseline on the test.

    Args:
        problem: the examples.
        size: number of training examples, at most ``len(problem)``.
        seed: seed of the draw and of the training.
        keys: further overrides of the config, KEY=VALUE.
    """
    began = time.perf_counter()
    with TemporaryDirectory() as scratch:
        files = problem.write(Path(scratch), size, seed)
        config = find_config([str(files.train)], [], [*files.keys, f"seed={seed}", *keys])
        # Other metrics may be undefined: unknown characters have no bits.
        metrics = [problem.metric] if problem.metric in ("loss", "bleu", "rouge-l") else None
        run = train(config, Path(scratch) / "run")
        outcome = evaluate(run, files.test, metrics=metrics, **files.settings)
    baseline = None if outcome.baseline is None else outcome.baseline.figures[problem.metric]
    wide, seconds = bool(getattr(config, "wide", False)), time.perf_counter() - began
    return CurvePoint(outcome.figures[problem.metric], baseline, wide, seconds, files.omitted)


class Difference(NamedTuple):
    """Mean of paired differences, its standard error, and p of a true mean of zero or more (one-sided t-test).

    ``error`` and ``p`` are NaN for a single pair.
    """

    mean: float
    error: float
    p: float


def paired_difference(
    values: Sequence[float], reference: Sequence[float], *, lower_is_better: bool = False
) -> Difference:
    """Return how much better ``values`` are than ``reference``, pair by pair; positive means better."""
    from scipy.stats import t as student

    sign = -1 if lower_is_better else 1
    differences = [sign * (value - other) for value, other in zip(values, reference, strict=True)]
    mean, count = fmean(differences), len(differences)
    if count < 2:
        return Difference(mean, math.nan, math.nan)
    error = stdev(differences) / math.sqrt(count)
    if error == 0:
        return Difference(mean, 0.0, 0.0 if mean < 0 else 1.0)
    return Difference(mean, error, float(student.cdf(mean / error, count - 1)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values after Holm's correction (Holm 1979), in the same order; NaN stays NaN and is not counted."""
    numbers = [number for number, p in enumerate(p_values) if not math.isnan(p)]
    corrected, largest = list(p_values), 0.0
    for rank, number in enumerate(sorted(numbers, key=p_values.__getitem__)):
        largest = max(largest, min((len(numbers) - rank) * p_values[number], 1.0))
        corrected[number] = largest
    return corrected


def crossing(sizes: Sequence[int], differences: Sequence[float]) -> float:
    """Return the size from which the differences stay at or above zero, interpolated in the logarithm of the size.

    Args:
        sizes: in ascending order.
        differences: one per size.

    Returns:
        0 if no difference is below zero, infinity if the last one is.
    """
    below = [number for number, difference in enumerate(differences) if difference < 0]
    if not below:
        return 0.0
    last = below[-1]
    if last == len(sizes) - 1:
        return math.inf
    share = -differences[last] / (differences[last + 1] - differences[last])
    return float(sizes[last] * (sizes[last + 1] / sizes[last]) ** share)

"""Classifiers whose encoder is pretrained on the unlabeled texts of the same task.

Claim: an encoder that first learns to fill gaps in a task's texts, or to continue them, predicts their labels better
than one without pretraining. It reads no other texts (Dai & Le 2015; Krishna et al. 2023).

Measured: texts with labels, a fifth of them held out by a hash of the text. Three classifiers have one architecture, a
Transformer of 2 layers of width 128 with attention pooling. One has no pretraining, one the encoder of a masked model,
and one that of a language model, whose layers then attend to both sides. Pretraining reads the training texts without
their labels, and no held-out text, for 1,000 updates of 2,048 pieces. Texts with spaces are split into 4,000 pieces,
others into characters. Every classifier is trained for 400 updates at a rate that decreases to zero. Its accuracy is
that of its last weights, so the held-out texts select nothing. Three seeds apply to pretraining and classifier
together; a gain is the difference to the classifier without pretraining of the same seed.

Thresholds: a gain of one point of 100 for each type of pretraining, and of twice its standard error over the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from regard.core.figure import COLORS, INK
from regard.data.text_files import read_lines
from regard.errors import ConfigError, DataError
from regard.runs.config import load_config
from regard.runs.metrics_log import read_validations
from regard.studies.study import Cell, Findings, Report, at_least
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.labeled_text import read_labeled
from regard.training.start import train

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STARTS = {"none": None, "filling gaps": "masked", "continuing": "language-model"}  # pretraining: its task
SHARES = {"train": [0.0, 0.8], "valid": [0.8, 1.0]}
GAIN = 1.0  # percentage points


class ReadingSize(NamedTuple):
    """Seeds, updates of pretraining and of the classifier, and sizes of the networks."""

    seeds: int = 3
    read: int = 1000
    learn: int = 400
    layers: int = 2
    width: int = 128
    pieces: int = 4_000


MINIMAL = ReadingSize(2, 2, 2, 1, 8, 300)


def run(
    *, seed: int, minimal: bool, report: Report, text: Path | None = None, folder: Path | None = None,
    starts: Mapping[str, str | None] = STARTS,
) -> Findings:  # fmt: skip
    """Train the classifiers and compare their accuracies; tests replace the task of pretraining by ``starts``."""
    size = MINIMAL if minimal else ReadingSize()
    if text is None and not minimal:
        help = "regard study pretrain --text FILE"
        raise ConfigError("the study requires texts with labels", why="Regard contains none", help=help)
    accuracies: dict[str, list[float]] = {start: [] for start in starts}
    jobs = [(start, seed + number) for number in range(size.seeds) for start in starts]
    with TemporaryDirectory() as scratch:
        course = _course(Path(scratch), text, size)
        for done, (start, job_seed) in enumerate(jobs, start=1):
            accuracies[start].append(course.accuracy(starts[start], job_seed))
            report(done / len(jobs))
    return _findings(accuracies, course, "generated texts" if text is None else text.name)


class _Course(NamedTuple):
    """Files and sizes of a comparison; ``texts``: the number of training texts and of held-out texts."""

    folder: Path
    labeled: Path
    tokenizer: Mapping[str, Any]
    size: ReadingSize
    texts: tuple[int, int]
    majority: float

    def accuracy(self, task: str | None, seed: int) -> float:
        """Train a classifier after pretraining on ``task``; return its accuracy on the held-out texts, in percent."""
        model: dict[str, Any] = {"dropout": 0.3, "pooling": "attention"}
        if task is None:
            model |= {"encoder": self._encoder()}
        else:
            pretrained = self.folder / f"{task}-{seed}"
            train(self._reading(task, seed), pretrained)
            model |= {"encoder": {"from": str(pretrained)}}
        classifier = self.folder / f"{task or 'nothing'}-{seed}-labels"
        train(self._labeling(model, seed), classifier)
        figures = list(read_validations(classifier / "metrics.jsonl"))[-1].figures
        return 100 * figures["accuracy"]

    def _encoder(self) -> dict[str, Any]:
        width = self.size.width
        return dict(
            layers=self.size.layers, width=width, feed_forward=2 * width, heads=4, norm="pre", position="rotary"
        )

    def _reading(self, task: str, seed: int) -> dict[str, Any]:
        """Return the config of pretraining, on the training texts without their labels."""
        data = {"train": [{"source": str(self.folder / "texts.txt")}], "documents": "line", "tokenizer": self.tokenizer}
        model = self._encoder() | {"dropout": 0.1}
        return {"task": task, "seed": seed, "data": data, "model": model, "train": self._training(self.size.read)}

    def _labeling(self, model: Mapping[str, Any], seed: int) -> dict[str, Any]:
        data = {name: [{"source": str(self.labeled), "share": share}] for name, share in SHARES.items()}
        settings = self._training(self.size.learn)
        data |= {"tokenizer": self.tokenizer}  # type: ignore[dict-item]
        return {"task": "classification", "seed": seed, "data": data, "model": model, "train": settings}

    def _training(self, steps: int) -> dict[str, Any]:
        return dict(
            steps=steps, batch_tokens=2048, optimizer="adamw", learning_rate=1e-3, weight_decay=0.1, clip_norm=1.0,
            schedule="linear", threads=1, precision="float32", validate_every=steps, save_every=steps,
        )  # fmt: skip


def _course(folder: Path, text: Path | None, size: ReadingSize) -> _Course:
    """Write the files of the comparison. DataError if the training or the held-out part is empty."""
    labeled = folder / "labeled.tsv"
    lines = _generated() if text is None else list(read_lines(text))
    labeled.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    tables = {name: [{"source": str(labeled), "share": share}] for name, share in SHARES.items()}
    config = cast(ClassificationConfig, load_config({"task": "classification", "data": tables}))
    parts = {name: list(read_labeled(getattr(config.data, name), config.data)) for name in SHARES}
    if not all(parts.values()):
        raise DataError("the file has too few texts", why="a fifth of them is held out, by a hash of each text")
    texts = [example.texts[0] for example in parts["train"]]
    (folder / "texts.txt").write_text("".join(f"{document}\n" for document in texts), encoding="utf-8")
    has_spaces = sum(" " in document.strip() for document in texts) > len(texts) / 2
    tokenizer = {"kind": "byte-bpe", "size": size.pieces} if has_spaces else {"kind": "character"}
    labels = [example.labels[0] for example in parts["valid"]]
    majority = 100 * max(map(labels.count, set(labels))) / len(labels)
    return _Course(folder, labeled, tokenizer, size, (len(texts), len(labels)), majority)


def _findings(accuracies: Mapping[str, Sequence[float]], course: _Course, text: str) -> Findings:
    (_, plain), *pretrained = accuracies.items()
    gains = {
        start: [value - baseline for value, baseline in zip(values, plain, strict=True)] for start, values in pretrained
    }
    rows: list[tuple[Cell, ...]] = [
        (start, fmean(values), _spread(values), *_gain(gains.get(start))) for start, values in accuracies.items()
    ]
    criteria = []
    for start, differences in gains.items():
        error = _spread(differences) / math.sqrt(len(differences))
        criteria.append(at_least(f"gain of {start}, points", fmean(differences), max(GAIN, 2 * error)))
    train_count, test_count = course.texts
    remark = (
        f"The texts are {text}: {train_count:,} for training, {test_count:,} held out. Of the latter, "
        f"{course.majority:.1f} % have the most frequent label."
    )
    return Findings(
        columns=("pretraining", "accuracy, %", "spread", "gain", "its spread"), rows=rows, criteria=criteria,
        remarks=(remark,), draw=lambda figure: _draw(figure, accuracies, course.majority),
    )  # fmt: skip


def _gain(gains: Sequence[float] | None) -> tuple[float | str, float | str]:
    return ("", "") if gains is None else (fmean(gains), _spread(gains))


def _spread(values: Sequence[float]) -> float:
    """Return the standard deviation over seeds; NaN for a single seed."""
    return stdev(values) if len(values) > 1 else math.nan


def _draw(figure: Figure, accuracies: Mapping[str, Sequence[float]], majority: float) -> None:
    axes = figure.subplots()
    for row, values in enumerate(accuracies.values()):
        axes.barh(row, fmean(values), height=0.6, color=COLORS[0])
        axes.plot(values, [row] * len(values), ".", color=INK, markersize=4)
    axes.axvline(majority, color=INK, linewidth=0.8, linestyle="--")
    axes.set(
        ylabel="beginning of training",
        xlabel="accuracy, % (dashed: most frequent label)",
        yticks=range(len(accuracies)),
        yticklabels=list(accuracies),
    )
    axes.invert_yaxis()


def _generated() -> list[str]:
    """Return texts whose label depends on one word."""
    kinds = {"good": ("fine", "great", "lovely", "grand"), "bad": ("poor", "dull", "awful", "stale")}
    return [
        f"the {thing} number {number} is {word} indeed\t{label}"
        for label, words in kinds.items() for word in words for thing in ("film", "book") for number in range(6)
    ]  # fmt: skip

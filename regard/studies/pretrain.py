"""Classifiers whose encoder has read the task's own texts before it saw a label.

Claim: an encoder that first learned to fill gaps in the texts of a task, or to go on with them, tells their labels
better than one that begins from nothing, although it has read nothing else (Dai & Le 2015; Krishna et al. 2023).

Measured: texts with labels, a fifth of them held out by a hash of the text. Three classifiers of one shape, a
Transformer of 2 layers of 128 with pooling by attention: from nothing, with the encoder of a masked model, and with
that of a language model, whose layers then see both sides. Both have read the training texts without their labels for
1,000 updates of 2,048 pieces, and the held-out ones never. Words are cut into 4,000 pieces, texts without spaces into
letters. Every classifier learns for 400 updates at a rate that falls to zero; its accuracy is that of its last weights,
so nothing is chosen on what is held out. Three seeds, of the reading before and of the classifier together; a gain is
the difference to the classifier from nothing of the same seed.

Thresholds: a gain of a point of 100 for either, and of twice its standard error over the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple, cast

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

STARTS = {"nothing": None, "filling gaps": "masked", "going on": "language-model"}  # what was learned before: its task
SHARES = {"train": [0.0, 0.8], "valid": [0.8, 1.0]}
GAIN = 1.0  # of 100 texts


class ReadingSize(NamedTuple):
    """Seeds, updates before labels are seen and with them, and sizes of the networks."""

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
    """Train and judge; ``starts`` says what each classifier's encoder has learned before, for tests."""
    size = MINIMAL if minimal else ReadingSize()
    if text is None and not minimal:
        help = "regard study pretrain --text FILE"
        raise ConfigError("this study needs texts with labels", why="none are part of Regard", help=help)
    found: dict[str, list[float]] = {start: [] for start in starts}
    jobs = [(start, seed + number) for number in range(size.seeds) for start in starts]
    with TemporaryDirectory() as place:
        course = _course(Path(place), text, size)
        for done, (start, each) in enumerate(jobs, start=1):
            found[start].append(course.accuracy(starts[start], each))
            report(done / len(jobs))
    return _findings(found, course, "generated texts" if text is None else text.name)


class _Course(NamedTuple):
    """Files and sizes of a comparison; ``texts``: how many are learned from, and how many are held out."""

    place: Path
    labeled: Path
    tokenizer: Mapping[str, Any]
    size: ReadingSize
    texts: tuple[int, int]
    majority: float

    def accuracy(self, task: str | None, seed: int) -> float:
        """Per cent of the held-out texts whose label a new classifier tells after ``task``."""
        model: dict[str, Any] = {"dropout": 0.3, "pooling": "attention"}
        if task is None:
            model |= {"encoder": self._encoder()}
        else:
            before = self.place / f"{task}-{seed}"
            train(self._reading(task, seed), before)
            model |= {"encoder": {"from": str(before)}}
        after = self.place / f"{task or 'nothing'}-{seed}-labels"
        train(self._labeling(model, seed), after)
        figures = list(read_validations(after / "metrics.jsonl"))[-1].figures
        return 100 * figures["accuracy"]

    def _encoder(self) -> dict[str, Any]:
        width = self.size.width
        return dict(
            layers=self.size.layers, width=width, feed_forward=2 * width, heads=4, norm="pre", position="rotary"
        )

    def _reading(self, task: str, seed: int) -> dict[str, Any]:
        """Config of a model that reads the training texts without their labels."""
        data = {"train": [{"source": str(self.place / "texts.txt")}], "documents": "line", "tokenizer": self.tokenizer}
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


def _course(place: Path, text: Path | None, size: ReadingSize) -> _Course:
    """Files to learn from. DataError where nothing is held out, or the texts are too few to be cut into pieces."""
    labeled = place / "labeled.tsv"
    lines = _generated() if text is None else list(read_lines(text))
    labeled.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    tables = {name: [{"source": str(labeled), "share": share}] for name, share in SHARES.items()}
    config = cast(ClassificationConfig, load_config({"task": "classification", "data": tables}))
    parts = {name: list(read_labeled(getattr(config.data, name), config.data)) for name in SHARES}
    if not all(parts.values()):
        raise DataError("there are too few texts", why="a fifth of them is held out, by a hash of each")
    texts = [example.texts[0] for example in parts["train"]]
    (place / "texts.txt").write_text("".join(f"{each}\n" for each in texts), encoding="utf-8")
    spaced = sum(" " in each.strip() for each in texts) > len(texts) / 2
    tokenizer = {"kind": "byte-bpe", "size": size.pieces} if spaced else {"kind": "character"}
    labels = [example.labels[0] for example in parts["valid"]]
    majority = 100 * max(map(labels.count, set(labels))) / len(labels)
    return _Course(place, labeled, tokenizer, size, (len(texts), len(labels)), majority)


def _findings(found: Mapping[str, Sequence[float]], course: _Course, text: str) -> Findings:
    (_, plain), *others = found.items()
    gains = {start: [one - other for one, other in zip(told, plain, strict=True)] for start, told in others}
    rows: list[tuple[Cell, ...]] = [
        (start, fmean(told), _spread(told), *_gain(gains.get(start))) for start, told in found.items()
    ]
    criteria = []
    for start, each in gains.items():
        error = _spread(each) / math.sqrt(len(each))
        criteria.append(at_least(f"more labels of 100 after {start}", fmean(each), max(GAIN, 2 * error)))
    learned, held = course.texts
    remark = (
        f"The texts are {text}: {learned:,} to learn from, {held:,} held out, of which {course.majority:.1f} % have "
        f"the most frequent label."
    )
    return Findings(
        columns=("learned before", "labels told, %", "spread", "gain", "its spread"), rows=rows, criteria=criteria,
        remarks=(remark,), draw=lambda figure: _draw(figure, found, course.majority),
    )  # fmt: skip


def _gain(gains: Sequence[float] | None) -> tuple[float | str, float | str]:
    return ("", "") if gains is None else (fmean(gains), _spread(gains))


def _spread(values: Sequence[float]) -> float:
    """Standard deviation over seeds; none of a single one."""
    return stdev(values) if len(values) > 1 else math.nan


def _draw(figure: Figure, found: Mapping[str, Sequence[float]], majority: float) -> None:
    axes = figure.subplots()
    for place, told in enumerate(found.values()):
        axes.barh(place, fmean(told), height=0.6, color=f"C{place}")
        axes.plot(told, [place] * len(told), "k.", markersize=4)
    axes.axvline(majority, color="black", linewidth=0.8, linestyle="--")
    axes.set(xlabel="labels told, % (dashed: the most frequent one)", yticks=range(len(found)), yticklabels=list(found))
    axes.invert_yaxis()


def _generated() -> list[str]:
    """Texts that are good or bad by one of their words."""
    kinds = {"good": ("fine", "great", "lovely", "grand"), "bad": ("poor", "dull", "awful", "stale")}
    return [
        f"the {thing} number {number} is {word} indeed\t{label}"
        for label, words in kinds.items() for word in words for thing in ("film", "book") for number in range(6)
    ]  # fmt: skip

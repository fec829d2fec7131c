"""The vocabulary and the labels of a classifier: learned from its training files, kept in the run folder."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from regard.core import atomic_files
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.data.labels import Labels
from regard.data.tokenizers.catalogue import Tokenizer, load_tokenizer
from regard.errors import DataError
from regard.runs.checkpoint import read_best
from regard.runs.metrics_log import read_validations
from regard.tasks.classification.labelled_text import LabelledText, read_labelled_part
from regard.tasks.label_numbers import Scale, read_number
from regard.tasks.text_tokenizer import make_text_tokenizer

__all__ = ["LabelCodec", "make_codec", "open_codec", "open_run"]

FILE = "labels.json"  # of labels, or mean and deviation of numbers


class LabelCodec(NamedTuple):
    """The tokenizer, and the labels of the classes, or the scale of numbers.

    ``temperature``: the divisor of logits under which the probabilities of the best checkpoint were likeliest on
    validation data (Guo et al. 2017, §4.2).
    """

    tokenizer: Tokenizer
    labels: Labels
    scale: Scale | None = None
    temperature: float = 1.0

    @property
    def spec(self) -> dict[str, int]:
        """The sizes of the network's tables."""
        return {"types": len(self.tokenizer), "classes": len(self.labels.names) if self.scale is None else 1}


def make_codec(run: RunFiles, say: Report) -> LabelCodec:
    """Learn the labels and the vocabulary, and save both in the run. DataError where there are not two labels."""
    data = run.config.data
    examples = read_labelled_part(data, "train")
    tokenizer = make_text_tokenizer(run, (text for each in examples for text in each.texts), say)
    labels, scale = Labels((), ()), None
    if data.label_kind == "number":
        scale = _learned_scale(examples, run, say)
    else:
        help = "--set data.label=3 reads the labels from another column"
        counts = Counter(label for each in examples for label in each.labels)
        if isinstance(data.label, tuple) and (absent := [label for label in data.label if label not in counts]):
            what, help = f"no example has the label {absent[0]!r}", "leave its column out of data.label"
            raise DataError(what, where=data.train[0].name, why="its column says no in every row", help=help)
        labels = Labels.of(counts, where=data.train[0].name, help=help)
        labels.save(run.tokenizers / FILE)
        say(f"labels: {labels.told()}")
    atomic_files.fault_point("vocabulary")
    return LabelCodec(tokenizer, labels, scale)


def _learned_scale(examples: list[LabelledText], run: RunFiles, say: Report) -> Scale:
    scale = Scale.of([read_number(each.labels, each.where) for each in examples] or [0.0])
    say(f"labels: numbers, mean {scale.mean:.4g}, standard deviation {scale.deviation:.4g}")
    scale.save(run.tokenizers / FILE)
    return scale


def open_codec(run: RunFiles) -> LabelCodec:
    """The saved tokenizer and labels. ModelError where they are missing or damaged."""
    tokenizer, path = load_tokenizer(run.tokenizers, "text"), run.tokenizers / FILE
    if run.config.data.label_kind == "number":
        return LabelCodec(tokenizer, Labels((), ()), Scale.open(path))
    return LabelCodec(tokenizer, Labels.open(path), None, _temperature(run))


def _temperature(run: RunFiles) -> float:
    """The temperature of the best checkpoint's validation, or of the last one; 1 where there was none."""
    found = {each.step: each.figures["temperature"] for each in read_validations(run.path / "metrics.jsonl")
             if each.figures.get("temperature", 0.0) > 0}  # fmt: skip
    best = read_best(run.path / "checkpoints")
    last = next(reversed(found.values()), 1.0)
    return last if best is None else found.get(best.step, last)


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codec = open_codec(run)
    return CodecsAndSpec(codec, codec.spec)

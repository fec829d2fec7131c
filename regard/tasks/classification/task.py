"""Classification: one or several texts to a class, to several labels or to a number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.answers.label_set import SeveralLabels
from regard.answers.number import Number
from regard.answers.one_class import OneClass
from regard.core.task import Card
from regard.data.shared_files import FilesConfig
from regard.models.classifier import SequenceClassifier, build_classifier
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.labelled_text import (
    labelled_rows,
    make_answer,
    make_text,
    read_labelled,
    read_texts,
)
from regard.tasks.held_out_samples import validated_on
from regard.tasks.supervised import Supervised

__all__ = ["CLASSIFICATION", "TASK"]


def _build(config: ClassificationConfig, spec: Mapping[str, int]) -> SequenceClassifier:
    return build_classifier(config.model, types=spec["types"], classes=spec["classes"])


def _sample(folder: Path) -> dict[str, Any]:
    """Short texts of which the label is the first word's kind."""
    kinds = {"good": "fine great lovely".split(), "bad": "poor dull awful".split()}
    lines = [
        f"{word} {' '.join('a film it is'.split()[: 1 + at])}\t{label}\n"
        for label, words in kinds.items() for at, word in enumerate(words)
    ]  # fmt: skip
    (folder / "sample.tsv").write_text("".join(lines), encoding="utf-8")
    corpus = {"source": str(folder / "sample.tsv")}
    return {
        "data": {"train": [corpus], "valid": [corpus]},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "pooling": "attention"},
        "train": {"batch_tokens": 16},
    }


def _held_out_samples(folder: Path, sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    contents = "fine a film\tgood\npoor a\tbad\n", "a zebra\tbad\nfine\tbad\nquite dull it\tgood\n"
    return validated_on(sample, folder, "valid.tsv", contents)


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    """Yield texts, labels and places: see ``core.task.Task.lint_rows``."""
    for each in read_labelled(corpora, data):
        yield "\t".join(each.texts), "\n".join(sorted(each.labels)), each.where


CLASSIFICATION = Supervised(
    fields=lambda config: {"text": make_text(config.data, config.model)},
    answer=lambda config: make_answer(config.data),
    answers=(OneClass, SeveralLabels, Number),
    rows=labelled_rows,
)
TASK = CLASSIFICATION.task(
    name="classification",
    unit="texts",
    build=_build,
    small_spec={"types": 8, "classes": 2},
    sample=_sample,
    held_out_samples=_held_out_samples,
    row_inputs=read_texts,
    lint_rows=_lint_rows,
    sample_lines=("a fine film", "dull", "it is", ""),
    card=Card("text-classification", 'print(model(["…"])[0])', "classify {run} < in.txt"),
)

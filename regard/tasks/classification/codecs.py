"""The vocabulary and the label names of a classifier: learned from its training files, kept in the run folder."""

from __future__ import annotations

import json
from collections import Counter
from typing import NamedTuple

from regard.core import atomic_files
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.core.untrusted_files import SMALL, parse_json, read_bytes
from regard.data.tokenizers.catalogue import Tokenizer, load_tokenizer, train_tokenizer
from regard.errors import DataError, ModelError
from regard.tasks.classification.labelled_text import read_labelled

__all__ = ["LabelCodec", "make_codec", "open_codec", "open_run"]

MOST_CLASSES = 10_000


class LabelCodec(NamedTuple):
    """The tokenizer, the labels in the order of the classes, and how many training examples each had."""

    tokenizer: Tokenizer
    labels: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def spec(self) -> dict[str, int]:
        """The sizes of the network's tables."""
        return {"types": len(self.tokenizer), "classes": len(self.labels)}


def make_codec(run: RunFiles, say: Report) -> LabelCodec:
    """Learn the labels and the vocabulary, and save both in the run. DataError where there are not two labels."""
    data = run.config.data
    counts: Counter[str] = Counter(each.label for each in read_labelled(data.train, data))
    if not 2 <= len(counts) <= MOST_CLASSES:
        raise DataError(
            f"a classifier cannot learn from {len(counts):,} labels",
            where=data.train[0].name,
            why=f"there are 2 to {MOST_CLASSES:,} classes",
            help="--set data.label=3 reads the labels from another column",
        )
    texts = (text for each in read_labelled(data.train, data) for text in each.texts)
    tokenizer = train_tokenizer(texts, data.tokenizer)
    labels = tuple(sorted(counts))
    codec = LabelCodec(tokenizer, labels, tuple(counts[label] for label in labels))
    say(f"vocabulary: {len(tokenizer):,} {data.tokenizer.kind} pieces")
    shares = ", ".join(f"{label} {count / counts.total():.1%}" for label, count in counts.most_common(8))
    say(f"labels: {len(labels)}: {shares}{' …' if len(labels) > 8 else ''}")
    tokenizer.save(run.tokenizers, "text")
    content = {"labels": list(labels), "counts": list(codec.counts)}
    text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
    (run.tokenizers / "labels.json").write_text(text, encoding="utf-8")
    atomic_files.fault_point("vocabulary")
    return codec


def open_codec(run: RunFiles) -> LabelCodec:
    """The saved tokenizer and labels. ModelError where they are missing or damaged."""
    tokenizer, path = load_tokenizer(run.tokenizers, "text"), run.tokenizers / "labels.json"
    try:
        head = parse_json(read_bytes(path, SMALL))
        labels, counts = tuple(head["labels"]), tuple(head["counts"])
        if len({*labels}) != len(counts) or not all(isinstance(label, str) for label in labels):
            raise ValueError("labels are different texts, each with a count")
        if not all(isinstance(count, int) and count > 0 for count in counts):
            raise ValueError("counts are whole numbers above 0")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            "the labels of the model cannot be read", where=str(path), why=str(error), help="copy the whole run again"
        ) from error
    return LabelCodec(tokenizer, labels, counts)


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codec = open_codec(run)
    return CodecsAndSpec(codec, codec.spec)

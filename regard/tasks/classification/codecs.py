"""The vocabulary and the label names of a classifier: learned from its training files, kept in the run folder."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from regard.core import atomic_files
from regard.core.task import CodecsAndSpec, Report, RunFiles
from regard.data.labels import Labels
from regard.data.tokenizers.catalogue import Tokenizer, load_tokenizer, train_tokenizer
from regard.tasks.classification.labelled_text import read_labelled

__all__ = ["LabelCodec", "make_codec", "open_codec", "open_run"]

FILE = "labels.json"


class LabelCodec(NamedTuple):
    """The tokenizer, and the labels of the classes."""

    tokenizer: Tokenizer
    labels: Labels

    @property
    def spec(self) -> dict[str, int]:
        """The sizes of the network's tables."""
        return {"types": len(self.tokenizer), "classes": len(self.labels.names)}


def make_codec(run: RunFiles, say: Report) -> LabelCodec:
    """Learn the labels and the vocabulary, and save both in the run. DataError where there are not two labels."""
    data = run.config.data
    counts: Counter[str] = Counter(each.label for each in read_labelled(data.train, data))
    labels = Labels.of(
        counts, where=data.train[0].name, help="--set data.label=3 reads the labels from another column"
    )  # fmt: skip
    texts = (text for each in read_labelled(data.train, data) for text in each.texts)
    tokenizer = train_tokenizer(texts, data.tokenizer)
    say(f"vocabulary: {len(tokenizer):,} {data.tokenizer.kind} pieces")
    say(f"labels: {labels.told()}")
    tokenizer.save(run.tokenizers, "text")
    labels.save(run.tokenizers / FILE)
    atomic_files.fault_point("vocabulary")
    return LabelCodec(tokenizer, labels)


def open_codec(run: RunFiles) -> LabelCodec:
    """The saved tokenizer and labels. ModelError where they are missing or damaged."""
    return LabelCodec(load_tokenizer(run.tokenizers, "text"), Labels.open(run.tokenizers / FILE))


def open_run(run: RunFiles) -> CodecsAndSpec:
    """See ``core.task.Task.open``."""
    codec = open_codec(run)
    return CodecsAndSpec(codec, codec.spec)

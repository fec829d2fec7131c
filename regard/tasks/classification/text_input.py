"""Texts as the input of a classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.baselines.text_pairs import PairBaseline
from regard.baselines.texts import TextBaseline
from regard.core.task import Card
from regard.data.shared_files import FilesConfig
from regard.models.classifier import token_input
from regard.models.input import Input
from regard.tasks.classification.automatic_config import choose
from regard.tasks.classification.inputs import ClassifierInput
from regard.tasks.classification.labeled_text import labeled_rows, make_text, read_labeled, read_texts


def _network(model: Any, spec: Mapping[str, int]) -> Input:
    return token_input(model, spec["types"])


def _lint_rows(data: Any, corpora: Sequence[FilesConfig]) -> Iterator[tuple[str, str | None, str]]:
    """Yield texts, labels and row names: see ``core.task.Task.lint_rows``."""
    for example in read_labeled(corpora, data):
        yield "\t".join(example.texts), "\n".join(sorted(example.labels)), example.where


INPUT = ClassifierInput(
    field=make_text,
    network=_network,
    rows=labeled_rows,
    row_inputs=read_texts,
    lint_rows=_lint_rows,
    lint_unit="word",
    propose=choose,
    card=Card("text-classification", 'print(model(["…"])[0])', "classify {run} < in.txt"),
    baseline=lambda data: PairBaseline() if len(data.text) == 2 else TextBaseline(),
)

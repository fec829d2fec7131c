"""Sums over decoded outputs, from which metrics are computed; the sums of two parts of a test set can be added."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from regard.core.task import Indices, MetricSums
from regard.data.pairs import PairExamples
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.metrics.text import METRICS, check_names, metric_sums

GREEDY = {"beam": 1, "nbest": 1, "temperature": None, "top_k": None, "top_p": None}


def measure(
    examples: PairExamples,
    indices: Indices,
    names: Sequence[str],
    translate: Callable[[list[str]], list[str]],
    target: TokenizerConfig,
    language: str | None,
) -> MetricSums:
    """Return the sums of the metrics over pairs; each distinct source is translated once.

    For wer and per, an item is a distinct source with the references of all its pairs. It is counted with the first of
    these pairs, so the sums of the parts of any division of the examples add up.

    Args:
        examples: the pairs.
        indices: the pairs to measure.
        names: the names of the metrics.
        translate: returns the outputs for sources.
        target: the tokenizer of the targets, whose joiners are removed from references, as in outputs.
        language: the language of the targets, by which metrics split text into words.
    """
    check_names(names)
    every = [int(index) for index in indices]
    first = [index for index in every if _lines_of_one_source(examples, index)[0] == index]
    rows = {name: first if METRICS[name].by_source else every for name in names}
    sources = list(dict.fromkeys(examples.texts[index][0] for chosen in rows.values() for index in chosen))
    outputs = dict(zip(sources, translate(sources), strict=True))
    sums: MetricSums = {}
    for name, chosen in rows.items():
        by_source = METRICS[name].by_source
        lines = [_lines_of_one_source(examples, index) if by_source else [index] for index in chosen]
        references = [_references(examples, pairs, target) for pairs in lines]
        texts = [outputs[examples.texts[index][0]] for index in chosen]
        if texts:
            counts = metric_sums(name, texts, references, language=language)
            sums[name] = torch.tensor(counts, dtype=torch.float64)
    return sums


def _lines_of_one_source(examples: PairExamples, index: int) -> list[int]:
    return examples.by_source[examples.texts[index][0]]


def _references(examples: PairExamples, lines: Sequence[int], target: TokenizerConfig) -> list[str]:
    """Return the distinct targets of these pairs, detokenized in the same way as outputs."""
    targets = (target.remove_joiners(examples.texts[index][1]) for index in lines)
    return list(dict.fromkeys(targets))

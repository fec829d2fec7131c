"""Counts over decoded outputs, of which metrics of a part of a test set are made; those of two parts add up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from regard.core.task import Indices, MetricSums
from regard.data.pairs import PairExamples
from regard.metrics.text import METRICS, check_names, metric_sums

if TYPE_CHECKING:
    from regard.tasks.translation.translator import Translator

__all__ = ["measure"]

GREEDY = {"beam": 1, "nbest": 1, "temperature": None, "top_k": None, "top_p": None}


def measure(
    translator: Translator,
    examples: PairExamples,
    indices: Indices,
    names: Sequence[str],
    interrupted: Callable[[], bool],
) -> MetricSums:
    """Sums of the metrics over these pairs, each source decoded once, greedily, by the other settings of the run.

    For wer and per an item is a distinct source, with the references of all its pairs, wherever they are: it is
    counted with the first of these pairs, so that parts of the examples add up however they are cut. Raises ModelError
    where the model computes no probabilities, KeyboardInterrupt where ``interrupted`` says so at a step.
    """
    check_names(names)
    every = [int(index) for index in indices]
    first = [index for index in every if _lines_of_one_source(examples, index)[0] == index]
    rows = {name: first if METRICS[name].by_source else every for name in names}
    decoded = list(dict.fromkeys(index for each in rows.values() for index in each))
    outputs = _outputs(translator, examples, decoded, interrupted)
    sums: MetricSums = {}
    for name, chosen in rows.items():
        by_source = METRICS[name].by_source
        lines = [_lines_of_one_source(examples, index) if by_source else [index] for index in chosen]
        references = [_references(translator, examples, each) for each in lines]
        said = [outputs[examples.texts[index][0]] for index in chosen]
        if said:
            counts = metric_sums(name, said, references, language=translator.language)
            sums[name] = torch.tensor(counts, dtype=torch.float64)
    return sums


def _outputs(
    translator: Translator, examples: PairExamples, indices: Sequence[int], interrupted: Callable[[], bool]
) -> Mapping[str, str]:
    """The output of each distinct source."""
    sources = list(dict.fromkeys(examples.texts[index][0] for index in indices))
    search = translator.search.model_copy(update=GREEDY)
    found = translator.translate(sources, search=search, interrupted=interrupted)
    return {source: each.text for source, each in zip(sources, found, strict=True)}


def _lines_of_one_source(examples: PairExamples, index: int) -> list[int]:
    return examples.by_source[examples.texts[index][0]]


def _references(translator: Translator, examples: PairExamples, lines: Sequence[int]) -> list[str]:
    """The distinct targets of these pairs, put together as outputs are."""
    targets = (translator.target.config.remove_joiners(examples.texts[index][1]) for index in lines)
    return list(dict.fromkeys(targets))

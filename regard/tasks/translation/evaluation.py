"""Evaluation of translations: comparison with references, another model's outputs, and sentences of the text itself."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from regard.config.settings import SearchConfig
from regard.core.outcomes import OutcomeRow
from regard.core.task import MetricSums, MetricTable, OutputBaseline, ProgressCallback
from regard.data.lint.languages import is_swapped
from regard.data.sentence_split import split_sentences
from regard.metrics.significance import BootstrapDifference, OnlyRight, compare_outputs, only_exact
from regard.metrics.text import (
    METRICS,
    ROUGE,
    SACREBLEU,
    EvaluationSet,
    MetricScore,
    evaluate,
    metric_sums,
    metric_value,
    read_examples,
    score_texts,
)
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.outcomes import line_rows
from regard.tasks.translation.translator import Translator
from regard.training.baseline import GROUPS, BaselineComparison, compare
from regard.training.ranks import ProcessGroup

DAMPING, PASSES = 0.85, 50
WORD = re.compile(r"\w+")


class TranslationTest:
    """A test set and the model that translates it: see ``tasks.reference_test.ReferenceTest``."""

    def __init__(self, config: TranslationConfig, model: Translator, files: Sequence[Path]) -> None:
        self.data, self.model, self.search = config.data, model, model.search
        self.examples, self.files = read_examples(files[0], files[1:], tokenizer=model.target.config), files
        self._log_probabilities: dict[str, float] = {}  # of the last outputs, by source

    def __len__(self) -> int:
        return len(self.examples.sources)

    @cached_property
    def inputs(self) -> list[str]:
        return list(dict.fromkeys(self.examples.sources))

    @property
    def warnings(self) -> Iterator[str]:
        """Yield a warning if the sources look like the target language, and the references like the source language."""
        source, target = self.data.source_language, self.data.target_language
        pairs = zip(self.examples.sources, (references[0] for references in self.examples.references), strict=True)
        if source and target and source != target and is_swapped(pairs, (source, target)):
            yield f"the model translates {source} to {target}, but the files look like {target} to {source}"

    def outputs(
        self, search: SearchConfig, done: ProgressCallback = lambda count: None, peers: ProcessGroup | None = None
    ) -> list[str]:
        """Translate each distinct source once, on one of the ``peers``; all of them receive the result."""
        rank, world = (0, 1) if peers is None else (peers.rank, peers.world)
        translations = self.model.translate(self.inputs[rank::world], search=search, done=done)
        self._log_probabilities = {one.source: one.candidates[0].log_probability for one in translations}
        texts = [one.text for one in translations]
        parts = [texts] if peers is None else [json.loads(part) for part in peers.gather(json.dumps(texts).encode())]
        outputs = {source: parts[number % world][number // world] for number, source in enumerate(self.inputs)}
        return [outputs[source] for source in self.examples.sources]

    def score(self, metric: str, outputs: Sequence[str]) -> MetricScore:
        texts = dict(zip(self.examples.sources, outputs, strict=True))
        return score_texts(metric, texts, self.examples, language=self.data.target_language)

    def compare_baseline(
        self, metrics: Sequence[str], outputs: Sequence[str], baseline: OutputBaseline
    ) -> BaselineComparison:
        """Compare by groups of lines; those with equal sources are in one group."""
        own = dict(zip(self.examples.sources, outputs, strict=True))
        other = dict(zip(self.inputs, baseline.outputs(self.inputs), strict=True))
        groups = [self.inputs[group::GROUPS] for group in range(min(GROUPS, len(self.inputs)))]
        sums = [[self._sums(metrics, texts, set(group)) for group in groups] for texts in (own, other)]
        return compare(_figures, baseline.description, *sums)

    def _sums(self, metrics: Sequence[str], texts: Mapping[str, str], sources: Collection[str]) -> MetricSums:
        """Return the sums of metrics over the lines with these sources; ``texts``: outputs by source."""
        pairs = zip(self.examples.sources, self.examples.references, strict=True)
        lines = [(source, references) for source, references in pairs if source in sources]
        part = EvaluationSet([source for source, _ in lines], [references for _, references in lines])
        sums = {}
        for name in metrics:
            items = part.by_source() if METRICS[name].by_source else part
            outputs = [texts[source] for source in items.sources]
            counts = metric_sums(name, outputs, items.references, language=self.data.target_language)
            sums[name] = torch.tensor(counts, dtype=torch.float64)
        return sums

    def tables(self, metrics: Sequence[str], outputs: Sequence[str]) -> dict[str, MetricTable]:
        return _compare_with_extracts(metrics, self.examples, outputs, self.data.target_language)

    def rows(self, outputs: Sequence[str]) -> list[OutcomeRow]:
        return line_rows(
            self.model, self.files, self.examples, outputs, self._log_probabilities, self.data.target_language
        )

    def only_exact(self, outputs: Sequence[str], other_outputs: Sequence[str]) -> OnlyRight:
        return only_exact(outputs, other_outputs, self.examples)

    def compare(self, metric: str, outputs: Sequence[str], other_outputs: Sequence[str]) -> BootstrapDifference:
        return compare_outputs(metric, outputs, other_outputs, self.examples, language=self.data.target_language)


def _figures(sums: MetricSums) -> dict[str, float]:
    """Return the metrics of sums; those without a token in the references are left out."""
    return {name: metric_value(name, own.tolist()) for name, own in sums.items() if name in SACREBLEU or own[-1] > 0}


def _compare_with_extracts(
    metrics: Sequence[str], examples: EvaluationSet, outputs: Sequence[str], language: str | None
) -> dict[str, MetricTable]:
    """Return a table with ROUGE of the model's summaries and of extracted sentences, and their share of copied words.

    The table is empty for metrics other than ROUGE.
    """
    names = [name for name in metrics if name in ROUGE]
    if not names:
        return {}
    rows: list[tuple[str | int | float, ...]] = []
    extracts = {title: [of(source, language) for source in examples.sources] for title, of in EXTRACTS.items()}
    for title, summaries in {"this model": outputs, **extracts}.items():
        values = [evaluate(name, summaries, examples.references).value for name in names]
        rows.append((title, *values, copied_share(examples.sources, summaries)))
    references = [own[0] for own in examples.references]
    rows.append(("references", *("" for _ in names), copied_share(examples.sources, references)))
    return {"extracts": MetricTable(("summary", *names, "copied words"), tuple(rows))}


def first_sentence(text: str, language: str | None) -> str:
    """Return the first sentence; the whole text if it has no sentence."""
    return next(iter(split_sentences(text, language).sentences), text)


def central_sentence(text: str, language: str | None) -> str:
    """Return the sentence with the highest TextRank, the first of equal ones (Mihalcea & Tarau 2004, Eq. 2, 3).

    TextRank is the PageRank (damping 0.85) of the graph of all sentences. Edge weight: similarity of two sentences =
    words in common / (log of the number of words of one + log of the number of words of the other). Cost:
    O(sentences²).
    """
    sentences = split_sentences(text, language).sentences
    if len(sentences) < 3:
        return sentences[0] if sentences else text
    words = [set(_words(sentence)) for sentence in sentences]
    edges = np.array([[_similarity(one, other) for other in words] for one in words])
    np.fill_diagonal(edges, 0.0)
    shares = edges / np.maximum(edges.sum(0), 1e-12)
    rank = np.ones(len(sentences))
    for _ in range(PASSES):
        rank = 1 - DAMPING + DAMPING * shares @ rank
    return sentences[int(rank.argmax())]


def copied_share(sources: Sequence[str], outputs: Sequence[str]) -> float:
    """Return the percentage of output words that occur in their source, ignoring case."""
    copied = total = 0
    for source, output in zip(sources, outputs, strict=True):
        source_words, words = set(_words(source)), _words(output)
        copied, total = copied + sum(word in source_words for word in words), total + len(words)
    return 100 * copied / max(total, 1)


EXTRACTS: dict[str, Callable[[str, str | None], str]] = {
    "first sentence": first_sentence,
    "central sentence": central_sentence,
}


def _similarity(one: set[str], other: set[str]) -> float:
    if len(one) < 2 or len(other) < 2:
        return 0.0
    return len(one & other) / (math.log(len(one)) + math.log(len(other)))


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())

"""Evaluation of translations: comparison of outputs with references and with outputs of another model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from regard.config.settings import SearchConfig
from regard.core.task import MetricTable, ProgressCallback
from regard.data.lint.languages import is_swapped
from regard.metrics.significance import BootstrapDifference, compare_outputs
from regard.metrics.text import ROUGE, EvaluationSet, MetricScore, evaluate, read_examples, score_texts
from regard.tasks.translation.config import TranslationConfig
from regard.tasks.translation.extracts import EXTRACTS, copied_share
from regard.tasks.translation.translator import Translator
from regard.training.ranks import ProcessGroup


class TranslationTest:
    """A test set and the model that translates it: see ``tasks.evaluation.ReferenceTest``."""

    def __init__(self, config: TranslationConfig, model: Translator, files: Sequence[Path]) -> None:
        self.data, self.model, self.search = config.data, model, model.search
        self.examples = read_examples(files[0], files[1:], tokenizer=model.target.config)

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
        if source is not None and target is not None and is_swapped(pairs, (source, target)):
            yield f"the model translates {source} to {target}, but the files look like {target} to {source}"

    def outputs(
        self, search: SearchConfig, done: ProgressCallback = lambda count: None, peers: ProcessGroup | None = None
    ) -> list[str]:
        """Translate each distinct source once, on one of the ``peers``; all of them receive the result."""
        rank, world = (0, 1) if peers is None else (peers.rank, peers.world)
        texts = [one.text for one in self.model.translate(self.inputs[rank::world], search=search, done=done)]
        parts = [texts] if peers is None else [json.loads(part) for part in peers.gather(json.dumps(texts).encode())]
        outputs = {source: parts[number % world][number // world] for number, source in enumerate(self.inputs)}
        return [outputs[source] for source in self.examples.sources]

    def score(self, metric: str, outputs: Sequence[str]) -> MetricScore:
        texts = dict(zip(self.examples.sources, outputs, strict=True))
        return score_texts(metric, texts, self.examples, language=self.data.target_language)

    def tables(self, metrics: Sequence[str], outputs: Sequence[str]) -> dict[str, MetricTable]:
        return _compare_with_extracts(metrics, self.examples, outputs, self.data.target_language)

    def compare(self, metric: str, outputs: Sequence[str], other_outputs: Sequence[str]) -> BootstrapDifference:
        return compare_outputs(metric, outputs, other_outputs, self.examples, language=self.data.target_language)


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

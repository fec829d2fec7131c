"""The baseline of a translation model, by its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from regard.baselines.nearest import NearestBaseline
from regard.core.baseline import FOLDER, open_saved_baseline, save_baseline
from regard.core.task import Data, Indices, MetricSums, RunFiles
from regard.data.reading import read_pairs
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.metrics.text import metric_sums, metric_value
from regard.tasks.translation.config import translation_config
from regard.tasks.translation.evaluation import first_sentence
from regard.tasks.translation.measure import measure

MAX_LINES = 300_000  # that are read of the files of a corpus
SHORTER = 0.5  # targets with less characters than this share of those of the sources may be summaries
FEWEST, TRIED = 20, 300  # pairs by which the threshold is chosen
THRESHOLDS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


class Recalled(NamedTuple):
    """The target of a training pair, and the cosine of its source with that of a request."""

    text: str
    cosine: float


class TranslationBaseline:
    """``core.task.OutputBaseline`` of the target of the nearest source; it has no loss.

    Args:
        model: the fitted model.
        target: the tokenizer of the targets.
        language: the language of the targets.
    """

    def __init__(self, model: NearestBaseline, target: TokenizerConfig, language: str | None) -> None:
        self.model, self.target, self.language = model, target, language

    @property
    def description(self) -> str:
        return self.model.description

    def outputs(self, inputs: Sequence[str]) -> list[str]:
        """Return the output for each source."""
        return self.model.outputs(inputs, self._first_sentence)

    def nearest(self, sources: Sequence[str]) -> list[Recalled]:
        """Return the target of the nearest source, without a threshold."""
        pairs, cosines = self.model.nearest(sources)
        return [
            Recalled(self.model.targets[pair], cosine) for pair, cosine in zip(pairs, cosines.tolist(), strict=True)
        ]

    def _first_sentence(self, source: str) -> str:
        return first_sentence(source, self.language)

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``."""
        indices = indices[indices >= 0]
        return measure(examples, indices, names, self.outputs, self.target, self.language) if names else {}

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)

    def learn(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Read the pairs.

        If the targets are much shorter than the sources, the first sentence replaces the target of a source that is not
        near. The threshold has the highest mean chrF on the first pairs, each without itself.
        """
        tried = self.model.learn(sources, targets)[:TRIED]
        if len(tried) < FEWEST or not are_short(targets=targets, sources=sources):
            return
        texts, references = [sources[pair] for pair in tried], [targets[pair] for pair in tried]
        pairs, cosines = self.model.nearest(texts, own=True)
        near = self._chrf([self.model.targets[pair] for pair in pairs], references)
        first = self._chrf(list(map(self._first_sentence, texts)), references)
        means = [np.where(cosines >= threshold, near, first).mean() for threshold in THRESHOLDS]
        self.model.threshold = THRESHOLDS[int(np.argmax(means))]

    def _chrf(self, outputs: Sequence[str], references: Sequence[str]) -> np.ndarray:
        sums = [
            metric_sums("chrf", [output], [[reference]], language=self.language)
            for output, reference in zip(outputs, references, strict=True)
        ]
        return np.array([metric_value("chrf", own) for own in sums])


def are_short(sources: Sequence[str], targets: Sequence[str]) -> bool:
    """Return whether targets are much shorter than their sources, as summaries are."""
    return sum(map(len, targets)) < SHORTER * sum(map(len, sources))


def fit_translation_baseline(run: RunFiles, data: Data) -> TranslationBaseline | None:
    """Fit the baseline on the pairs of the training files; None without a pair."""
    config = translation_config(run)
    pairs = [pair for corpus in config.data.train for pair in islice(read_pairs(corpus), MAX_LINES)]
    if not pairs:
        return None
    target = data.codecs.target.config
    baseline = TranslationBaseline(NearestBaseline(), target, config.data.target_language)
    baseline.learn([source for _, source, _ in pairs], [target.remove_joiners(text) for _, _, text in pairs])
    return baseline


def open_translation_baseline(run: RunFiles, codecs: Any) -> TranslationBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    model = open_saved_baseline(run.path / FOLDER, NearestBaseline(), lambda model: model.nearest([""]))
    language = translation_config(run).data.target_language
    return None if model is None else TranslationBaseline(model, codecs.target.config, language)

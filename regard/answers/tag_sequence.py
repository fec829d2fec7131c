"""One tag for each token of a sentence, and the spans that the tags encode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.answers.answer_base import NoSettings
from regard.answers.losses import class_loss
from regard.answers.named_labels import CLASS_METRICS, NamedLabels, ranked
from regard.answers.spans import best_path, spans
from regard.answers.tag_codecs import MajorityTags, SpanScheme, no_spans
from regard.answers.tagged_tokens import TaggedTokens, Tagging
from regard.core.answer import InputContext, LossAndSums
from regard.core.observation import Alternative, PredictionKind
from regard.core.outcomes import TargetOutcome
from regard.core.task import Metric, MetricSums, Report, RunFiles
from regard.core.wording import pluralize
from regard.data.rows import Column, Row, aligned_tokens
from regard.metrics.classes import class_metrics


class TagSequence(NamedLabels):
    """One tag for each token. A value is ``TaggedTokens``, since the baseline needs the tokens.

    Args:
        columns: columns of the tokens and of the tags.
        needs_spans: whether training needs the metric ``entity_f1``.
    """

    per_position: ClassVar[bool] = True
    kind: ClassVar[PredictionKind] = "tag"
    noun: ClassVar[str] = "tags"
    remedy: ClassVar[str] = "--set data.tag=4 reads the tags from another column"
    marker: ClassVar[str] = "confusion"
    metrics: ClassVar[Mapping[str, Metric]] = {
        **CLASS_METRICS,
        "accuracy": Metric(lower_is_better=False, baseline="most_frequent_tag"),
        "most_frequent_tag": Metric(lower_is_better=False),
        "exact": Metric(lower_is_better=False, by_predictor=True),
        "entity_f1": Metric(lower_is_better=False, by_predictor=True),
    }

    def __init__(self, columns: tuple[Column, Column], *, needs_spans: bool = False) -> None:
        super().__init__(columns)
        self.needs_spans = needs_spans
        self.words, self.span_scheme = MajorityTags(), SpanScheme()

    @property
    def measured(self) -> Collection[str]:
        return ("exact", "entity_f1") if self.span_scheme.scheme is not None else ("exact",)

    def value(self, row: Row) -> TaggedTokens:
        return TaggedTokens(*aligned_tokens(row, self.columns))

    def names(self, value: TaggedTokens) -> tuple[str, ...]:
        return value.tags

    def learn(self, run: RunFiles, values: Sequence[Any], locations: Sequence[str], log: Report, *, where: str) -> Self:
        self.span_scheme = SpanScheme.learn(value.tags for value in values)
        names = [name for value in values for name in self.span_scheme.class_tags(value.tags)]
        self.learn_names(run, Counter(names), log, where=where)
        tokens = (token for value in values for token in value.tokens)
        self.words = MajorityTags.learn(run, tokens, names, self.labels)
        self.span_scheme.save(run)
        log(pluralize(len(self.words.words), "distinct word"))
        if self.span_scheme.scheme is not None:
            log(f"tag scheme: {self.span_scheme.scheme.upper()}")
        elif self.needs_spans:
            raise no_spans(self.labels.names)
        return self

    def open(self, run: RunFiles) -> Self:
        super().open(run)
        self.words, self.span_scheme = MajorityTags.open(run, self.labels), SpanScheme.open(run, self.labels.names)
        return self

    def targets(self, values: Sequence[TaggedTokens], locations: Sequence[str]) -> npt.NDArray[np.int64]:
        rows = self.numbers([self.span_scheme.class_tags(value.tags) for value in values], locations)
        return np.array([number for row in rows for number in row], np.int64)

    def baseline_targets(self, values: Sequence[TaggedTokens]) -> npt.NDArray[np.int64]:
        return np.array(self.words.of(token for value in values for token in value.tokens), np.int64)

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        return class_loss(outputs, targets, smoothing=smoothing, evaluating=False)

    @staticmethod
    def compute_metrics(sums: MetricSums) -> dict[str, float]:
        """Compute the metrics; ``most_frequent_tag`` is the accuracy of the baseline.

        ``exact``: the share of sentences with every predicted tag right. ``entity_f1``: 2 · correct / (true +
        predicted) spans.
        """
        metrics = {**class_metrics(sums), "most_frequent_tag": float(sums["baseline_right"] / sums["confusion"].sum())}
        if "exact" in sums:
            metrics["exact"] = float(sums["exact"][0] / sums["exact"][1].clamp(min=1))
        if "spans" in sums:
            true, predicted, both = sums["spans"].tolist()
            metrics["entity_f1"] = 2 * both / max(true + predicted, 1.0)
        return metrics

    def measure(self, outputs: Tensor, targets: Tensor) -> MetricSums:
        """Count the sentence, also if its tags are right; and true, predicted and correctly predicted spans."""
        output = self.predict(outputs, NoSettings(), InputContext())
        tags = tuple(self.labels.names[number] for number in targets.tolist())
        is_right = self.span_scheme.output_tags(tags) == output.tags
        sums = {"exact": torch.tensor([float(is_right), 1.0], dtype=torch.float64)}
        if self.span_scheme.scheme is not None:
            true, predicted = {*spans(tags)}, {*output.spans}
            counts = [len(true), len(predicted), len(true & predicted)]
            sums["spans"] = torch.tensor(counts, dtype=torch.float64)
        return sums

    def predict(self, outputs: Tensor, settings: NoSettings, context: InputContext) -> Tagging:
        """Predict the most likely tags; for span tags, the most likely valid sequence."""
        log_p, names = outputs.log_softmax(-1).numpy(), self.labels.names
        scheme = self.span_scheme.class_scheme
        numbers = best_path(log_p, names, scheme) if scheme and len(log_p) else log_p.argmax(1).tolist()
        tags = self.span_scheme.output_tags(tuple(names[number] for number in numbers))
        p = tuple(np.exp(log_p[np.arange(len(numbers)), numbers]).tolist())
        return Tagging(context.tokens, tags, p, tuple(spans(tags)) if scheme else ())

    def write(self, output: Tagging, *, json: bool) -> str:
        """Return ``token/TAG`` with spaces between, or an object with probabilities, and with spans for span tags."""
        return output.as_json(with_spans=self.span_scheme.scheme is not None) if json else output.as_text()

    def outcomes(self, outputs: Tensor, targets: Tensor) -> list[TargetOutcome]:
        rows = super().outcomes(outputs, targets)
        if self.span_scheme.scheme is None:
            return rows
        tags = self.span_scheme.class_tags(self.predict(outputs, NoSettings(), InputContext()).tags)
        return [row._replace(output=tag) for row, tag in zip(rows, tags, strict=True)]

    def alternatives(self, outputs: Tensor) -> tuple[Alternative, ...]:
        return ranked(self.labels.names, self.log_probabilities(outputs))

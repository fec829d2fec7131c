"""A trained classifier at work: texts to labels with their probabilities."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from regard.core.task import Indices, MetricSums, never
from regard.data.padding import padded
from regard.models.classifier import SequenceClassifier
from regard.tasks.classification.codecs import LabelCodec
from regard.tasks.classification.config import ClassificationConfig
from regard.tasks.classification.examples import encode_texts

__all__ = ["Classification", "Classifier"]

ROWS = 64  # classified together


class Classification(NamedTuple):
    """A label, its probability, those of all labels, what each piece weighed, and whether a text was cut.

    ``label`` is None where its probability is below what was asked for.
    """

    label: str | None
    probability: float
    probabilities: dict[str, float]
    weights: list[tuple[str, float]]  # only pooling by attention says more than where the text begins and ends
    cut: bool


class Classifier:
    """A network with its vocabulary and labels: ``regard.load("runs/sst2")(["a fine film"])[0].label``."""

    def __init__(self, net: SequenceClassifier, codec: LabelCodec, config: ClassificationConfig) -> None:
        self.net, self.codec, self.config = net.eval(), codec, config

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels in the order of the classes."""
        return self.codec.labels.names

    def __call__(self, inputs: Sequence[str | Sequence[str]], *, abstain_below: float = 0.0) -> list[Classification]:
        """One outcome for each text, or for each tuple of texts where the model reads several columns."""
        texts = [(each,) if isinstance(each, str) else tuple(each) for each in inputs]
        for each in texts:
            self._require_columns(each)
        rows, cut = encode_texts(self.codec.tokenizer, texts, self.config.data.max_length)
        order = sorted(range(len(rows)), key=lambda at: len(rows[at]))
        found: dict[int, Classification] = {}
        for begin in range(0, len(order), ROWS):
            places = order[begin : begin + ROWS]
            outcomes = self._classify([rows[at] for at in places], abstain_below)
            found |= {at: each._replace(cut=cut[at]) for at, each in zip(places, outcomes, strict=True)}
        return [found[at] for at in range(len(rows))]

    @torch.no_grad()
    def _classify(self, rows: Sequence[Sequence[int]], abstain_below: float) -> list[Classification]:
        device = next(self.net.parameters()).device
        tokens, valid = (table.to(device) for table in padded(rows))
        logits, weights = self.net(tokens, valid)
        outcomes = []
        for row, p, weight in zip(rows, logits.double().softmax(-1).tolist(), weights.tolist(), strict=True):
            best = max(range(len(p)), key=p.__getitem__)
            pieces = self.codec.tokenizer.pieces(row)
            outcomes.append(
                Classification(
                    self.labels[best] if p[best] >= abstain_below else None,
                    p[best],
                    dict(zip(self.labels, p, strict=True)),
                    list(zip(pieces, weight, strict=False)),
                    False,
                )
            )
        return outcomes

    def read(self, line: str) -> tuple[str, ...]:
        """A text, or as many as the model reads, with a tab between."""
        texts = tuple(line.rstrip("\r\n").split("\t")) if len(self.config.data.text) > 1 else (line.rstrip("\r\n"),)
        self._require_columns(texts)
        return texts

    def _require_columns(self, texts: Sequence[str]) -> None:
        wanted = len(self.config.data.text)
        if len(texts) != wanted:
            raise ValueError(f"the model reads {wanted} texts, a tab between two, and this is {len(texts)}")

    def write(self, output: Classification, *, json: bool) -> str:
        """``LABEL<TAB>PROBABILITY``, or an object with the probabilities of all labels; ``?`` where it abstains."""
        if not json:
            return f"{'?' if output.label is None else output.label}\t{output.probability:.4f}"
        told: dict[str, Any] = {
            "label": output.label,
            "probability": round(output.probability, 6),
            "probabilities": {label: round(p, 6) for label, p in output.probabilities.items()},
        }
        return jsonlib.dumps(told | ({"cut": True} if output.cut else {}), ensure_ascii=False)

    def measure(
        self, examples: Any, indices: Indices, names: Sequence[str], interrupted: Callable[[], bool] = never
    ) -> MetricSums:
        """Nothing: all that is measured comes from the objective."""
        return {}

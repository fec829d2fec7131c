"""One of several classes, without settings of the prediction."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from torch import Tensor

from regard.answers.answer_base import NoSettings
from regard.answers.calibrated_class import CalibratedClass
from regard.answers.named_labels import DECIMALS
from regard.core.answer import InputContext


class ClassPrediction(NamedTuple):
    """One class of several.

    Attributes:
        label: the most likely label.
        probability: of the label, 0 to 1.
        probabilities: of all labels, by name.
        weights: the weights of the nodes in the pooled vector of a graph.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    weights: Sequence[tuple[str, float]]


class PlainClass(CalibratedClass):
    """One label per example."""

    remedy: ClassVar[str] = (
        "--set data.label=KEY reads labels from another key; --set data.label_kind=number predicts numbers"
    )

    def predict(self, outputs: Tensor, settings: NoSettings, context: InputContext) -> ClassPrediction:
        p = dict(zip(self.labels.names, self.probabilities(outputs).tolist(), strict=True))
        label = max(p, key=p.__getitem__)
        return ClassPrediction(label, p[label], p, context.weights)

    def write(self, output: ClassPrediction, *, json: bool) -> str:
        """Return the label, or the probabilities of all labels as JSON."""
        if not json:
            return output.label
        rounded = {label: round(p, DECIMALS) for label, p in output.probabilities.items()}
        return jsonlib.dumps({"label": output.label, "probabilities": rounded}, ensure_ascii=False)

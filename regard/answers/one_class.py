"""One of several classes, or none if its probability is low."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from torch import Tensor

from regard.answers.answer_base import NoSettings
from regard.answers.calibrated_class import CalibratedClass
from regard.answers.named_labels import to_json
from regard.config.prediction_settings import AbstentionSettings
from regard.config.setting_models import request_model
from regard.core.answer import InputContext
from regard.data.rows import Column

if TYPE_CHECKING:
    ClassSettings = AbstentionSettings
else:
    ClassSettings = request_model(AbstentionSettings, base=NoSettings)


class Classification(NamedTuple):
    """One class of several, or none.

    Attributes:
        label: the most likely label; None if its probability is below ``abstain_below``.
        probability: of the most likely label, 0 to 1.
        probabilities: of all labels, by name.
        weights: the label and the weight of each position in the pooled vector; empty unless the network pools by
            attention.
        cut: whether the input was shortened to the limit of the run.
    """

    label: str | None
    probability: float
    probabilities: dict[str, float]
    weights: Sequence[tuple[str, float]]
    cut: bool


class OneClass(CalibratedClass):
    """One label per example.

    Args:
        columns: the column of the label.
        balanced: whether classes, instead of examples, have equal weights in the loss.
    """

    settings: ClassVar[type[BaseModel]] = ClassSettings

    def __init__(self, columns: tuple[Column, ...], *, balanced: bool = False) -> None:
        super().__init__(columns)
        self.balanced = balanced

    def row_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not self.balanced:
            return np.ones(len(targets))
        counts = np.array(self.labels.counts)
        return np.asarray((counts.sum() / (len(counts) * counts))[targets])

    def predict(self, outputs: Tensor, settings: ClassSettings, context: InputContext) -> Classification:
        p = self.probabilities(outputs).tolist()
        best = max(range(len(p)), key=p.__getitem__)
        label = self.labels.names[best] if p[best] >= (settings.abstain_below or 0.0) else None
        return Classification(
            label, p[best], dict(zip(self.labels.names, p, strict=True)), context.weights, context.truncated
        )

    def write(self, output: Classification, *, json: bool) -> str:
        """Return ``LABEL<TAB>PROBABILITY``, or all probabilities as JSON; ``?`` for no label."""
        return to_json(output) if json else f"{'?' if output.label is None else output.label}\t{output.probability:.4f}"

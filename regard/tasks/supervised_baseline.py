"""The baseline of a supervised run: fitted on the training values, measured like the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.answer import LossAndSums, TaskAnswer
from regard.core.baseline import FOLDER, InputBaseline, baseline_outputs, open_saved_baseline, save_baseline
from regard.core.task import Indices, MetricSums, RunFiles
from regard.core.tensors import added_sums
from regard.tasks.net_outputs import measured_sums
from regard.tasks.supervised_codecs import SupervisedCodecs

MAX_OUTPUTS = 16_000_000  # numbers that are computed together


class SupervisedBaseline:
    """``core.task.TaskBaseline`` of an ``InputBaseline`` and the answer of a run."""

    def __init__(self, model: InputBaseline, codecs: SupervisedCodecs) -> None:
        self.model, self.codecs = model, codecs

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``; a value of several examples counts at the first of them."""
        (outputs,) = self.codecs.answer.sizes.values()
        sums: MetricSums = {}
        for parts in grouped_values(examples, examples.values_starting_in(indices), outputs):
            sums = added_sums(sums, self._sums_of(examples, parts, names))
        return sums

    def _sums_of(self, examples: Any, parts: Sequence[Indices], names: Sequence[str]) -> MetricSums:
        """Return the sums over values, each given by its examples."""
        columns = examples.value_columns(np.array([part[0] for part in parts]))
        outputs = torch.from_numpy(baseline_outputs(self.model, columns))
        sizes = [len(examples.target_places(part)) for part in parts]
        return measured_values(self.codecs.answer, examples, parts, outputs.split(sizes), names).sums

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def measured_values(
    answer: TaskAnswer, examples: Any, parts: Sequence[Indices], outputs: Sequence[Tensor], names: Sequence[str]
) -> LossAndSums:
    """Return the loss of each target of values, and all sums of an evaluation.

    Args:
        answer: the answer of the run.
        examples: the ``SupervisedExamples``.
        parts: the examples of each value.
        outputs: the outputs (targets, outputs) of each value.
        names: the metrics of the predictor.
    """
    together = np.concatenate([examples.target_places(part) for part in parts])
    targets, whole = torch.from_numpy(np.asarray(examples.targets[together])), torch.cat([*outputs])
    unit = torch.full((len(targets),), answer.unit, dtype=torch.float64)
    terms = answer.loss(whole, targets, unit, smoothing=0.0, evaluating=True)
    sums = terms.sums
    if (constant := examples.constant_targets(together)) is not None:
        sums = {**sums, **answer.compare(whole, targets, constant)}
    sizes = [len(output) for output in outputs]
    return LossAndSums(terms.loss, sums | measured_sums(answer, outputs, targets.split(sizes), names))


def grouped_values(examples: Any, values: Sequence[Indices], outputs: int) -> Iterator[list[Indices]]:
    """Yield the values in groups of at most ``MAX_OUTPUTS`` outputs, or of one value."""
    rows = MAX_OUTPUTS // outputs
    group, number = list[Indices](), 0
    for value in values:
        own = len(examples.target_places(value))
        if group and number + own > rows:
            yield group
            group, number = [], 0
        group.append(value)
        number += own
    if group:
        yield group


def fit_supervised(model: InputBaseline, columns: Sequence[Sequence[Any]], targets: Any, answer: TaskAnswer) -> None:
    """Fit the baseline on the columns of values and the targets of the training data.

    It is opened as saved, because a resumed run opens it.
    """
    (outputs,) = answer.sizes.values()
    model.learn(columns, targets, answer.row_weights(targets), outputs)
    model.open(model.save())


def open_supervised(model: InputBaseline, run: RunFiles, codecs: SupervisedCodecs) -> InputBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    (outputs,) = codecs.answer.sizes.values()

    def check(opened: InputBaseline) -> None:
        if opened.outputs([[] for _ in codecs.fields]).shape[1] != outputs:
            raise ValueError(f"it does not have the {outputs} outputs of the run")

    return open_saved_baseline(run.path / FOLDER, model, check)

"""The baseline of a supervised run: fitted on the training values, measured like the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from regard.core.answer import TaskAnswer
from regard.core.baseline import FOLDER, InputBaseline, baseline_outputs, open_baseline, save_baseline
from regard.core.codec_files import MALFORMED
from regard.core.task import Indices, MetricSums, RunFiles
from regard.core.wording import describe_error
from regard.errors import ModelError
from regard.tasks.net_outputs import measured_sums
from regard.tasks.supervised_codecs import SupervisedCodecs


class SupervisedBaseline:
    """``core.task.TaskBaseline`` of an ``InputBaseline`` and the answer of a run."""

    def __init__(self, model: InputBaseline, codecs: SupervisedCodecs) -> None:
        self.model, self.codecs = model, codecs

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``; a value of several examples counts at the first of them."""
        answer, parts = self.codecs.answer, examples.values_starting_in(indices)
        if not parts:
            return {}
        positions = [examples.target_places(part) for part in parts]
        together = np.concatenate(positions)
        columns = examples.value_columns(np.array([part[0] for part in parts]))
        outputs = torch.from_numpy(baseline_outputs(self.model, columns))
        targets = torch.from_numpy(np.asarray(examples.targets[together]))
        unit = torch.full((len(targets),), answer.unit, dtype=torch.float64)
        sums = answer.loss(outputs, targets, unit, smoothing=0.0, evaluating=True).sums
        if (constant := examples.constant_targets(together)) is not None:
            sums = {**sums, **answer.compare(outputs, targets, constant)}
        sizes = [len(place) for place in positions]
        return sums | measured_sums(answer, outputs.split(sizes), targets.split(sizes), names)

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def fit_supervised(model: InputBaseline, columns: Sequence[Sequence[Any]], targets: Any, answer: TaskAnswer) -> None:
    """Fit the baseline on the columns of values and the targets of the training data.

    It is opened as saved, so that it is the same in a resumed run.
    """
    (outputs,) = answer.sizes.values()
    model.learn(columns, targets, answer.row_weights(targets), outputs)
    model.open(model.save())


def open_supervised(model: InputBaseline, run: RunFiles, codecs: SupervisedCodecs) -> InputBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    saved = open_baseline(run.path / FOLDER, model.kind)
    if saved is None:
        return None
    (outputs,) = codecs.answer.sizes.values()
    try:
        model = model.open(saved)
        if model.outputs([[] for _ in codecs.fields]).shape[1] != outputs:
            raise ValueError(f"it does not have the {outputs} outputs of the run")
    except MALFORMED as error:
        where, help = str(run.path / FOLDER), "copy the whole run folder again"
        raise ModelError("the baseline is damaged", where=where, why=describe_error(error), help=help) from error
    return model

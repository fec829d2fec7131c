"""The outcomes of a supervised task: the rows of an analysis of errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from regard.core.outcomes import MeasuredRows, OutcomeRow, TargetOutcome
from regard.core.task import Indices, MetricSums
from regard.core.tensors import added_sums
from regard.core.untrusted_files import shortened
from regard.tasks.supervised_baseline import grouped_values, measured_values
from regard.tasks.supervised_predictor import SupervisedPredictor

AROUND, BEFORE = 3, 10  # shown tokens on either side of an answered one, and items before the one that continues them


class SupervisedOutcomes:
    """``core.outcomes.Outcomes`` of a predictor and ``SupervisedExamples`` that keep their values."""

    unit = "examples"

    def __init__(self, predictor: SupervisedPredictor, examples: Any) -> None:
        self._predictor, self._codec, self._examples = predictor, predictor.codec, examples

    def __len__(self) -> int:
        return len(self._examples.starts) - 1

    def measure(self, values: Sequence[int], names: Sequence[str]) -> MeasuredRows:
        """See ``core.outcomes.Outcomes``."""
        starts, rows = self._examples.starts, list[OutcomeRow]()
        sums: MetricSums = {}
        number_of = {starts[value]: value for value in values if starts[value] < starts[value + 1]}
        parts = [np.arange(first, starts[value + 1]) for first, value in number_of.items()]
        (outputs,) = self._codec.answer.sizes.values()
        for group in grouped_values(self._examples, parts, outputs):
            measured = self._measure(group, [number_of[int(part[0])] for part in group], names)
            rows += measured.rows
            sums = added_sums(sums, measured.sums)
        return MeasuredRows(rows, sums)

    def _measure(self, parts: Sequence[Indices], values: Sequence[int], names: Sequence[str]) -> MeasuredRows:
        answer, examples = self._codec.answer, self._examples
        outputs = self._predictor.value_outputs(examples, parts)
        terms = measured_values(answer, examples, parts, outputs, names)
        columns = [*zip(*examples.value_columns([part[0] for part in parts]), strict=True)]
        losses, rows = terms.loss.split([len(output) for output in outputs]), list[OutcomeRow]()
        for part, value, output, loss, inputs in zip(parts, values, outputs, losses, columns, strict=True):
            targets = np.asarray(examples.targets[examples.target_places(part)])
            counted = (answer.row_weights(targets) > 0).tolist()
            numbers = [own if counts else None for own, counts in zip(loss.tolist(), counted, strict=True)]
            outcomes = answer.outcomes(output, torch.from_numpy(targets))
            length = int(examples.lengths[part].sum())
            rows += self._rows(examples.where(part[0]), value + 1, inputs, length, outcomes, numbers)
        return MeasuredRows(rows, terms.sums)

    def _rows(
        self, where: str, example: int, inputs: Sequence[Any], length: int, outcomes: Sequence[TargetOutcome],
        losses: Sequence[float | None],
    ) -> Iterator[OutcomeRow]:  # fmt: skip
        """Yield the rows of a value."""
        if not self._codec.answer.per_position:
            fields = self._codec.fields.values()
            text = shortened(" | ".join(field.summary(input) for field, input in zip(fields, inputs, strict=True)))
            yield OutcomeRow(where, example, None, None, text, length, outcomes[0], losses[0])
            return
        tokens = self._codec.tokens(inputs)
        continues = self._codec.continued is not None
        for place, (token, outcome, loss) in enumerate(zip(tokens, outcomes, losses, strict=True)):
            if continues:
                before = " ".join(tokens[max(place - BEFORE, 0) : place])
                text, known = ("… " if place > BEFORE else "") + before, outcome._replace(target=token)
                yield OutcomeRow(where, example, place + 1, None, shortened(text), place, known, loss)
            else:
                text = shortened(" ".join(tokens[max(place - AROUND, 0) : place + AROUND + 1]))
                yield OutcomeRow(where, example, place + 1, token, text, len(tokens), outcome, loss)

"""Laws of answers: properties on which training, evaluation and prediction rely, for any outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from json import loads
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.answer import MAX_ALTERNATIVES, InputContext, LossAndSums, TaskAnswer
from regard.core.task import MetricSums
from regard.core.tensors import added_sums
from regard.errors import ConfigError
from regard.testing.codec_case import CodecCase, equal_values
from regard.testing.draw import Draw
from regard.testing.drawn_settings import drawn_values
from regard.testing.law import Law, law, run_laws, same

ANSWER_LAWS: list[Law] = []
SETTINGS = 6  # random settings per trial
UPDATES, RATE = 300, 0.2  # updates and rate of Adam, to memorize outputs
CONTEXT = InputContext((("a", 0.5), ("b", 0.5)), truncated=True, tokens=("a",))


@dataclass
class AnswerCase(CodecCase):
    """An answer with training rows; a row has several outputs if the answer is per position.

    Attributes:
        make: returns the answer before learning.
        rows: inputs of its ``value``; at least five, with different values.
        config: config of the run, if ``learn`` and ``open`` read it.
        folder: temporary folder, removed with the case.
        stated: returns the value in a prediction, in the form of ``value``; it may be that of the last positions only.
        context: the facts about the input of each prediction.
        tolerance: the difference of a memorized target.
    """

    stated: Callable[[Any], Any] = lambda output: output
    context: InputContext = CONTEXT
    tolerance: float = 1e-3

    @cached_property
    def answer(self) -> TaskAnswer:
        answer: TaskAnswer = self.make()
        return answer.learn(self.run, self.values, self.locations, lambda message: None, where="rows")

    @cached_property
    def targets(self) -> npt.NDArray[Any]:
        return self.answer.targets(self.values, self.locations)

    @property
    def width(self) -> int:
        """Number of outputs."""
        (size,) = self.answer.sizes.values()
        return size

    @cached_property
    def counts(self) -> list[int]:
        """Number of targets of each row."""
        return [len(self.answer.targets([value], ["row"])) for value in self.values]

    def index(self, rows: Sequence[int]) -> Tensor:
        """Return the numbers of the targets of these rows."""
        numbers = torch.arange(sum(self.counts)).split(self.counts)
        return torch.cat([numbers[row] for row in rows])

    def outputs(self, draw: Draw) -> Tensor:
        """Return random outputs (targets, outputs) of a network."""
        return draw.tensor(sum(self.counts), self.width, scale=2.0)

    def by_row(self, outputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs of each row."""
        return outputs.split(self.counts)

    def loss(self, outputs: Tensor, rows: Sequence[int], *, smoothing: float = 0.0, evaluating: bool) -> LossAndSums:
        """Compute the losses of these rows; ``outputs`` has those of all rows."""
        index = self.index(rows)
        unit = torch.full((len(index),), self.answer.unit, dtype=torch.float64)
        targets = torch.from_numpy(self.targets)[index]
        return self.answer.loss(outputs[index], targets, unit, smoothing=smoothing, evaluating=evaluating)

    def sums(self, outputs: Tensor, rows: Sequence[int]) -> MetricSums:
        """Return all sums of an evaluation over these rows."""
        index = self.index(rows)
        targets, sums = torch.from_numpy(self.targets)[index], self.loss(outputs, rows, evaluating=True).sums
        baseline = self.answer.baseline_targets([self.values[row] for row in rows])
        if baseline is not None:
            sums = {**sums, **self.answer.compare(outputs[index], targets, torch.from_numpy(baseline))}
        if not self.answer.per_position:
            return {**sums, **self.answer.measure(outputs[index], targets)}
        own = [self.index([row]) for row in rows]
        measured = [self.answer.measure(outputs[index], torch.from_numpy(self.targets)[index]) for index in own]
        return {**sums, **_total(measured)}

    def predict(self, outputs: Tensor, settings: Any, answer: TaskAnswer | None = None) -> Any:
        """Return the prediction for the outputs (targets, outputs) of a row, by ``answer`` if given."""
        answer = answer or self.answer
        return answer.predict(outputs if answer.per_position else outputs[0], settings, self.context)


def check_answer(
    make: Callable[[], TaskAnswer],
    rows: Sequence[Any],
    *,
    stated: Callable[[Any], Any],
    config: Any = None,
    trials: int = 3,
    seed: int = 0,
) -> list[str]:
    """Check every law of an answer.

    Args:
        make: returns the answer before learning.
        rows: inputs of its ``value``; at least five, with different values.
        stated: returns the value in a prediction, in the form of ``value``.
        config: config of the run, as far as ``learn`` and ``open`` read it.
        trials: number of trials of each law.
        seed: seed of the first trial.

    Returns:
        The names of the laws.

    Raises:
        AssertionError: a law is violated; the message names the first one.
    """
    case = AnswerCase(make, rows, config, stated=stated)
    return run_laws(ANSWER_LAWS, case, trials=trials, seed=seed)


@law(ANSWER_LAWS)
def opened_is_as_learned(case: AnswerCase, draw: Draw) -> None:
    """An answer opened from saved files has the same sizes, targets and predictions."""
    learned, opened = case.answer, case.make().open(case.run)
    for name in ("sizes", "unit", "output_scale", "class_names", "baseline"):
        assert getattr(opened, name) == getattr(learned, name), f"{name} of an opened answer differs"
    assert equal_values(opened.targets(case.values, case.locations), case.targets), "targets of an opened answer differ"
    assert equal_values(opened.row_weights(case.targets), learned.row_weights(case.targets)), "row weights differ"
    settings = learned.settings()
    for outputs in case.by_row(case.outputs(draw)):
        predictions = [case.predict(outputs, settings, answer) for answer in (learned, opened)]
        assert predictions[0] == predictions[1], "an opened answer has other predictions"


@law(ANSWER_LAWS)
def targets_do_not_depend_on_neighbors(case: AnswerCase, draw: Draw) -> None:
    """A value has the same target and weight alone as among others."""
    weights = case.answer.row_weights(case.targets)
    assert weights.shape == (len(case.targets),), "the number of weights differs from that of targets"
    for number in draw.source.sample(range(len(case.rows)), len(case.rows)):
        alone = case.answer.targets([case.values[number]], [case.locations[number]])
        index = case.index([number]).numpy()
        assert equal_values(alone, case.targets[index]), "the targets of a value depend on the others"
        own = case.answer.row_weights(alone)
        assert equal_values(own, weights[index]), "the weight of a target depends on the other rows"


@law(ANSWER_LAWS)
def losses_add_over_rows(case: AnswerCase, draw: Draw) -> None:
    """A row has the same loss alone as among others, and sums over all rows are the sums over parts of them."""
    outputs, smoothing, rows = case.outputs(draw), draw.source.random() / 2, range(len(case.rows))
    for evaluating in (False, True):
        whole = case.loss(outputs, rows, smoothing=smoothing, evaluating=evaluating)
        parts = [case.loss(outputs, [row], smoothing=smoothing, evaluating=evaluating) for row in rows]
        same(torch.cat([part.loss for part in parts]), whole.loss, "the losses of single rows", tolerance=1e-8)
        _same_sums(_total([part.sums for part in parts]), whole.sums)
    middle = draw.integer(1, len(case.rows) - 1)
    halves = [case.sums(outputs, part) for part in (rows[:middle], rows[middle:])]
    _same_sums(_total(halves), case.sums(outputs, rows))


def _same_sums(actual: MetricSums, expected: MetricSums) -> None:
    assert actual.keys() == expected.keys(), "the sums of parts have other names"
    for name, value in expected.items():
        assert not value.requires_grad, f"the sum {name!r} carries a gradient"
        same(actual[name], value, f"the sum {name!r} over parts", tolerance=1e-6)


def _total(parts: Sequence[MetricSums]) -> MetricSums:
    total: MetricSums = {}
    for part in parts:
        total = added_sums(total, part)
    return total


@law(ANSWER_LAWS)
def metrics_are_ratios_of_sums(case: AnswerCase, draw: Draw) -> None:
    """All declared metrics and the loss follow from the sums of an evaluation, and from all of them doubled."""
    sums = case.sums(case.outputs(draw), range(len(case.rows)))
    assert case.answer.marker in sums, f"the sum {case.answer.marker!r} is missing"
    metrics, declared = case.answer.compute_metrics(sums), case.answer.metrics
    names = {name for name, one in declared.items() if not one.by_predictor or name in case.answer.measured}
    assert metrics.keys() >= {"loss", *names}, f"{names - set(metrics)} of the metrics are missing"
    doubled = case.answer.compute_metrics(_total([sums, sums]))
    for name, value in metrics.items():
        if name not in declared or declared[name].ratio:
            assert abs(doubled[name] - value) <= 1e-9 * max(1.0, abs(value)), f"{name!r} is not a ratio of sums"


@law(ANSWER_LAWS)
def predictions_depend_on_the_row_and_the_settings(case: AnswerCase, draw: Draw) -> None:
    """A prediction under random settings does not depend on earlier predictions."""
    outputs = case.by_row(case.outputs(draw))
    calls = [(row, _accepted(case, draw)) for row in range(len(outputs)) for _ in range(SETTINGS)]
    first = [case.predict(outputs[row], settings) for row, settings in calls]
    for number in draw.source.sample(range(len(calls)), len(calls)):
        row, settings = calls[number]
        again = case.predict(outputs[row].clone(), settings)
        assert again == first[number], f"a prediction depends on earlier ones: {settings}"


def _accepted(case: AnswerCase, draw: Draw) -> Any:
    """Return random settings that this answer does not reject, such as a horizon that it was trained for."""
    outputs = case.by_row(torch.zeros(sum(case.counts), case.width, dtype=torch.float64))[0]
    for _ in range(100):
        settings = case.answer.settings(**drawn_values(case.answer.settings, draw.source))
        try:
            case.predict(outputs, settings)
        except ConfigError:
            continue
        return settings
    return case.answer.settings()


@law(ANSWER_LAWS)
def a_prediction_is_one_line(case: AnswerCase, draw: Draw) -> None:
    """Under random settings, the plain and the JSON form are one line, and the latter is an object."""
    for outputs in case.by_row(case.outputs(draw)):
        prediction = case.predict(outputs, _accepted(case, draw))
        lines = [case.answer.write(prediction, json=as_json) for as_json in (False, True)]
        for line in lines:
            assert not {"\n", "\r"} & set(line), f"a prediction has several lines: {line!r}"
        assert _is_object(lines[1]), f"a prediction is not a JSON object: {lines[1]}"


def _is_object(line: str) -> bool:
    try:
        return isinstance(loads(line), dict)
    except ValueError:
        return False


@law(ANSWER_LAWS)
def alternatives_are_ranked(case: AnswerCase, draw: Draw) -> None:
    """Alternatives are distinct labels, sorted by probability; all labels, or the first ones."""
    for outputs in case.outputs(draw):
        alternatives = case.answer.alternatives(outputs)
        names = [alternative.label for alternative in alternatives]
        known = case.answer.class_names
        assert len({*names}) == len(names) and {*names} <= {*known}, "the alternatives are not the labels"
        assert len(names) >= min(len(known), MAX_ALTERNATIVES), "the alternatives lack labels"
        scores = [alternative.log_probability for alternative in alternatives]
        assert scores == sorted(scores, reverse=True), "the most likely alternative is not the first"
        assert all(score <= 0 for score in scores), "an alternative has a probability above 1"


@law(ANSWER_LAWS)
def memorized_outputs_predict_their_targets(case: AnswerCase, draw: Draw) -> None:
    """Outputs that minimize the loss of a batch predict the values of its rows."""
    outputs = case.outputs(draw).requires_grad_()
    optimizer, rows = torch.optim.Adam([outputs], lr=RATE), range(len(case.rows))
    weights = torch.from_numpy(np.asarray(case.answer.row_weights(case.targets)))
    for _ in range(UPDATES):
        optimizer.zero_grad()
        (case.loss(outputs, rows, evaluating=False).loss * weights).sum().backward()
        optimizer.step()
    for row, value in enumerate(case.values):
        index = case.index([row])
        prediction = case.predict(outputs.detach()[index], case.answer.settings())
        stated = case.answer.targets([case.stated(prediction)], ["prediction"])
        expected = case.targets[index.numpy()][-len(stated) :]
        assert np.allclose(stated, expected, atol=case.tolerance), f"{prediction} is predicted for {value}"


@law(ANSWER_LAWS)
def outcomes_have_the_prediction(case: AnswerCase, draw: Draw) -> None:
    """Each target has one outcome, whose prediction is the most probable label and no less probable than the target."""
    outputs, targets = case.outputs(draw), torch.from_numpy(np.asarray(case.targets))
    for row in range(len(case.rows)):
        index = case.index([row])
        outcomes = case.answer.outcomes(outputs[index], targets[index])
        assert len(outcomes) == len(index), "the number of outcomes differs from that of targets"
        for outcome, values in zip(outcomes, outputs[index], strict=True):
            best = case.answer.alternatives(values)[:1]
            if best and case.answer.kind != "labels":
                assert outcome.prediction == best[0].label, "the prediction of an outcome is not the most likely label"
            if outcome.probability is not None:
                p = outcome.target_probability or 0.0
                assert 0 <= p <= outcome.probability + 1e-9 <= 1 + 1e-8, "a target is more probable than the prediction"

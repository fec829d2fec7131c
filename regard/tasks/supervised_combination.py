"""The choice of the weights of network and baseline on the validation data, after the network was trained alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.core.answer import TaskAnswer
from regard.core.baseline import baseline_outputs
from regard.core.combination import OutputWeights, save_weights
from regard.core.task import Combined, Data, RunFiles
from regard.tasks.supervised_baseline import measured_values
from regard.tasks.supervised_examples import SupervisedExamples
from regard.tasks.supervised_predictor import SupervisedPredictor

MAX_OUTPUTS = 16_000_000  # of the validation values that choose the weights
NETWORK, BASELINE, BOTH = "network", "baseline", "both"
Floats = npt.NDArray[np.float64]


class _Choice(NamedTuple):
    """An alternative with its best weights."""

    weights: OutputWeights
    losses: Floats  # of each validation value


def combine(run: RunFiles, predictor: SupervisedPredictor, data: Data) -> Combined:
    """Choose the weights on validation examples, save them, and return the validation figures of the combination.

    The loss is minimal over both weights, over that of the network, and over that of the baseline. The simplest of the
    three whose loss is at most one standard error above the lowest is chosen: the baseline, then the network, then both
    (the one-standard-error rule of Breiman et al. 1984).

    Args:
        run: the files of the run.
        predictor: the trained network with its codecs, which have a wide part.
        data: the data of the run; its validation part is ``SupervisedExamples``.
    """
    codec, examples = predictor.codec, cast("SupervisedExamples", data.valid)
    assert codec.wide is not None
    (outputs,) = codec.answer.sizes.values()
    parts = [np.arange(start, end) for start, end in zip(examples.starts, examples.starts[1:], strict=False)]
    parts = _sampled([part for part in parts if len(part)], examples, MAX_OUTPUTS // outputs)
    sizes = [len(examples.target_places(part)) for part in parts]
    network = torch.cat(predictor.value_outputs(examples, parts))
    wide = torch.from_numpy(baseline_outputs(codec.wide, examples.value_columns([part[0] for part in parts])))
    losses = _losses(codec.answer, examples, parts, sizes)
    choices = {
        BASELINE: _best(lambda free: losses(free[0] * wide), lambda free: OutputWeights(0.0, free[0]), [1.0]),
        NETWORK: _best(lambda free: losses(free[0] * network), lambda free: OutputWeights(free[0], 0.0), [1.0]),
        BOTH: _best(
            lambda free: losses(free[0] * network + free[1] * wide), lambda free: OutputWeights(*free), [0.5, 0.5]
        ),
    }
    chosen = _simplest(choices)
    weights = choices[chosen].weights
    means = {name: float(choice.losses.mean()) for name, choice in choices.items()}
    save_weights(run, weights, means)
    together = weights.network * network + weights.wide * wide
    names = list(codec.answer.measured)
    sums = measured_values(codec.answer, examples, parts, together.split(sizes), names).sums
    figures, codecs = codec.answer.compute_metrics(sums), codec._replace(weights=weights)
    examples.combine(codecs)
    return Combined(weights.network, weights.wide, chosen, figures, data._replace(codecs=codecs))


def _sampled(parts: list[Any], examples: Any, limit: int) -> list[Any]:
    """Return values in equal distances, with at most about ``limit`` targets."""
    targets = sum(len(examples.target_places(part)) for part in parts)
    return parts[:: max(-(-targets // limit), 1)]


def _losses(answer: TaskAnswer, examples: Any, parts: list[Any], sizes: list[int]) -> Callable[[Tensor], Floats]:
    """Return the function from outputs (targets, outputs) to the loss of each value, scaled to the mean of a target."""
    indices = np.concatenate([examples.target_places(part) for part in parts])
    targets = torch.from_numpy(np.asarray(examples.targets[indices]))
    factors = np.asarray(answer.row_weights(np.asarray(examples.targets[indices])), np.float64)
    unit = torch.full((len(targets),), answer.unit, dtype=torch.float64)
    scale = len(parts) / max(int(np.count_nonzero(factors)), 1)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])

    def losses(outputs: Tensor) -> Floats:
        loss = answer.loss(outputs, targets, unit, smoothing=0.0, evaluating=False).loss.double().numpy() * factors
        return np.asarray(np.add.reduceat(loss, starts) * scale, np.float64)

    return losses


def _best(losses: Callable[[Any], Floats], weights: Callable[[Any], OutputWeights], start: list[float]) -> _Choice:
    from scipy.optimize import minimize

    result = minimize(
        lambda free: float(losses(free).mean()), start, method="Nelder-Mead", bounds=[(0.0, 100.0)] * len(start),
        options={"xatol": 1e-3, "fatol": 1e-6, "maxiter": 200},
    )  # fmt: skip
    free = [float(value) for value in result.x]
    return _Choice(weights(free), losses(free))


def _simplest(choices: dict[str, _Choice]) -> str:
    """Return the first name whose mean loss is at most one standard error of the difference above the lowest."""
    best = min(choices.values(), key=lambda choice: float(np.nan_to_num(choice.losses.mean(), nan=np.inf)))
    for name, choice in choices.items():
        difference = choice.losses - best.losses
        error = difference.std(ddof=1) / len(difference) ** 0.5 if len(difference) > 1 else np.inf
        if difference.mean() <= error:
            return name
    raise AssertionError("the best is no worse than itself")

"""The baseline of a run: fitted before the network, and compared with it on the same examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.core.baseline import BaselineSummary
from regard.core.predictor import Predictor
from regard.core.task import Data, Examples, Indices, MetricSums, ProgressCallback, TaskBaseline
from regard.core.tensors import added_sums
from regard.errors import ConfigError, DataError
from regard.runs.run_folder import RunFolder
from regard.training.shards import Shards, Workers
from regard.training.validation import shard_sums

GROUPS = 16  # of examples, for standard errors
GroupSums = Sequence[MetricSums]


class BaselineComparison(NamedTuple):
    """Figures of a baseline, and how far those of the network are above them, with standard errors.

    ``differences``: by metric, (network − baseline, standard error). The standard error is that of a delete-one-group
    jackknife over ``GROUPS`` groups of examples (Efron and Stein 1981); NaN if there are fewer than two groups.
    """

    description: str
    figures: dict[str, float]
    differences: dict[str, tuple[float, float]]


def fit_baseline(run: RunFolder, data: Data, log: Callable[[str], None]) -> None:
    """Fit the baseline of the task, save it, and report its figures on the validation data."""
    began, task = time.perf_counter(), run.task
    baseline = task.fit_baseline(run, data)
    if baseline is None:
        return
    figures, by = {}, run.config.train.best_by
    names = [name for name, metric in task.metrics.items() if not metric.slow or name == by]
    if data.valid is not None and len(data.valid):
        try:
            groups = baseline_groups(baseline, data.valid, names)
        except (ConfigError, DataError):  # a metric is undefined for this data, or needs a library
            groups = baseline_groups(baseline, data.valid, ())
        figures = task.compute_metrics(added(groups))
    baseline.save(run, figures)
    summary = BaselineSummary(baseline.description, figures).describe(task.metrics)
    log(f"baseline: {summary} ({time.perf_counter() - began:.1f} s)")


def network_groups(
    model: nn.Module, predictor: Predictor[Any], examples: Examples, names: Sequence[str], device: torch.device,
    done: ProgressCallback | None = None,
) -> list[MetricSums]:  # fmt: skip
    """Return the sums of the objective and of the predictor's metrics ``names`` by group of examples."""
    strategy = Shards(GROUPS, Workers(1, torch.get_num_threads()), device)
    with torch.no_grad():
        sums = shard_sums(model, examples, strategy, done=done) or {}
    if names:
        for group, index in group_indices(examples).items():
            sums[group] = sums[group] | predictor.measure(examples, index, names)
    return [sums[group] for group in sorted(sums)]


def baseline_groups(baseline: TaskBaseline, examples: Examples, names: Sequence[str]) -> list[MetricSums]:
    """Return the sums of a baseline by group of examples."""
    indices = group_indices(examples)
    return [baseline.sums(examples, indices[group], names) for group in sorted(indices)]


def group_indices(examples: Examples) -> dict[int, Indices]:
    """Return the examples of each group, which are those of a shard of ``network_groups``."""
    indices: dict[int, list[Indices]] = {}
    for batch in examples.batches(None):
        for group, share in enumerate(batch.shards(GROUPS)):
            indices.setdefault(group, []).append(share.index)
    return {group: np.concatenate(parts) for group, parts in indices.items()}


def compare(
    compute_metrics: Callable[[MetricSums], dict[str, float]], description: str, network: GroupSums, baseline: GroupSums
) -> BaselineComparison:
    """Compare the metrics of a network and a baseline from their sums by group.

    The baseline counts a value of several examples at the first of them: it has no sums of a group with further ones
    only. Such a group is counted with the first group that has sums.
    """
    network, baseline = _joined(network, baseline)
    own, other = compute_metrics(added(network)), compute_metrics(added(baseline))
    left_out = [
        (compute_metrics(_without(network, group)), compute_metrics(_without(baseline, group)))
        for group in range(len(network) if len(network) > 1 else 0)
    ]
    differences = {
        name: (own[name] - other[name], jackknife([_difference(name, *pair) for pair in left_out]))
        for name in own
        if name in other
    }
    return BaselineComparison(description, other, differences)


def _difference(name: str, network: Mapping[str, float], baseline: Mapping[str, float]) -> float:
    """Return the difference of a metric; NaN if it is not defined without a group of examples."""
    return network[name] - baseline[name] if name in network and name in baseline else float("nan")


def _joined(network: GroupSums, baseline: GroupSums) -> tuple[list[MetricSums], list[MetricSums]]:
    """Return the groups with sums of the baseline; the network's sums of the others are added to the first."""
    own = [sums for sums, other in zip(network, baseline, strict=True) if other]
    rest = [sums for sums, other in zip(network, baseline, strict=True) if not other]
    return [added([own[0], *rest]), *own[1:]], [sums for sums in baseline if sums]


def jackknife(values: Sequence[float]) -> float:
    """Return the standard error from the values without each group; NaN for fewer than two groups."""
    if len(values) < 2:
        return float("nan")
    deviations = np.asarray(values) - np.mean(values)
    return float(np.sqrt((len(values) - 1) / len(values) * (deviations**2).sum()))


def added(groups: GroupSums) -> MetricSums:
    """Return the sums over all groups."""
    return reduce(added_sums, groups, {})


def _without(groups: GroupSums, left_out: int) -> MetricSums:
    return added([sums for number, sums in enumerate(groups) if number != left_out])

"""The baseline of a run: fitted before the network, and compared with it on the same examples."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from regard.core.baseline import FOLDER, save_figures
from regard.core.task import (
    Carry,
    Data,
    ExampleIndices,
    Examples,
    LossTerms,
    MetricSums,
    Predictor,
    ProgressCallback,
    TaskBaseline,
)
from regard.core.tensors import added_sums, to_device
from regard.core.wording import figure_text
from regard.runs.run_folder import RunFolder
from regard.training.carry import continued, detach_carry

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
    began = time.perf_counter()
    baseline = run.task.fit_baseline(run, data)
    if baseline is None:
        return
    figures = {}
    if data.valid is not None and len(data.valid):
        figures = run.task.compute_metrics(added(baseline_groups(baseline, data.valid, list(run.task.metrics))))
    save_figures(run.path / FOLDER, figures)
    shown = [f"{name} {figure_text(figures[name])}" for name in _shown(run.task.metrics, figures)]
    figures_text = f": {', '.join(shown)} on the validation data" if shown else ""
    log(f"baseline: {baseline.description}{figures_text} ({time.perf_counter() - began:.1f} s)")


def _shown(metrics: Mapping[str, Any], figures: Mapping[str, float]) -> list[str]:
    """Return the loss and the first metric of the task that is present."""
    return [name for name in ("loss", *[name for name in metrics if name in figures][:1]) if name in figures]


def example_groups(examples: Examples) -> Iterator[tuple[int, ExampleIndices]]:
    """Yield every example once, with the number of its group: whole batches if there are many, else parts of each.

    A group has the same rows of each batch, as far as possible: state can then be carried from batch to batch.
    """
    batches = examples.batches(None)
    for number, batch in enumerate(batches):
        if len(batches) >= 4 * GROUPS:
            yield number % GROUPS, batch
        else:
            yield from enumerate(batch.shards(GROUPS))


@torch.no_grad()
def network_groups(
    model: nn.Module,
    predictor: Predictor | None,
    examples: Examples,
    names: Sequence[str],
    device: torch.device,
    done: ProgressCallback | None = None,
) -> list[MetricSums]:
    """Return the sums of the objective and of the predictor's metrics ``names`` by group of examples."""
    sums: dict[int, MetricSums] = {}
    indices: dict[int, list[Any]] = {}
    carried: dict[int, Carry] = {}
    whole = len(examples.batches(None)) >= 4 * GROUPS
    for group, share in example_groups(examples):
        part = to_device(examples.collate(share), device)
        rows, lane = len(part.index), 0 if whole else group
        terms: LossTerms = model(part, continued(carried.get(lane, ()), rows))
        sums[group] = added_sums(sums.get(group, {}), terms.sums)
        carried[lane] = detach_carry(terms.carry, rows)
        indices.setdefault(group, []).append(share.index)
        if done is not None:
            done(len(share.index))
    if predictor is not None and names:
        for group, parts in indices.items():
            sums[group] = sums[group] | predictor.measure(examples, np.concatenate(parts), names)
    return [sums[group] for group in sorted(sums)]


def baseline_groups(baseline: TaskBaseline, examples: Examples, names: Sequence[str]) -> list[MetricSums]:
    """Return the sums of a baseline by group of examples."""
    indices: dict[int, list[Any]] = {}
    for group, share in example_groups(examples):
        indices.setdefault(group, []).append(share.index)
    return [baseline.sums(examples, np.concatenate(indices[group]), names) for group in sorted(indices)]


def compare(
    compute_metrics: Callable[[MetricSums], dict[str, float]], description: str, network: GroupSums, baseline: GroupSums
) -> BaselineComparison:
    """Compare the metrics of a network and a baseline from their sums by group."""
    own, other = compute_metrics(added(network)), compute_metrics(added(baseline))
    left_out = [
        (compute_metrics(_without(network, group)), compute_metrics(_without(baseline, group)))
        for group in range(len(network) if len(network) > 1 else 0)
    ]
    differences = {
        name: (own[name] - other[name], _jackknife([first[name] - second[name] for first, second in left_out]))
        for name in own
        if name in other
    }
    return BaselineComparison(description, other, differences)


def _jackknife(values: Sequence[float]) -> float:
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

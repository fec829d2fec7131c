"""The end of a training: the network compared with its baseline on the validation data, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import nn

from regard.core.task import Data
from regard.errors import ConfigError, DataError, ModelError
from regard.runs.network_comparison import ComparedMetric, write_comparison
from regard.runs.run_folder import CheckpointChoice, RunFolder
from regard.training.baseline import added, baseline_groups, compare, network_groups
from regard.training.strategy import Trainable


def trained_network(run: RunFolder, data: Data, device: torch.device) -> tuple[CheckpointChoice, nn.Module]:
    """Return the default checkpoint of the network of a run, and a network with its weights, in evaluation mode."""
    chosen, net = run.network_path(), run.task.build(run.config, data.spec)
    net.load_state_dict(run.weights(chosen.name).groups["model"], strict=False)
    return chosen, net.to(device).eval()


def compare_with_baseline(run: RunFolder, data: Data, device: torch.device, interrupted: Callable[[], bool]) -> None:
    """Compare the default checkpoint with the baseline, and save the comparison in the run.

    Nothing is saved without validation data or a baseline, and if interrupted. Metrics of decoded outputs are left out,
    except ``train.best_by``, because decoding is slow.
    """
    task, config = run.task, run.config
    if data.valid is None or not len(data.valid):
        return
    baseline = task.open_baseline(run, data.codecs)
    if baseline is None:
        return
    names = [name for name, metric in task.metrics.items() if metric.by_predictor and name == config.train.best_by]
    chosen, net = trained_network(run, data, device)

    def poll(count: int) -> None:
        if interrupted():
            raise KeyboardInterrupt

    model = Trainable(net, task.objective(config))
    try:
        other = baseline_groups(baseline, data.valid, names)
        if not any(other):
            return
        own = network_groups(model, task.predictor(net, data.codecs, config), data.valid, names, device, poll)
        comparison = compare(task.compute_metrics, baseline.description, own, other)
        network = task.compute_metrics(added(own))
    except (ConfigError, DataError, ModelError):  # a metric is undefined for this data, or the network diverged
        return
    except KeyboardInterrupt:
        if not interrupted():
            raise
        return
    metrics = {
        name: ComparedMetric(
            network=network[name], baseline=comparison.figures[name], difference=difference,
            error=error if math.isfinite(error) else None,
        )
        for name, (difference, error) in comparison.differences.items()
        if all(map(math.isfinite, (network[name], comparison.figures[name], difference)))
    }  # fmt: skip
    if metrics:
        write_comparison(run.path, str(chosen), metrics)

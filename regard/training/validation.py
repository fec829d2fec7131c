"""Validation: the loss over held-out examples, metrics of decoded output, and which checkpoint is the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from regard.core import atomic_files
from regard.core.reference_mode import reference_mode
from regard.core.task import Carry, Examples, LossTerms, MetricSums, Task
from regard.core.tensors import added_sums
from regard.runs.config import RunConfig
from regard.training.carry import continued, handed_on
from regard.training.optim import Optimizer
from regard.training.progress import Validation
from regard.training.shards import TreeSum, to_device
from regard.training.strategy import Strategy
from regard.training.updater import batch_memory

__all__ = ["Validator"]


class Validator:
    """Measures a model in training on held-out examples. ``interrupted`` is asked before each batch, by every rank.

    ``model`` is what the strategy's ``wrap`` gave of ``net``.
    """

    def __init__(
        self,
        task: Task,
        config: RunConfig,
        model: nn.Module,
        net: nn.Module,
        examples: Examples,
        codecs: Any,
        strategy: Strategy,
        interrupted: Callable[[], bool],
    ) -> None:
        self.task, self.config, self.model, self.net, self.strategy = task, config, model, net, strategy
        self.examples, self.codecs, self.interrupted = examples, codecs, interrupted

    @torch.no_grad()
    def measure(self, optimizer: Optimizer, *, decode: bool) -> Validation | None:
        """Loss and, with ``decode``, the metric that decides; None when interrupted, as if it had not begun."""
        self.model.eval()
        plain = reference_mode(self.config.train.engine == "reference")
        with plain, optimizer.averaged(), batch_memory("validating", self.config):
            sums = self.sums()
            if sums is None:
                return None
            figures = self.task.compute_metrics(sums)
            metrics = self.decoded() if decode and self.config.train.best_by not in figures else {}
        return None if metrics is None else Validation(figures.pop("loss"), figures | metrics)

    def sums(self) -> MetricSums | None:
        """The objective's sums over all held-out examples, on any rank; None when interrupted.

        Added as an update is: a shard's batches in order, each going on with what the one before carried, and the
        shards as a tree. So they do not depend on the number of ranks either.
        """
        totals: dict[int, MetricSums] = {}
        carried: dict[int, Carry] = {}
        for batch in self.examples.batches(None):
            if self.interrupted():
                return None
            atomic_files.fault_point("validation")
            for shard, examples in self.strategy.deal(batch):
                part = to_device(self.examples.collate(examples), self.strategy.device)
                rows = len(part.index)
                terms: LossTerms = self.model(part, continued(carried.get(shard, ()), rows))
                totals[shard] = added_sums(totals.get(shard, {}), terms.sums)
                carried[shard] = handed_on(terms.carry, rows)
        whole = TreeSum[MetricSums](added_sums)
        for shard in sorted(totals):
            whole.add(totals[shard])
        return self.strategy.add(whole.value() if totals else {})

    def decoded(self) -> dict[str, float] | None:
        """The metric that ``train.best_by`` names, of decoded outputs; None when interrupted."""
        by: Sequence[str] = [self.config.train.best_by]
        predictor = self.task.predictor(self.net, self.codecs, self.config)
        return self.task.decode(predictor, self.config, by, self.interrupted)

    def better(self, value: float, best: float | None) -> bool:
        """Whether a checkpoint of this value would be the best; one that is not finite never is."""
        by = self.config.train.best_by
        if best is None or not math.isfinite(value):
            return math.isfinite(value)
        lower = by == "loss" or self.task.metrics[by].lower_is_better
        return value < best if lower else value > best

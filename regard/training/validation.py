"""Validation: the loss over held-out examples, metrics of decoded output, and which checkpoint is the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from regard.core import atomic_files
from regard.core.reference_mode import reference_mode
from regard.core.task import Examples, MetricSums, Task
from regard.core.tensors import added_sums
from regard.runs.config import RunConfig
from regard.training.optim import Optimizer
from regard.training.progress import Validation
from regard.training.shards import Trainable, to_device
from regard.training.updater import batch_memory

__all__ = ["Validator"]


class Validator:
    """Measures a model in training on held-out examples. ``interrupted`` is asked before each batch."""

    def __init__(
        self,
        task: Task,
        config: RunConfig,
        model: Trainable,
        examples: Examples,
        codecs: Any,
        interrupted: Callable[[], bool],
    ) -> None:
        self.task, self.config, self.model = task, config, model
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
        """The objective's sums over all held-out examples; None when interrupted."""
        device = next(self.model.net.parameters()).device
        total: MetricSums = {}
        for batch in self.examples.batches(None):
            if self.interrupted():
                return None
            atomic_files.fault_point("validation")
            total = added_sums(total, self.model(to_device(self.examples.collate(batch), device)).sums)
        return total

    def decoded(self) -> dict[str, float] | None:
        """The metric that ``train.best_by`` names, of decoded outputs; None when interrupted."""
        by: Sequence[str] = [self.config.train.best_by]
        predictor = self.task.predictor(self.model.net, self.codecs, self.config)
        return self.task.decode(predictor, self.config, by, self.interrupted)

    def better(self, value: float, best: float | None) -> bool:
        """Whether a checkpoint of this value would be the best; one that is not finite never is."""
        by = self.config.train.best_by
        if best is None or not math.isfinite(value):
            return math.isfinite(value)
        lower = by == "loss" or self.task.metrics[by].lower_is_better
        return value < best if lower else value > best

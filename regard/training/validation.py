"""Validation: the loss over held-out examples, metrics of decoded output, and the choice of the best checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.core import atomic_files
from regard.core.predictor import Predictor
from regard.core.reference_mode import reference_mode
from regard.core.task import (
    Carry,
    ExampleIndices,
    Examples,
    LossTerms,
    MetricSums,
    ProgressCallback,
    Task,
    not_interrupted,
)
from regard.core.tensors import added_sums, to_device
from regard.errors import ModelError
from regard.runs.run_config import RunConfig
from regard.training.carry import continued, detach_carry
from regard.training.optim import Optimizer
from regard.training.progress import Validation
from regard.training.shards import TreeSum
from regard.training.strategy import Strategy, on_any_rank
from regard.training.updater import batch_memory

TOGETHER = 512  # examples decoded per call: search refills its batch from them


class Validator:
    """Validation of a model in training on held-out examples. All ranks check ``interrupted`` before each batch.

    ``model`` is the module that the strategy's ``wrap`` returned for ``net``.
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
        """Return the loss and, with ``decode``, the metric of ``train.best_by``; None if interrupted."""
        self.model.eval()
        plain = reference_mode(self.config.train.engine == "reference")
        with plain, optimizer.averaged(), batch_memory("validating", self.config):
            sums = self.sums()
            if sums is None:
                return None
            more = self.decoded(sums) if decode else {}
        return None if more is None else _validation(self.task.compute_metrics(sums) | more)

    def sums(self) -> MetricSums | None:
        """Return the objective's sums over all held-out examples, on any rank; None if interrupted."""
        return objective_sums(self.model, self.examples, self.strategy, self.interrupted)

    def decoded(self, sums: MetricSums) -> dict[str, float] | None:
        """Return the metric of ``train.best_by`` if the predictor computes it; None if interrupted."""
        by = self.config.train.best_by
        if by == "loss" or not self.task.metrics[by].by_predictor:
            return {}
        try:
            with self.strategy.gathered(self.model):
                predictor = self.task.predictor(self.net, self.codecs, self.config)
                more = predictor_sums(predictor, self.examples, [by], self.strategy, self.interrupted)
        except ModelError:  # NaN outputs: never the best; training handles divergence
            return {by: math.nan}
        return None if more is None else self.task.compute_metrics(sums | more)

    def better(self, value: float, best: float | None) -> bool:
        """Return whether a checkpoint with this value would be the best; a value that is not finite never is."""
        by = self.config.train.best_by
        if best is None or not math.isfinite(value):
            return math.isfinite(value)
        lower = by == "loss" or self.task.metrics[by].lower_is_better
        return value < best if lower else value > best


def _validation(figures: dict[str, float]) -> Validation:
    return Validation(figures.pop("loss"), figures)


def objective_sums(
    model: nn.Module,
    examples: Examples,
    strategy: Strategy,
    interrupted: Callable[[], bool] = lambda: False,
    done: ProgressCallback | None = None,
) -> MetricSums | None:
    """Return the objective's sums over all examples, on any rank; None if interrupted.

    The shards are added as a tree, as in an update: the sums do not depend on the number of ranks. Arguments: see
    ``shard_sums``.
    """
    totals = shard_sums(model, examples, strategy, interrupted, done)
    if totals is None:
        return None
    whole = TreeSum[MetricSums](added_sums)
    for shard in sorted(totals):
        whole.add(totals[shard])
    return strategy.add(whole.value() if totals else {})


def shard_sums(
    model: nn.Module,
    examples: Examples,
    strategy: Strategy,
    interrupted: Callable[[], bool] = lambda: False,
    done: ProgressCallback | None = None,
) -> dict[int, MetricSums] | None:
    """Return the objective's sums over the examples of each shard of this rank; None if interrupted.

    The batches of a shard are added in order, each with the carried state of the previous one.

    Args:
        model: the module that the strategy's ``wrap`` returned.
        examples: the examples.
        strategy: the division of the work.
        interrupted: checked before each batch.
        done: receives the number of measured examples.
    """
    totals: dict[int, MetricSums] = {}
    carried: dict[int, Carry] = {}
    for batch in examples.batches(None):
        if interrupted():
            return None
        atomic_files.fault_point("validation")
        parts = strategy.deal(batch)
        if not parts and (share := strategy.idle(batch)) is not None:
            model(to_device(examples.collate(share), strategy.device))
        for shard, share in parts:
            part = to_device(examples.collate(share), strategy.device)
            rows = len(part.index)
            terms: LossTerms = model(part, continued(carried.get(shard, ()), rows))
            totals[shard] = added_sums(totals.get(shard, {}), terms.sums)
            carried[shard] = detach_carry(terms.carry, rows)
        if done is not None:
            done(len(batch.index))
    return totals


def predictor_sums(
    predictor: Predictor[Any],
    examples: Examples,
    names: Sequence[str],
    strategy: Strategy,
    interrupted: Callable[[], bool] = lambda: False,
    done: ProgressCallback | None = None,
) -> MetricSums | None:
    """Return the predictor's sums of some metrics over all examples, on any rank; None if interrupted.

    The sums are counts, which are exact in any order. This rank's shards of several batches are therefore decoded in
    one call. In a single process, the call itself checks ``interrupted``.
    """
    inside = interrupted if strategy.world == 1 else not_interrupted
    failure: ModelError | None = None
    total: MetricSums = {}
    waiting: list[ExampleIndices] = []
    batches = examples.batches(None)
    for number, batch in enumerate(batches, start=1):
        if interrupted():
            return None
        waiting += [share for _, share in strategy.deal(batch)]
        last = number == len(batches)
        if waiting and (last or sum(len(share.index) for share in waiting) >= TOGETHER):
            index = np.concatenate([share.index for share in waiting])
            try:
                measured = predictor.measure(examples, index, names, inside)
            except KeyboardInterrupt:
                if inside():
                    return None
                raise
            except ModelError as error:  # reported on all ranks at the end, so none stops alone
                failure, measured = error, {}
            total, waiting = added_sums(total, measured), []
            if done is not None:
                done(len(index))
    if on_any_rank(strategy, failure is not None):
        raise failure or ModelError("on another rank, the model computed no probabilities")
    return strategy.add(total)

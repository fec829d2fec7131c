"""The baseline of a run that predicts links, measured like its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.baselines.links import LinkBaseline
from regard.core.baseline import FOLDER, open_saved_baseline, require_wide, save_baseline
from regard.core.task import Data, Indices, MetricSums, RunFiles
from regard.tasks.graph_batch import GraphCodecs
from regard.tasks.graph_outcomes import GraphOutcomes
from regard.tasks.links.edge_answer import CLASSES, EdgeAnswer, edge_loss, edge_outputs
from regard.tasks.links.examples import LinkBatch, LinkExamples


class LinksBaseline:
    """``core.task.TaskBaseline`` of a ``LinkBaseline``."""

    def __init__(self, model: LinkBaseline) -> None:
        self.model = model

    @property
    def description(self) -> str:
        return self.model.description

    def sums(self, examples: Any, indices: Indices, names: Sequence[str]) -> MetricSums:
        """See ``TaskBaseline``."""
        batch = examples.collate(examples.batches(None)[0])
        return edge_loss(self._logits(examples, batch), batch.exists, evaluating=True).sums

    def outcomes(self, examples: Any) -> GraphOutcomes:
        """See ``core.task.Task.baseline_outcomes``."""
        batch, graph = examples.collate(examples.batches(None)[0]), examples.graph
        outputs, targets = edge_outputs(self._logits(examples, batch)), batch.exists.long()
        return GraphOutcomes(EdgeAnswer.of(CLASSES), examples.where(0), graph, batch.ends.numpy().T, outputs, targets)

    def _logits(self, examples: LinkExamples, batch: LinkBatch) -> Tensor:
        return torch.from_numpy(self.model.outputs(examples.graph, batch.ends.numpy().T))

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def fit_links_baseline(run: RunFiles, data: Data) -> LinksBaseline:
    """Fit the baseline, unless it is the wide part of the model, which is fitted already."""
    examples: Any = data.train
    return LinksBaseline(data.codecs.wide or fitted(examples))


def open_links_baseline(run: RunFiles, codecs: GraphCodecs) -> LinksBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    model = codecs.wide or opened(run)
    return None if model is None else LinksBaseline(model)


def fitted(examples: LinkExamples) -> LinkBaseline:
    """Fit the baseline on edges and as many pairs without an edge."""
    batch, model = examples.collate(examples.batches(None)[0]), LinkBaseline()
    ends, exists = batch.ends.numpy().T, batch.exists.numpy()
    model.learn(examples.graph, np.ascontiguousarray(ends[exists]), np.ascontiguousarray(ends[~exists]))
    return model


def opened(run: RunFiles) -> LinkBaseline | None:
    """Open the saved baseline of a run; None if it does not exist. Raises ModelError if it is damaged."""
    return open_saved_baseline(run.path / FOLDER, LinkBaseline(), lambda model: None)


def wide_part(run: RunFiles, examples: LinkExamples | None) -> LinkBaseline:
    """Return the wide part of the model of a run: the saved one, or one that is fitted on ``examples`` and saved.

    Raises:
        ModelError: if the saved one is missing or damaged.
    """
    if examples is None:
        return require_wide(opened(run), run)
    model = fitted(examples)
    save_baseline(run.path / FOLDER, model, {})
    return model

"""The baseline of a run that predicts links, measured like its network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from regard.baselines.links import LinkBaseline
from regard.core.baseline import FOLDER, open_saved_baseline, save_baseline
from regard.core.task import Data, Indices, MetricSums, RunFiles
from regard.data.graphs import Graph
from regard.tasks.links.examples import link_loss


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
        outputs = self.model.outputs(examples.graph, batch.ends.numpy().T)
        return link_loss(torch.from_numpy(outputs), batch.exists).sums

    def save(self, run: RunFiles, figures: Mapping[str, float]) -> None:
        save_baseline(run.path / FOLDER, self.model, figures)


def fit_links_baseline(run: RunFiles, data: Data) -> LinksBaseline:
    """Fit the baseline on the training edges and as many pairs without an edge."""
    examples: Any = data.train
    batch, model = examples.collate(examples.batches(None)[0]), LinkBaseline()
    ends, exists = batch.ends.numpy().T, batch.exists.numpy()
    model.learn(examples.graph, np.ascontiguousarray(ends[exists]), np.ascontiguousarray(ends[~exists]))
    return LinksBaseline(model)


def open_links_baseline(run: RunFiles, graph: Graph) -> LinksBaseline | None:
    """Open the saved baseline of a run; None if the run has no baseline. Raises ModelError if it is damaged."""
    model = open_saved_baseline(run.path / FOLDER, LinkBaseline(), lambda model: None)
    return None if model is None else LinksBaseline(model)

"""The outputs of a network for pairs of nodes, their classes, and the outcomes of an evaluation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from regard.answers.plain_class import PlainClass
from regard.core.answer import LossAndSums
from regard.core.tensors import to_device
from regard.metrics.ranking import ranking_sums
from regard.tasks.graph_outcomes import GraphOutcomes
from regard.tasks.links.examples import LinkBatch
from regard.tasks.links.linker import CLASSES


class EdgeAnswer(PlainClass):
    """The classes of a pair of nodes, with or without an edge; the outputs are 0 and the logit of an edge."""

    def loss(
        self, outputs: Tensor, targets: Tensor, unit: Tensor, *, smoothing: float, evaluating: bool
    ) -> LossAndSums:
        """See ``TaskAnswer.loss``: the binary cross-entropy in nats."""
        logits = outputs[:, 1] - outputs[:, 0]
        nll = binary_cross_entropy_with_logits(logits, targets.to(logits.dtype), reduction="none")
        counts = ranking_sums(logits.detach().double().sigmoid(), targets > 0)
        return LossAndSums(nll, {"nll": nll.detach().double().sum(), "ranking": counts})


def link_logits(net: nn.Module, batch: LinkBatch) -> Tensor:
    """Return the logits (candidates,) of edges, with those of the wide part."""
    logits: Tensor = net(*batch.inputs[:3], batch.ends)
    return logits if batch.wide is None else logits + batch.wide


def edge_outputs(logits: Tensor) -> Tensor:
    """Return the logits (candidates, 2) of both classes."""
    return torch.stack([torch.zeros_like(logits), logits], 1)


@torch.no_grad()
def link_outcomes(predictor: Any, examples: Any) -> GraphOutcomes:
    """See ``core.task.Task.outcomes``."""
    (indices,) = examples.batches(None)
    batch = to_device(examples.collate(indices), predictor.device)
    outputs = edge_outputs(link_logits(predictor.net, batch).double().cpu())
    ends, targets = batch.ends.T.cpu().numpy(), batch.exists.long().cpu()
    return GraphOutcomes(EdgeAnswer.of(CLASSES), examples.where(0), examples.graph, ends, outputs, targets)

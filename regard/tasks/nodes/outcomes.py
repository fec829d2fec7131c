"""The outputs of a network for nodes, and the outcomes of an evaluation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.answers.plain_class import PlainClass
from regard.core.tensors import to_device
from regard.tasks.graph_batch import NodeBatch
from regard.tasks.graph_outcomes import GraphOutcomes


def node_logits(net: nn.Module, batch: NodeBatch) -> Tensor:
    """Return the logits (targets, classes) of the chosen nodes, with those of the wide part."""
    logits: Tensor = net(*batch.inputs).index_select(0, batch.nodes)
    logits = logits.float() if logits.dtype.itemsize < 4 else logits
    return logits if batch.wide is None else logits + batch.wide


@torch.no_grad()
def node_outcomes(predictor: Any, examples: Any) -> GraphOutcomes:
    """See ``core.task.Task.outcomes``."""
    batches = [to_device(examples.collate(batch), predictor.device) for batch in examples.batches(None)]
    outputs = torch.cat([node_logits(predictor.net, batch).double().cpu() for batch in batches])
    targets, nodes = torch.cat([batch.label.cpu() for batch in batches]), examples.target_nodes(None)
    graph = examples.graph
    return GraphOutcomes(PlainClass.of(graph.classes), graph.where, graph, nodes[:, None], outputs, targets)

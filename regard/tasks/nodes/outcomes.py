"""The outputs of a network for nodes, and the outcomes of an evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.answers.calibrated_class import CalibratedClass
from regard.core.task import ExampleIndices, Indices
from regard.core.tensors import to_device
from regard.tasks.graph_batch import NodeBatch
from regard.tasks.graph_outcomes import GraphOutcomes


def node_logits(net: nn.Module, batch: NodeBatch) -> Tensor:
    """Return the logits (targets, classes) of the chosen nodes, with those of the wide part."""
    logits: Tensor = net(*batch.inputs).index_select(0, batch.nodes)
    logits = logits.float() if logits.dtype.itemsize < 4 else logits
    return logits if batch.wide is None else logits + batch.wide


@torch.no_grad()
def node_outcomes(
    net: nn.Module, answer: CalibratedClass, examples: Any, indices: Indices | None = None
) -> GraphOutcomes:
    """Return the outcomes of an evaluation; ``indices``: of these examples, None for all."""
    outputs, targets, nodes, device = list[Tensor](), list[Tensor](), list[Indices](), next(net.parameters()).device
    for batch in examples.batches(None):
        index = batch.index if indices is None else batch.index[np.isin(batch.index, indices)]
        if len(index):
            tensors: NodeBatch = to_device(examples.collate(ExampleIndices(index, np.zeros_like(index))), device)
            outputs.append(node_logits(net, tensors).double().cpu())
            targets.append(tensors.label.cpu())
            nodes.append(examples.target_nodes(index))
    graph, chosen = examples.graph, np.concatenate(nodes)[:, None]
    return GraphOutcomes(answer, graph.where, graph, chosen, torch.cat(outputs), torch.cat(targets))

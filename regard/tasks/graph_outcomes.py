"""The outcomes of a task whose answers are about the nodes of one graph, or about pairs of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from torch import Tensor

from regard.answers.calibrated_class import CalibratedClass
from regard.core.outcomes import MeasuredRows, OutcomeRow
from regard.core.task import Indices
from regard.data.graphs import Graph


class GraphOutcomes(NamedTuple):
    """``core.outcomes.Outcomes`` of nodes or pairs of nodes. The length of an input is the number of its neighbors.

    Attributes:
        answer: the classes.
        where: the file of the graph.
        graph: the evaluated graph.
        nodes: (answers, ends), the node or the two nodes of each answer.
        outputs: (answers, classes), logits.
        targets: (answers,), classes.
    """

    answer: CalibratedClass
    where: str
    graph: Graph
    nodes: Indices
    outputs: Tensor
    targets: Tensor

    @property
    def unit(self) -> str:
        """See ``core.outcomes.Outcomes``."""
        return "nodes" if self.nodes.shape[1] == 1 else "pairs of nodes"

    def __len__(self) -> int:
        return len(self.nodes)

    def measure(self, values: Sequence[int], names: Sequence[str]) -> MeasuredRows:
        """See ``core.outcomes.Outcomes``."""
        outputs, targets = self.outputs[[*values]], self.targets[[*values]]
        loss = self.answer.loss(outputs, targets, outputs[:, 0], smoothing=0.0, evaluating=True)
        measured = self.answer.measure(outputs, targets) if {*names} & {*self.answer.measured} else {}
        degree = np.bincount(self.graph.pairs[0], minlength=self.graph.nodes) - 1  # a node is its own neighbor
        rows = [
            OutcomeRow(
                self.where, value + 1, None, None, " – ".join(map(self.graph.name, ends)),
                int(degree[ends].sum()), outcome, nll,
            )
            for value, ends, outcome, nll in zip(
                values, self.nodes[[*values]].tolist(), self.answer.outcomes(outputs, targets), loss.loss.tolist(),
                strict=True,
            )
        ]  # fmt: skip
        return MeasuredRows(rows, loss.sums | measured)

"""The outcomes of positions of texts, computed before they are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import torch

from regard.core.outcomes import MeasuredRows, OutcomeRow
from regard.core.task import MetricSums

Sums = Callable[[Sequence[OutcomeRow], Sequence[str]], MetricSums]


class PositionOutcomes:
    """``core.outcomes.Outcomes`` of rows that exist already; a value is an example with at least one row.

    Attributes:
        unit: plural noun of the examples.
    """

    def __init__(self, rows: Sequence[OutcomeRow], unit: str, more: Sums) -> None:
        """Group the rows by example.

        Args:
            rows: the rows, each with a loss.
            unit: plural noun of the examples.
            more: returns the sums of some rows that are needed in addition to the loss, for the metrics of the names.
        """
        ordered = sorted(rows, key=lambda row: (row.example, row.position or 0))
        self._values = [list(part) for _, part in groupby(ordered, key=lambda row: row.example)]
        self.unit, self._more = unit, more

    def __len__(self) -> int:
        return len(self._values)

    def measure(self, values: Sequence[int], names: Sequence[str]) -> MeasuredRows:
        """See ``core.outcomes.Outcomes``."""
        rows = [row for value in values for row in self._values[value]]
        nll = torch.tensor(sum(row.loss or 0.0 for row in rows), dtype=torch.float64)
        return MeasuredRows(rows, {"nll": nll, "tokens": torch.tensor(len(rows))} | self._more(rows, names))

"""The contract of a test set whose outputs are compared with references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from regard.config.settings import SearchConfig
from regard.core.outcomes import OutcomeRow
from regard.core.task import MetricTable, OutputBaseline, ProgressCallback
from regard.metrics.significance import BootstrapDifference, OnlyRight
from regard.metrics.text import MetricScore
from regard.training.baseline import BaselineComparison
from regard.training.ranks import ProcessGroup


class ReferenceTest(Protocol):
    """A test set whose outputs are compared with references: see ``core.task.Task.reference_test``."""

    search: SearchConfig  # search settings of the run

    def __len__(self) -> int:
        """Return the number of lines."""

    @property
    def inputs(self) -> list[str]:
        """Distinct inputs; the model computes one output for each."""

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings about the files."""

    def outputs(
        self, search: SearchConfig, done: ProgressCallback = ..., peers: ProcessGroup | None = None
    ) -> list[str]:
        """Return an output for each line; ``peers`` are the ranks that share the work."""

    def score(self, metric: str, outputs: Sequence[str]) -> MetricScore:
        """Return a metric of the outputs, with its signature."""

    def tables(self, metrics: Sequence[str], outputs: Sequence[str]) -> Mapping[str, MetricTable]:
        """Return the tables that accompany these metrics."""

    def compare(self, metric: str, outputs: Sequence[str], other_outputs: Sequence[str]) -> BootstrapDifference:
        """Compare the outputs with those of another model."""

    def only_exact(self, outputs: Sequence[str], other_outputs: Sequence[str]) -> OnlyRight:
        """Return for how many distinct inputs only one model's output equals a reference."""

    def rows(self, outputs: Sequence[str]) -> list[OutcomeRow]:
        """Return a row for each line, for the outputs that were computed last."""

    def compare_baseline(
        self, metrics: Sequence[str], outputs: Sequence[str], baseline: OutputBaseline
    ) -> BaselineComparison:
        """Compare the outputs with those of the baseline of the run."""

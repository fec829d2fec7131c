"""The comparison of a run's network with its baseline on the validation data, saved at the end of training."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from regard.core import atomic_files
from regard.core.baseline import FOLDER, baseline_summary
from regard.core.codec_files import open_codec_file
from regard.core.untrusted_files import SMALL
from regard.runs.baseline_choice import read_choice

NAME = "comparison.json"
MAX_METRICS = 100
Figure = Annotated[float, Field(allow_inf_nan=False)]


class ComparedMetric(BaseModel):
    """A metric of the network and of the baseline; ``error``: the standard error of the difference, if known."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    network: Figure
    baseline: Figure
    difference: Figure
    error: Annotated[Figure, Field(ge=0)] | None = None

    def __str__(self) -> str:
        error = "" if self.error is None else f" ± {self.error:.4f}"
        return f"network {self.network:.4f}, baseline {self.baseline:.4f}, difference {self.difference:+.4f}{error}"


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    checkpoint: Annotated[str, Field(max_length=1000)]
    metrics: Annotated[dict[Annotated[str, Field(max_length=100)], ComparedMetric], Field(max_length=MAX_METRICS)]


class NetworkComparison(NamedTuple):
    """The description of the baseline, the compared checkpoint of the network, and the metrics of both by name."""

    description: str
    checkpoint: str
    metrics: dict[str, ComparedMetric]

    def rows(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """Return the name and the figures of the loss, and of the first of the metrics ``names`` that was compared."""
        first = [name for name in names if name in self.metrics][:1]
        compared = [name for name in dict.fromkeys(("loss", *first)) if name in self.metrics]
        return [(name, str(self.metrics[name])) for name in compared]

    def lines(self, names: Iterable[str]) -> list[str]:
        """Return ``rows`` as lines."""
        return [f"{name}: {figures}" for name, figures in self.rows(names)]

    def as_dict(self) -> dict[str, Any]:
        """Return all values as plain JSON."""
        metrics = {name: metric.model_dump() for name, metric in self.metrics.items()}
        return {"description": self.description, "checkpoint": self.checkpoint, "metrics": metrics}


def read_comparison(run: Path) -> NetworkComparison | None:
    """Return the saved comparison of a run folder; of a run that chose by its outputs, that of the choice.

    Returns None if the run has no baseline, or no comparison with it. Raises ModelError if a file is damaged.
    """
    summary, choice, path = baseline_summary(run / FOLDER), read_choice(run), run / NAME
    if summary is None:
        return None
    if choice is not None:
        figures = choice.network, choice.baseline, choice.difference, choice.error
        metric = ComparedMetric(**dict(zip(ComparedMetric.model_fields, figures, strict=True)))
        return NetworkComparison(summary.description, "network", {choice.metric: metric})
    if not path.exists():
        return None
    saved = open_codec_file(path, _File.model_validate, limit=SMALL)
    return NetworkComparison(summary.description, saved.checkpoint, saved.metrics)


def write_comparison(run: Path, checkpoint: str, metrics: dict[str, ComparedMetric]) -> None:
    """Write the comparison of a checkpoint into a run folder."""
    atomic_files.write_json(run / NAME, _File(checkpoint=checkpoint, metrics=metrics).model_dump())

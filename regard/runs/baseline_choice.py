"""The choice between the network of a run, its baseline alone and both, by their outputs on the validation data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.core import atomic_files
from regard.core.codec_files import open_codec_file
from regard.core.untrusted_files import SMALL
from regard.core.wording import pluralize

NAME = "choice.json"
BASELINE = "baseline"  # in place of the name of a checkpoint
Figure = Annotated[float, Field(allow_inf_nan=False)]


class MemoryChoice(BaseModel):
    """The baseline's output for near inputs, and the network's for all others.

    Attributes:
        threshold: the least similarity of an input, from 0 to 1, for which the baseline's output is used.
        value: the metric of these outputs.
        error: the standard error of their difference from the better of network and baseline, by a jackknife.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    threshold: Annotated[Figure, Field(ge=0, le=1)]
    value: Figure
    error: Annotated[Figure, Field(ge=0)]


class BaselineChoice(BaseModel):
    """The decision, and the figures that it depends on.

    Attributes:
        metric: the metric of the outputs.
        sources: the number of validation sources.
        network: the metric of the network's outputs.
        baseline: that of the baseline's outputs.
        error: the standard error of the difference, by a jackknife over sources.
        lower_is_better: whether a lower metric is better.
        memory: the best combination of both; None if none was tried.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1, 2] = 2
    metric: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]
    sources: Annotated[int, Field(ge=2, lt=1 << 31)]
    network: Figure
    baseline: Figure
    error: Annotated[Figure, Field(ge=0)]
    lower_is_better: bool
    memory: MemoryChoice | None = None

    @property
    def difference(self) -> float:
        """Network − baseline."""
        return self.network - self.baseline

    @property
    def is_baseline(self) -> bool:
        """True unless a model with the network is better by more than one standard error: the simplest is preferred."""
        return self._baseline_is_preferred and not self.uses_memory

    @property
    def uses_memory(self) -> bool:
        """True if the combination is better than the preferred one of both by more than one standard error."""
        if self.memory is None:
            return False
        one = self.baseline if self._baseline_is_preferred else self.network
        gain = self.memory.value - one
        return (-gain if self.lower_is_better else gain) > self.memory.error

    @property
    def _baseline_is_preferred(self) -> bool:
        return (-self.difference if self.lower_is_better else self.difference) <= self.error

    @property
    def model(self) -> str:
        """The chosen model in words."""
        if self.uses_memory:
            return "network with memory"
        return "baseline alone" if self.is_baseline else "network"

    @property
    def figures(self) -> str:
        """All figures in one line."""
        return (
            f"{self.metric} of {pluralize(self.sources, 'validation source')}: network {self.network:.2f}, "
            f"baseline {self.baseline:.2f}, difference {self.difference:+.2f} ± {self.error:.2f}{self._combined}"
        )

    @property
    def _combined(self) -> str:
        if self.memory is None:
            return ""
        value, threshold, error = self.memory.value, self.memory.threshold, self.memory.error
        return f", network with memory {value:.2f} (from a cosine of {threshold:g}; ± {error:.2f})"

    def as_dict(self) -> dict[str, Any]:
        """Return all values as plain JSON."""
        own = self.model_dump(exclude={"version"})
        return {"model": self.model, **own, "difference": self.difference, "figures": self.figures}


def read_choice(run: Path) -> BaselineChoice | None:
    """Return the choice of a run folder; None if there was nothing to choose. Raises ModelError if it is damaged."""
    path = run / NAME
    return open_codec_file(path, BaselineChoice.model_validate, limit=SMALL) if path.exists() else None


def write_choice(run: Path, choice: BaselineChoice) -> None:
    """Write the choice into a run folder."""
    atomic_files.write_json(run / NAME, choice.model_dump())

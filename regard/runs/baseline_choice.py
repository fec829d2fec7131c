"""The choice between the network of a run and its baseline alone, by their outputs on the validation data."""

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


class BaselineChoice(BaseModel):
    """The decision, and the figures that it depends on.

    Attributes:
        metric: the metric of the outputs.
        sources: the number of validation sources.
        network: the metric of the network's outputs.
        baseline: that of the baseline's outputs.
        error: the standard error of the difference, by a jackknife over sources.
        lower_is_better: whether a lower metric is better.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    metric: Annotated[str, Field(pattern="^[a-z0-9-]{1,40}$")]
    sources: Annotated[int, Field(ge=2, lt=1 << 31)]
    network: Figure
    baseline: Figure
    error: Annotated[Figure, Field(ge=0)]
    lower_is_better: bool

    @property
    def difference(self) -> float:
        """Network − baseline."""
        return self.network - self.baseline

    @property
    def is_baseline(self) -> bool:
        """True unless the network is better by more than one standard error: the simpler model is preferred."""
        return (-self.difference if self.lower_is_better else self.difference) <= self.error

    @property
    def figures(self) -> str:
        """All figures in one line."""
        return (
            f"{self.metric} of {pluralize(self.sources, 'validation source')}: network {self.network:.2f}, "
            f"baseline {self.baseline:.2f}, difference {self.difference:+.2f} ± {self.error:.2f}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all values as plain JSON."""
        model = "baseline alone" if self.is_baseline else "network"
        own = self.model_dump(exclude={"version"})
        return {"model": model, **own, "difference": self.difference, "figures": self.figures}


def read_choice(run: Path) -> BaselineChoice | None:
    """Return the choice of a run folder; None if there was nothing to choose. Raises ModelError if it is damaged."""
    path = run / NAME
    return open_codec_file(path, BaselineChoice.model_validate, limit=SMALL) if path.exists() else None


def write_choice(run: Path, choice: BaselineChoice) -> None:
    """Write the choice into a run folder."""
    atomic_files.write_json(run / NAME, choice.model_dump())

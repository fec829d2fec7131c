"""The keys of a network with a wide part. Imports no torch."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from regard.config.explain import InvalidCombination


class WideConfig(BaseModel):
    """A network to whose outputs those of a baseline may be added."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    wide: bool = Field(
        False,
        description="add the outputs of the baseline to those of the network, whose own outputs start at zero (Cheng "
        "et al. 2016)",
    )


class CombinedWideConfig(WideConfig):
    """A network that may also be trained without the baseline, and be combined with it afterwards."""

    wide_training: Literal["together", "apart"] = Field(
        "together",
        description="together: the network learns what the baseline leaves over, and starts at zero; apart: it learns "
        "alone, and the weights of both in the output are then chosen on the validation data",
    )

    @property
    def starts_at_zero(self) -> bool:
        """True if the output layer starts at zero: training starts at the solution of the wide part."""
        return self.wide and self.wide_training == "together"

    @property
    def is_combined(self) -> bool:
        """True if the weights of network and baseline are chosen after training."""
        return self.wide and self.wide_training == "apart"


def require_baseline(wide: bool, baseline: bool) -> None:
    """Raise InvalidCombination for ``model.wide`` without ``train.baseline``."""
    if wide and not baseline:
        why = "the wide part is the baseline"
        raise InvalidCombination("model.wide", "train.baseline", why=why, help="--set train.baseline=true")

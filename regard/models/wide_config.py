"""The key of a network with a wide part. Imports no torch."""

from __future__ import annotations

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


def require_baseline(wide: bool, baseline: bool) -> None:
    """Raise InvalidCombination for ``model.wide`` without ``train.baseline``."""
    if wide and not baseline:
        why = "the wide part is the baseline"
        raise InvalidCombination("model.wide", "train.baseline", why=why, help="--set train.baseline=true")

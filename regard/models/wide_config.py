"""The key of a network with a wide part. Imports no torch."""

from __future__ import annotations

from pydantic import BaseModel, Field


class WideConfig(BaseModel):
    """A network to whose outputs those of a baseline may be added."""

    wide: bool = Field(
        False,
        description="add the outputs of the baseline to those of the network, whose own outputs start at zero (Cheng "
        "et al. 2016)",
    )

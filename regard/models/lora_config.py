"""Config of low-rank adapters. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _listed(value: Any) -> Any:
    """Return a single name as a list."""
    return [value] if isinstance(value, str) else value


class LoraConfig(BaseModel):
    """Low-rank updates of the matrices that training starts from (LoRA, Hu et al. 2021)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    rank: int = Field(8, ge=1, le=1 << 20, description="rank r of the trained update of each matrix")
    alpha: float | None = Field(
        None, gt=0, le=1e6, description="the update B A is multiplied by alpha / rank; default: 2 · rank"
    )
    targets: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        ("all",),
        min_length=1,
        max_length=64,
        description="linear layers that get an update: `all` in the layers of the network, those of `attention`, and "
        "names such as `query`, `value`, `up`, `down`",
    )

    @property
    def scale(self) -> float:
        """The factor of the update B A."""
        return 2.0 if self.alpha is None else self.alpha / self.rank

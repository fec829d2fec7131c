"""What was measured or counted once when a run began: the number format, updates, sizes of the vocabularies."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["Count", "Decision", "Fit", "Plan"]

Count = Annotated[int, Field(ge=0, lt=10**15)]
Types = Annotated[int, Field(ge=1, lt=1 << 31)]
Updates = Annotated[int, Field(ge=1, lt=10**15)]


class Decision(NamedTuple):
    """Made after update ``step``: training ends after update ``steps``."""

    step: Updates
    steps: Updates


class Fit(NamedTuple):
    """Numbers of updates that suit the length of a training."""

    warmup: Annotated[int, Field(ge=0, lt=10**15)]
    validate_every: Updates
    save_every: Updates


class Plan(BaseModel):
    """What was measured or counted when a run began, and holds for all of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    precision: Literal["float32", "bfloat16"]
    steps: Count | None  # updates, where their number is known
    threads: Annotated[int, Field(ge=1, le=4096)]  # sums depend on how they are split
    seconds_per_update: dict[str, float]  # by number format; 0 where nothing was measured
    source_types: Types
    target_types: Types
    corpora: dict[str, str] = {}  # the content of each, by its folder under data/; nothing in older runs
    most: Count | None = None  # the updates that something else than train.minutes allows
    fit: Fit | None = None  # None in older runs, whose config says all of it
    decisions: list[Decision] | None = None  # of the clock, where minutes end training; None in older runs

    @field_validator("decisions")
    @classmethod
    def _one_after_the_other(cls, decisions: list[Decision] | None) -> list[Decision] | None:
        steps = [decision.step for decision in decisions or ()]
        if steps != sorted(set(steps)):
            raise ValueError("each decision is made after the one before")
        return decisions

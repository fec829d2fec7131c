"""The plan of a run: what was measured or counted once when it began, such as number format, updates and sizes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from regard.config.settings import MAX_UPDATES

Count = Annotated[int, Field(ge=0, le=MAX_UPDATES)]
Types = Annotated[int, Field(ge=1, lt=1 << 31)]
Updates = Annotated[int, Field(ge=1, le=MAX_UPDATES)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Decision(NamedTuple):
    """Made after update ``step``: training ends after update ``steps``."""

    step: Updates
    steps: Updates


class Fit(NamedTuple):
    """Numbers of updates that suit the length of a training."""

    warmup: Count
    validate_every: Updates
    save_every: Updates


class PlannedOrigin(BaseModel):
    """The weights that a training began with: of which run, which checkpoint, and the digest of all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    checkpoint: str
    digest: str


class Plan(BaseModel):
    """Measurements and counts made when a run began, which hold for all of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    precision: Literal["float32", "bfloat16"]
    steps: Count | None  # updates, where their number is known
    threads: Annotated[int, Field(ge=1, le=4096)]  # of torch for each shard: sums depend on how they are split
    seconds_per_update: dict[str, Seconds]  # by number format; 0 where nothing was measured
    spec: dict[str, Types]  # sizes that the data decides, such as those of vocabularies
    shards: Annotated[int, Field(ge=1, le=1 << 12)] | None = None  # None in older runs: rows dealt to their workers
    corpora: dict[str, str] = {}  # the content of each, by its folder under data/; nothing in older runs
    most: Count | None = None  # the updates that something else than train.minutes allows
    fit: Fit | None = None  # None in older runs, whose config says all of it
    decisions: list[Decision] | None = None  # of the clock, where minutes end training; None in older runs
    origin: PlannedOrigin | None = None  # None where weights were random

    @model_validator(mode="before")
    @classmethod
    def _sizes_by_name(cls, given: Any) -> Any:
        """Older plans have the sizes of two vocabularies as keys of their own."""
        if not isinstance(given, dict) or "spec" in given:
            return given
        sizes = {key: given[key] for key in ("source_types", "target_types") if key in given}
        rest = {key: value for key, value in given.items() if key not in sizes}
        return rest | {"spec": sizes} if sizes else given

    @field_validator("decisions")
    @classmethod
    def _one_after_the_other(cls, decisions: list[Decision] | None) -> list[Decision] | None:
        steps = [decision.step for decision in decisions or ()]
        if steps != sorted(set(steps)):
            raise ValueError("each decision is made after the one before")
        return decisions

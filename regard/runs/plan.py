"""The plan of a run: values measured or counted once at its start, such as number format, updates and sizes."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from regard.config.settings import MAX_UPDATES

Count = Annotated[int, Field(ge=0, le=MAX_UPDATES)]
Types = Annotated[int, Field(ge=1, lt=1 << 31)]
Updates = Annotated[int, Field(ge=1, le=MAX_UPDATES)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Decision(NamedTuple):
    """A decision after update ``step`` that training ends after update ``steps``."""

    step: Updates
    steps: Updates


class Fit(NamedTuple):
    """Numbers of updates that suit the length of a training."""

    warmup: Count
    validate_every: Updates
    save_every: Updates


class PlannedOrigin(BaseModel):
    """The initial weights of a training: their run, their checkpoint, and the digest of all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    checkpoint: str
    digest: str


class Plan(BaseModel):
    """Measurements and counts from the start of a run, valid for the whole run."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    precision: Literal["float32", "bfloat16"]
    steps: Count | None  # updates, if their number is known
    threads: Annotated[int, Field(ge=1, le=4096)]  # torch threads per shard: sums depend on how they are split
    seconds_per_update: dict[str, Seconds]  # by number format; 0 if it was not measured
    spec: dict[str, Types]  # sizes that depend on the data, such as those of vocabularies
    shards: Annotated[int, Field(ge=1, le=1 << 12)] | None = (
        None  # None in older runs: rows were distributed to their workers
    )
    corpora: dict[str, str] = {}  # content of each corpus, by its folder under data/; empty in older runs
    max_steps: Count | None = Field(None, alias="most")  # limit of updates, apart from train.minutes
    fit: Fit | None = None  # None in older runs, whose config has these values
    decisions: list[Decision] | None = None  # of the time budget, if train.minutes is set; None in older runs
    origin: PlannedOrigin | None = None  # None for random weights

    def all_threads(self, workers: int) -> int:
        """Return the torch threads of all workers together; older runs have this number as ``threads``."""
        return self.threads if self.shards is None else self.threads * workers

    @model_validator(mode="before")
    @classmethod
    def _sizes_by_name(cls, values: Any) -> Any:
        """Convert older plans, which have the sizes of two vocabularies as separate keys."""
        if not isinstance(values, dict) or "spec" in values:
            return values
        sizes = {key: values[key] for key in ("source_types", "target_types") if key in values}
        rest = {key: value for key, value in values.items() if key not in sizes}
        return rest | {"spec": sizes} if sizes else values

    @field_validator("decisions")
    @classmethod
    def _one_after_the_other(cls, decisions: list[Decision] | None) -> list[Decision] | None:
        steps = [decision.step for decision in decisions or ()]
        if steps != sorted(set(steps)):
            raise ValueError("the steps of decisions must be ascending")
        return decisions

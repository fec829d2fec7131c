"""The keys that every run's config has, and the class that the config of a task extends. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.settings import ChoiceConfig, TrainConfig
from regard.config.toml_layers import Key
from regard.core.wording import did_you_mean
from regard.models.net_config import NetConfig
from regard.models.origin_config import Origin

FORMAT: Final = 2  # of a saved config; every released one loads for ever, a newer one is refused


class StartingPoint(NamedTuple):
    """The network of another run, or its encoder, that a run starts from."""

    origin: Origin
    part: Literal["all", "encoder"]

    @property
    def key(self) -> str:
        """The key of the config that names the other run."""
        return "model.from" if self.part == "all" else "model.encoder.from"


class Confidence(IntEnum):
    """Evidence that files belong to a task. The task with the strongest is chosen."""

    NONE = 0  # the task does not read them
    ANY_TEXT = 1  # the task reads any text, or any two
    COLUMNS = 2  # they have as many columns as the task reads
    CONTENTS = 3  # cells may be labels, at which ``propose`` looks
    NAMES = 4  # the names of columns
    FORM = 5  # a form that no other task reads, such as a word a line, or lists of edges


class Proposal(NamedTuple):
    """A config as nested tables for files that nobody wrote a recipe for, and a line for the user on each choice."""

    config: dict[str, Any]
    reasons: list[str]


class DataSection(BaseModel):
    """Examples to learn from and to validate on; a task adds how they become numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[Any, ...]  # none where a model came without its data
    valid: tuple[Any, ...] | None = None


class TaskSection(BaseModel):
    """The task: a name of ``core.task_table.TASKS``, or your own as ``package.module:NAME``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = "translation"

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given


class RunConfig(BaseModel):
    """The keys of every run's config; the class of its task adds the rest. Frozen; saved with every value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric_names: ClassVar[tuple[str, ...]] = ()  # what train.best_by may be beside loss
    codec_keys: ClassVar[tuple[str, ...]] = ()  # keys of data that say how examples become numbers
    inherited_keys: ClassVar[tuple[str, ...]] = ()  # others that a run takes over from the one it starts from
    encoder_obstacle: ClassVar[str | None] = None  # the reason why ``model.encoder.from`` cannot be set; None if it can

    format: Literal[1, 2] = FORMAT
    name: str | None = None  # of the run folder
    seed: int = Field(1, ge=0)
    task: TaskSection = TaskSection()
    data: DataSection
    train: TrainConfig = TrainConfig()

    @property
    def search_settings(self) -> ChoiceConfig | None:
        """Settings of the search for outputs; None for a task that searches none."""
        return None

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The languages of inputs and outputs, as far as they are known."""
        return None, None

    @property
    def width(self) -> int:
        """d_model, which the schedule of the Transformer's paper is scaled by."""
        raise NotImplementedError

    @property
    def layers(self) -> int:
        """Layers of the network, of all stacks together."""
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """The network in one line, for people."""
        raise NotImplementedError

    @property
    def origin(self) -> Origin | None:
        """The run whose weights this one starts from; None for random ones."""
        nets = (getattr(self, name) for name in self.nets())
        return next((net.origin for net in nets if net.origin is not None), None)

    @property
    def start(self) -> StartingPoint | None:
        """The network or encoder of another run that this one starts from; None for random weights alone."""
        if self.origin is not None:
            return StartingPoint(self.origin, "all")
        nets = (getattr(self, name) for name in self.nets())
        found = next((net.encoder_origin for net in nets if net.encoder_origin is not None), None)
        return None if found is None else StartingPoint(found, "encoder")

    @property
    def reads_with(self) -> tuple[str, Any]:
        """The saved name and the config of the tokenizer of what its encoder, or its only stack, reads."""
        data: Any = self.data
        return "text", data.tokenizer

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        """Raise ValueError where the sizes of a saved plan, which may be received, are not those of such a config."""

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
        """Return the evidence in the first lines that these files are of this task; arguments as in ``propose``.

        Where there is any, ``propose`` looks closer, and may still find that they are not.
        """
        return Confidence.NONE

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """A config for these files, for training and for validation; None where they are of another task.

        ``given``: keys of ``train`` that the user sets, and under ``data`` those of data.
        """
        return None

    @classmethod
    def nets(cls) -> dict[str, type[NetConfig]]:
        """Fields that hold a network of sides."""
        fields = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: kind for name, kind in fields.items() if isinstance(kind, type) and issubclass(kind, NetConfig)}

    @classmethod
    def moved(cls, key: Key) -> Key:
        """The key that an old spelling stands for; any other key unchanged."""
        net = cls.nets().get(str(key[0]))
        return (key[0], *net.moved(key[1:])) if net else key

    @classmethod
    def replaced(cls, key: Key) -> Iterator[Key]:
        """Keys of sides that ``key`` is the default of, and takes the place of where it is set later."""
        net = cls.nets().get(str(key[0]))
        yield from ((key[0], *other) for other in net.replaced(key[1:])) if net else ()

    @classmethod
    def as_it_was(cls, values: Mapping[str, Any]) -> None:
        """Give keys that were added since a run was saved the value of what the run did."""

    @model_validator(mode="after")
    def _validates_on_something(self) -> Self:
        settings = self.train
        if not self.data.valid and (settings.early_stopping is not None or settings.best_by != "loss"):
            key = "train.best_by" if settings.early_stopping is None else "train.early_stopping"
            raise InvalidCombination(
                key,
                "data.valid",
                why="without data.valid nothing is validated: no checkpoint is better than another",
                help=f"name data.valid, or take {key} out",
            )
        return self

    @model_validator(mode="after")
    def _best_by_is_measured(self) -> Self:
        by, known = self.train.best_by, ("loss", *self.metric_names)
        if by not in known:
            raise InvalidCombination(
                "train.best_by",
                why=f"it should be one of {', '.join(known)}",
                help=did_you_mean(by, known) or f"--set train.best_by={known[0]}",
            )
        return self


class UnsmoothedRunConfig(RunConfig):
    """Base of configs whose labels are smoothed only where that is asked for: it is a habit of translation."""

    @model_validator(mode="before")
    @classmethod
    def _smooths_nothing(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("train", {}), dict):
            return given
        return given | {"train": {"label_smoothing": 0.0} | given.get("train", {})}

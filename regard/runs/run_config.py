"""The keys common to all configs of runs, and the base class of task configs. Imports no torch."""

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
from regard.models.lora_config import LoraConfig
from regard.models.net_config import NetConfig
from regard.models.origin_config import Origin

FORMAT: Final = 2  # of saved configs: all released formats load, newer ones are rejected


class StartingPoint(NamedTuple):
    """The network of another run, or its encoder, from which a run starts."""

    origin: Origin
    part: Literal["all", "encoder"]

    @property
    def key(self) -> str:
        """The config key that names the other run."""
        return "model.from" if self.part == "all" else "model.encoder.from"


class Confidence(IntEnum):
    """Evidence that files belong to a task. The task with the strongest evidence is chosen."""

    NONE = 0  # the task cannot read them
    ANY_TEXT = 1  # the task reads any text, or any two texts
    COLUMNS = 2  # the number of columns fits the task
    CONTENTS = 3  # cells may be labels, which ``propose`` verifies
    NAMES = 4  # the names of columns fit the task
    FORM = 5  # a format specific to the task, such as one word per line, or lists of edges


class Proposal(NamedTuple):
    """A config, as nested tables, for files without a recipe, and one line for the user about each choice."""

    config: dict[str, Any]
    reasons: list[str]


class DataSection(BaseModel):
    """Examples for training and validation; a task adds keys for their encoding."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[Any, ...]  # empty for models without training data
    valid: tuple[Any, ...] | None = None


class TaskSection(BaseModel):
    """The task: a name of ``core.task_table.TASKS``, or a custom one as ``package.module:NAME``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str = "translation"

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class RunConfig(BaseModel):
    """The keys of every run's config; the class of its task adds the others. Frozen; saved with all values."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric_names: ClassVar[tuple[str, ...]] = ()  # values of train.best_by other than loss
    codec_keys: ClassVar[tuple[str, ...]] = ()  # keys of data that determine the encoding of examples
    inherited_keys: ClassVar[tuple[str, ...]] = ()  # further keys inherited from the starting point
    inherited_sections: ClassVar[tuple[str, ...]] = ()  # optional sections inherited from the starting point
    chooses_baseline: ClassVar[bool] = False  # whether ``train.choose = "validation"`` is supported
    encoder_obstacle: ClassVar[str | None] = None  # why ``model.encoder.from`` is not supported; None if it is

    format: Literal[1, 2] = FORMAT
    name: str | None = None  # name of the run folder
    seed: int = Field(1, ge=0)
    task: TaskSection = TaskSection()
    data: DataSection
    train: TrainConfig = TrainConfig()

    @property
    def search_settings(self) -> ChoiceConfig | None:
        """Settings of the search for outputs; None for tasks without a search."""
        return None

    @property
    def loss_unit(self) -> str:
        """The unit of the validation loss; empty for an error of numbers, which is in units of the data."""
        return "nats"

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """The languages of inputs and outputs, if known."""
        return None, None

    @property
    def wide(self) -> bool:
        """True if the outputs of the baseline are added to those of the network."""
        return False

    @property
    def is_combined(self) -> bool:
        """True if the network is trained alone, and combined with the baseline afterwards."""
        return False

    @property
    def width(self) -> int:
        """d_model, by which the Transformer's learning-rate schedule is scaled."""
        raise NotImplementedError

    @property
    def layers(self) -> int:
        """Number of layers of the network, over all stacks."""
        raise NotImplementedError

    @property
    def summary(self) -> str:
        """One-line summary of the network."""
        raise NotImplementedError

    @property
    def import_note(self) -> str | None:
        """The limitation of an imported model, for the user; None if there is no limitation."""
        return None

    @property
    def origin(self) -> Origin | None:
        """The run whose weights this one starts from; None for random weights."""
        nets = (getattr(self, name) for name in self.nets())
        return next((net.origin for net in nets if net.origin is not None), None)

    @property
    def start(self) -> StartingPoint | None:
        """The network or encoder of another run from which this one starts; None if all weights are random."""
        if self.origin is not None:
            return StartingPoint(self.origin, "all")
        nets = (getattr(self, name) for name in self.nets())
        origin = next((net.encoder_origin for net in nets if net.encoder_origin is not None), None)
        return None if origin is None else StartingPoint(origin, "encoder")

    @property
    def lora(self) -> LoraConfig | None:
        """The low-rank adapters that are trained; None if the weights themselves are."""
        nets = (getattr(self, name) for name in self.nets())
        return next((net.lora for net in nets if net.lora is not None), None)

    @property
    def reads_with(self) -> tuple[str, Any]:
        """The saved name and the config of the input tokenizer."""
        data: Any = self.data
        return "text", data.tokenizer

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        """Raise ValueError if the sizes of a saved plan, which may come from others, contradict this config."""

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], settings: Mapping[str, Any]) -> Confidence:
        """Return the evidence in the first lines that these files belong to this task; arguments as in ``propose``.

        ``propose`` examines the files further, and may still reject them.
        """
        return Confidence.NONE

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], settings: Mapping[str, Any]) -> Proposal | None:
        """Return a config for these files; None if they belong to another task.

        Args:
            files: files for training.
            valid: files for validation.
            settings: keys of ``train`` that the user sets, and under ``data`` those of data.
        """
        return None

    @classmethod
    def nets(cls) -> dict[str, type[NetConfig]]:
        """Return the fields that hold networks, with their classes."""
        fields = {name: field.annotation for name, field in cls.model_fields.items()}
        return {name: kind for name, kind in fields.items() if isinstance(kind, type) and issubclass(kind, NetConfig)}

    @classmethod
    def moved(cls, key: Key) -> Key:
        """Return the current key for an old spelling; other keys are returned unchanged."""
        net = cls.nets().get(str(key[0]))
        return (key[0], *net.moved(key[1:])) if net else key

    @classmethod
    def replaced(cls, key: Key) -> Iterator[Key]:
        """Yield the keys of sides whose default is ``key``: setting ``key`` in a later layer replaces them."""
        net = cls.nets().get(str(key[0]))
        yield from ((key[0], *other) for other in net.replaced(key[1:])) if net else ()

    @classmethod
    def migrate_saved(cls, values: Mapping[str, Any]) -> None:
        """Set keys that are newer than a saved run to the values that the run used."""

    @model_validator(mode="after")
    def _validates_on_something(self) -> Self:
        settings = self.train
        if not self.data.valid and (settings.early_stopping is not None or settings.best_by != "loss"):
            key = "train.best_by" if settings.early_stopping is None else "train.early_stopping"
            raise InvalidCombination(
                key,
                "data.valid",
                why="without data.valid, checkpoints are not compared",
                help=f"set data.valid, or remove {key}",
            )
        return self

    @property
    def reads_frames(self) -> bool:
        """True if positions of the input are vectors of floats, which ``model.encoder.input`` may join."""
        return False

    @property
    def reads_files(self) -> bool:
        """True if an input may be the contents of a file: see ``core.predictor_interface.ReadsFiles``."""
        return False

    def encoded_length(self, length: int) -> int:
        """Return the number of positions that the network encodes for an input with this number of positions."""
        options = getattr(getattr(getattr(self, "model", None), "encoder", None), "input", None)
        return length if options is None else int(options.positions(length))

    @model_validator(mode="after")
    def _only_frames_have_input_options(self) -> Self:
        encoder = getattr(getattr(self, "model", None), "encoder", None)
        options = getattr(encoder, "input", None)
        if options is not None and options.model_fields_set and not self.reads_frames:
            changed = [key for key, value in options if value != type(options).model_fields[key].default]
            if changed:
                raise InvalidCombination(
                    f"model.encoder.input.{changed[0]}",
                    why="the input of this model is tokens, and only frames can be subsampled or joined to patches",
                    help=f"remove model.encoder.input.{changed[0]}",
                )
        return self

    @model_validator(mode="after")
    def _best_by_is_measured(self) -> Self:
        by, known = self.train.best_by, ("loss", *self.metric_names)
        if by not in known:
            raise InvalidCombination(
                "train.best_by",
                why=f"it must be one of {', '.join(known)}",
                help=did_you_mean(by, known) or f"--set train.best_by={known[0]}",
            )
        return self

    @model_validator(mode="after")
    def _chooses_between_models(self) -> Self:
        if self.train.choose == "network":
            return self
        reasons = {
            "task.kind": None if self.chooses_baseline else "the baseline of this task cannot be used alone",
            "data.valid": None if self.data.valid else "without data.valid, outputs are not compared",
            "train.baseline": None if self.train.baseline else "without a baseline, there is nothing to choose",
        }
        for key, why in reasons.items():
            if why is not None:
                raise InvalidCombination("train.choose", key, why=why, help="--set train.choose=network")
        return self


class UnsmoothedRunConfig(RunConfig):
    """Base of configs without label smoothing by default: smoothing is a convention of translation."""

    @model_validator(mode="before")
    @classmethod
    def _smooths_nothing(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(values.get("train", {}), dict):
            return values
        return values | {"train": {"label_smoothing": 0.0} | values.get("train", {})}

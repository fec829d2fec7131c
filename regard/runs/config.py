"""The whole config of a run: parts owned by the things they configure, read from TOML, saved resolved.

Imports no torch, so that commands answer at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from regard.config.explain import Misfit, expand_key, expand_short_keys, explain, short_keys
from regard.config.settings import TrainConfig
from regard.config.toml_layers import Key, TomlLayer, locate, merge, parse_override, read_layers
from regard.core.installation import upgrade_advice
from regard.core.task_table import locate as locate_task
from regard.core.untrusted_files import shortened
from regard.core.wording import did_you_mean
from regard.errors import ConfigError
from regard.models.net_config import NetConfig
from regard.models.origin_config import Origin
from regard.runs.origin import StartingPoint, layer_beneath, require_agreement, stated_start

__all__ = [
    "FORMAT",
    "DataSection",
    "Proposal",
    "RunConfig",
    "TaskSection",
    "UnsmoothedRunConfig",
    "dump_config",
    "find_recipe",
    "load_config",
    "recipe_names",
]

FORMAT: Final = 2  # of a saved config; every released one loads for ever, a newer one is refused


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
    """The kind of work: a name of ``regard.tasks.TASKS``, or one's own as ``package.module:NAME``."""

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

    format: Literal[1, 2] = FORMAT
    name: str | None = None  # of the run folder
    seed: int = Field(1, ge=0)
    task: TaskSection = TaskSection()
    data: DataSection
    train: TrainConfig = TrainConfig()

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
            raise Misfit(
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
            raise Misfit(
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


def load_config(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, saved: bool = False
) -> RunConfig:
    """Read a recipe by name, a TOML file by path, or a mapping; lay ``key=value`` over it; check it all.

    ``saved``: it is that of a run folder, where a key that is missing was added since, and means what the run did; a
    file that lies in one is such a config, too.
    Any of them may say ``extends = "recipe or path"``. An override with nothing after ``=`` takes the key out.
    Raises ConfigError, which names the file and line, or the override, and the nearest key.
    """
    if isinstance(source, str):
        source = find_recipe(source)
    saved = saved or _of_a_run(source)
    read, parsed = read_layers(source, find_recipe), [parse_override(each) for each in overrides]
    stated = merge(read, parsed)
    kind = _task_kind(stated, read)
    config: type[RunConfig] = locate_task(kind, saved=saved).config()
    short = short_keys(config)
    start = None if saved else stated_start(stated)
    source_config = None if start is None else _source_of(start)
    if start is not None and source_config is not None:
        read = [layer_beneath(source_config, kind, start), *read]
    layers = [_normalised(expand_short_keys(layer, short), config) for layer in read]
    given = [(config.moved(expand_key(key, short)), value) for key, value in parsed]
    values = merge(layers, given, config.replaced)
    _refuse_newer(values, layers)
    if saved:
        config.as_it_was(values)
    try:
        found = config.model_validate(values)
    except ValidationError as error:
        raise explain(error, config, layers, [key for key, _ in given]) from error
    if start is not None and source_config is not None:
        require_agreement(found, source_config, start)
    return found


def _source_of(start: StartingPoint) -> RunConfig:
    """The config of the run that another starts from; ConfigError where there is none."""
    path = Path(start.origin.run)
    if not (path / "config.toml").is_file():
        raise ConfigError(
            f"there is no run {path} to start from",
            where=start.key,
            why="it holds no config.toml" if path.exists() else "there is no such folder",
            help="regard import makes a run of a folder of transformers" if path.exists() else None,
        )
    return load_config(path / "config.toml", saved=True)


def _normalised(layer: TomlLayer, config: type[RunConfig]) -> TomlLayer:
    """The layer with the keys of networks as they are spelled now."""
    values = {
        name: net.normalised(value) if isinstance(value, Mapping) and (net := config.nets().get(name)) else value
        for name, value in layer.values.items()
    }
    return TomlLayer(layer.label, values, {config.moved(key): line for key, line in layer.lines.items()})


def _task_kind(values: Mapping[str, Any], layers: Sequence[TomlLayer]) -> str:
    """The task that merged tables name: ``task = "NAME"`` or ``task = { kind = "NAME" }``; translation unless given."""
    task = values.get("task", {})
    kind = task.get("kind", TaskSection().kind) if isinstance(task, Mapping) else task
    if not isinstance(kind, str):
        where = locate(layers, ("task", "kind")) or locate(layers, ("task",)) or "task"
        raise ConfigError(f"task.kind cannot be {shortened(repr(kind))}", where=where, why="it should be a name")
    return kind


def _of_a_run(source: Path | Mapping[str, Any]) -> bool:
    return isinstance(source, Path) and source.name == "config.toml" and (source.parent / "checkpoints").is_dir()


def dump_config(config: RunConfig) -> str:
    """The config as TOML that loads equal. What is None is left out: TOML has no null."""
    return tomli_w.dumps(config.model_dump(mode="json", exclude_none=True))


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    folder = resources.files("regard") / "recipes"
    return sorted(Path(entry.name).stem for entry in folder.iterdir() if entry.name.endswith(".toml"))


def find_recipe(name: str, folder: Path | None = None) -> Path:
    """The file that ``name`` means: a path, from ``folder`` or from here, if it looks like one; else a recipe."""
    if name.endswith(".toml") or "/" in name:
        path = (folder or Path()) / Path(name).expanduser()
        if path.is_file():
            return path
        raise _no_file(name, path)
    if name in recipe_names():
        return Path(str(resources.files("regard") / "recipes" / f"{name}.toml"))
    raise ConfigError(
        f"there is no recipe {name!r}",
        why=f"the recipes are {', '.join(recipe_names()) or 'none'}; a file of your own ends in .toml",
        help=did_you_mean(name, recipe_names()),
    )


def _no_file(name: str, path: Path) -> ConfigError:
    if (path / "config.toml").is_file():
        what, help = f"{name} is a run, neither data nor a recipe", f"regard train --resume {name}"
        return ConfigError(what, where=str(path), help=help)
    if path.is_dir():
        found = sorted(each.name for each in path.iterdir() if each.is_file())[:5]
        held = f"it holds {', '.join(found)}" if found else "it is empty"
        return ConfigError(
            f"{name} is a folder, neither data nor a recipe", where=str(path), why=held, help="name files"
        )
    return ConfigError(f"there is no recipe file {name}", where=str(path))


def _refuse_newer(values: Mapping[str, Any], layers: Sequence[TomlLayer]) -> None:
    given = values.get("format", FORMAT)
    if isinstance(given, int) and given > FORMAT:
        raise ConfigError(
            f"this config has format {given}; this version of regard reads up to {FORMAT}",
            where=locate(layers, ("format",)) or "format",
            help=upgrade_advice(),
        )

"""The whole config of a run: parts owned by the things they configure, read from TOML, saved resolved.

Imports no torch, so that commands answer at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Final, Literal, Self

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from regard.config.explain import Misfit, explain, in_full, key_in_full, short_keys
from regard.config.settings import SearchConfig, TrainConfig
from regard.config.toml_layers import TomlLayer, locate, merge, parse_override, read_layers
from regard.core.installation import upgrade
from regard.core.wording import did_you_mean
from regard.data.corpora import CorpusConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.models.configuration import ModelConfig

__all__ = [
    "FORMAT",
    "Config",
    "DataConfig",
    "dump_config",
    "find_recipe",
    "load_config",
    "recipe_names",
]

FORMAT: Final = 1  # of a saved config; every released one loads for ever, a newer one is refused


class DataConfig(BaseModel):
    """What is learned from, and how its text becomes numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[CorpusConfig, ...]  # none where a model came without its data
    valid: tuple[CorpusConfig, ...] | None = None
    tokenizer: TokenizerConfig = TokenizerConfig()  # of both sides, unless a side has its own
    joint: bool = True  # one vocabulary for both sides; false needs model.share = "target" or "none"
    source_tokenizer: TokenizerConfig | None = None
    target_tokenizer: TokenizerConfig | None = None
    source_language: str | None = None  # named in the model card
    target_language: str | None = None  # … and to sacreBLEU
    max_length: int = Field(256, ge=1)  # pieces a side; longer pairs are left out, and reported by line

    @property
    def listed(self) -> bool:
        """Both sides cut by models of their own, into pieces that one list numbers: an imported vocabulary."""
        sides = (self.source_tokenizer or self.tokenizer, self.target_tokenizer or self.tokenizer)
        return all(side.kind == "listed" for side in sides)

    @model_validator(mode="after")
    def _joint_or_separate(self) -> Self:
        if self.joint and (self.source_tokenizer or self.target_tokenizer):
            raise ValueError(
                "source_tokenizer and target_tokenizer need joint = false; "
                "one vocabulary for both sides has one tokenizer"
            )
        return self


class Config(BaseModel):
    """Everything that decides a run. Frozen; every key has its value in the saved file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = FORMAT
    name: str | None = None  # of the run folder
    seed: int = Field(1, ge=0)
    data: DataConfig
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    search: SearchConfig = SearchConfig()

    @model_validator(mode="after")
    def _shares_what_is_one(self) -> Self:
        if not self.data.joint and self.model.share == "all" and not self.data.listed:
            raise Misfit(
                "data.joint",
                "model.share",
                why='one matrix for both embeddings needs one vocabulary; with two, share = "target" or "none"',
                help="--set model.share=target",
            )
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        needed = self.data.max_length + 1  # the end symbol
        if self.model.position.kind == "learned" and self.model.longest < needed:
            raise Misfit(
                "model.longest",
                "data.max_length",
                why=f"{self.data.max_length} pieces and the end symbol need {needed} learned positions",
                help=f"--set model.longest={needed}, or lower data.max_length",
            )
        return self

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


def load_config(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str] = (), *, saved: bool = False
) -> Config:
    """Read a recipe by name, a TOML file by path, or a mapping; lay ``key=value`` over it; check it all.

    ``saved``: it is that of a run folder, where a key that is missing was added since, and means what the run did; a
    file that lies in one is such a config, too.
    Any of them may say ``extends = "recipe or path"``. An override with nothing after ``=`` takes the key out.
    Raises ConfigError, which names the file and line, or the override, and the nearest key.
    """
    if isinstance(source, str):
        source = find_recipe(source)
    short = short_keys(Config)
    layers = [in_full(layer, short) for layer in read_layers(source, find_recipe)]
    given = [(key_in_full(key, short), value) for key, value in map(parse_override, overrides)]
    values = merge(layers, given)
    _refuse_newer(values, layers)
    if saved or _of_a_run(source):
        _as_it_was(values)
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        raise explain(error, Config, layers, [key for key, _ in given]) from error


def _of_a_run(source: Path | Mapping[str, Any]) -> bool:
    return isinstance(source, Path) and source.name == "config.toml" and (source.parent / "checkpoints").is_dir()


def _as_it_was(values: Mapping[str, Any]) -> None:
    """Say what a run did that was saved before these keys were added."""
    model = values.get("model")
    sides = [model.get(side) for side in ("encoder", "decoder")] if isinstance(model, dict) else []
    for own in sides:
        if isinstance(own, dict) and own.get("kind") == "recurrent":
            own.setdefault("scale_embedding", False)


def dump_config(config: Config) -> str:
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
        help = f"regard train --resume {name}" if (path / "config.toml").is_file() else None
        raise ConfigError(f"there is no recipe file {name}", where=str(path), help=help)
    if name in recipe_names():
        return Path(str(resources.files("regard") / "recipes" / f"{name}.toml"))
    raise ConfigError(
        f"there is no recipe {name!r}",
        why=f"the recipes are {', '.join(recipe_names()) or 'none'}; a file of your own ends in .toml",
        help=did_you_mean(name, recipe_names()),
    )


def _refuse_newer(values: Mapping[str, Any], layers: Sequence[TomlLayer]) -> None:
    given = values.get("format", FORMAT)
    if isinstance(given, int) and given > FORMAT:
        raise ConfigError(
            f"this config has format {given}; this version of regard reads up to {FORMAT}",
            where=locate(layers, ("format",)) or "format",
            help=upgrade(),
        )

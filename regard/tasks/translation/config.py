"""The config of a translation run: parallel text, an encoder and a decoder, a search. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.settings import ChoiceConfig, SearchConfig
from regard.data.column_names import pair_columns
from regard.data.file_names import named_files
from regard.data.reading import CorpusConfig, corpus_of_files
from regard.data.rows import column_names
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.metrics.names import METRIC_NAMES
from regard.models.configuration import ModelConfig
from regard.models.position_config import LearnedConfig
from regard.models.summary import one_line_summary
from regard.runs.run_config import Confidence, DataSection, Proposal, RunConfig


class DataConfig(DataSection):
    """Parallel text, and how it becomes token numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[CorpusConfig, ...]  # none where a model came without its data
    valid: tuple[CorpusConfig, ...] | None = None
    tokenizer: TokenizerConfig = TokenizerConfig()  # of both sides, unless a side has its own
    joint: bool = True  # one vocabulary for both sides; false needs model.share = "target" or "none"
    source_tokenizer: TokenizerConfig | None = None
    target_tokenizer: TokenizerConfig | None = None
    source_language: str | None = None  # named in the model card
    target_language: str | None = None  # … and to sacreBLEU
    max_length: int = Field(256, ge=1, le=1 << 20)  # pieces a side; longer pairs are left out, and reported by line
    long_sources: Literal["in parts", "cropped"] = Field(
        "in parts",
        description="a source of more pieces is left out of training, and translated in parts; or of it the first "
        "max_length pieces are read, in both, and that is said: for summaries",
    )
    processes: int | None = Field(
        None, ge=1, le=1024
    )  # that tokenize; unset: as many as cores for a large text, else 1
    # of an epoch: drawn as a list of all pairs, or computed batch by batch, for corpora too large for that
    order: Literal["shuffled", "feistel"] = "shuffled"

    @property
    def crops(self) -> bool:
        """Return whether the first pieces of a long source stand for all of it."""
        return self.long_sources == "cropped"

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


class TranslationConfig(RunConfig):
    """Everything that decides a translation run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = METRIC_NAMES
    encoder_obstacle: ClassVar[str | None] = "its two vocabularies are made together"
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer", "joint", "source_tokenizer", "target_tokenizer")

    data: DataConfig
    model: ModelConfig = ModelConfig()
    search: SearchConfig = SearchConfig()

    @property
    def search_settings(self) -> ChoiceConfig:
        return self.search

    @property
    def languages(self) -> tuple[str | None, str | None]:
        return self.data.source_language, self.data.target_language

    @property
    def width(self) -> int:
        return self.model.decoder.width

    @property
    def layers(self) -> int:
        return self.model.encoder.depth + self.model.decoder.depth

    @property
    def summary(self) -> str:
        return one_line_summary(self.model)

    @property
    def reads_with(self) -> tuple[str, TokenizerConfig]:
        data = self.data
        return ("joint", data.tokenizer) if data.joint else ("source", data.source_tokenizer or data.tokenizer)

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"source_types", "target_types"}:
            raise ValueError("it should have the sizes of two vocabularies, source_types and target_types")
        if self.model.share == "all" and spec["source_types"] != spec["target_types"]:
            raise ValueError("all embeddings are one matrix by the config, and the vocabularies differ in size")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
        corpus = _pairs(files)
        if corpus is None:
            return Confidence.NONE
        if corpus.target is not None:  # two texts
            return Confidence.ANY_TEXT
        named = pair_columns(column_names(named_files(files[0])[0]))
        return Confidence.COLUMNS if named is None else Confidence.NAMES

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For two files, or one or more that hold both sides."""
        from regard.tasks.translation.automatic_config import choose, choose_rows

        corpus = _pairs(files)
        if corpus is None:
            return None
        held_out = _held_out(valid) if valid else None
        return choose_rows(files, corpus, held_out, given) if corpus.target is None else choose(corpus, held_out, given)

    @classmethod
    def migrate_saved(cls, values: Mapping[str, Any]) -> None:
        """Give keys that were added since a run was saved the value of what the run did."""
        model = values.get("model")
        sides = [model.get(side) for side in ("encoder", "decoder")] if isinstance(model, dict) else []
        for own in sides:
            if isinstance(own, dict) and own.get("kind") == "recurrent":
                own.setdefault("scale_embedding", False)

    @model_validator(mode="after")
    def _shares_what_is_one(self) -> Self:
        if not self.data.joint and self.model.share == "all" and not self.data.listed:
            raise InvalidCombination(
                "data.joint",
                "model.share",
                why='one matrix for both embeddings needs one vocabulary; with two, share = "target" or "none"',
                help="--set model.share=target",
            )
        return self

    @model_validator(mode="after")
    def _copies_what_it_can_say(self) -> Self:
        if self.model.copying and not self.data.joint:
            raise InvalidCombination(
                "model.copying",
                "data.joint",
                why="a piece of the source is copied as a type of the output, so both sides need one vocabulary",
                help="--set data.joint=true",
            )
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        needed = self.data.max_length + 1  # the end symbol
        for name, side in (("encoder", self.model.encoder), ("decoder", self.model.decoder)):
            position = None if side.kind == "recurrent" else side.position
            if isinstance(position, LearnedConfig) and position.longest < needed:
                raise InvalidCombination(
                    f"model.{name}.position.longest",
                    "data.max_length",
                    why=f"{self.data.max_length} pieces and the end symbol need {needed} learned positions",
                    help=f"--set model.position.longest={needed}, or lower data.max_length",
                )
        return self


def _pairs(files: Sequence[Path]) -> CorpusConfig | None:
    """Return the corpus of pairs that files are; None where they are none."""
    from regard.data.documents import holds_documents

    return None if files and holds_documents(files[0]) else corpus_of_files(files)


def _held_out(files: Sequence[Path]) -> CorpusConfig:
    return corpus_of_files(files) or CorpusConfig(source=files[0])


def translation_config(run: Any) -> TranslationConfig:
    """The config of a run folder, or a config; ConfigError where it is of another task."""
    config = getattr(run, "config", run)
    if not isinstance(config, TranslationConfig):
        raise ConfigError(
            f"this needs a translation run, and {getattr(run, 'path', 'this one')} is of {config.task.kind}",
            where="task.kind",
            help=f"regard info {run.path} says what it can do" if hasattr(run, "path") else None,
        )
    return config

"""The config of a translation run: parallel text, an encoder and a decoder, a search. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from regard.config.explain import InvalidCombination
from regard.config.settings import ChoiceConfig, SearchConfig, TrainConfig
from regard.data.column_names import pair_columns
from regard.data.file_names import named_files
from regard.data.reading import CorpusConfig, corpus_of_files
from regard.data.rows import column_names
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.errors import ConfigError
from regard.models.configuration import ModelConfig
from regard.models.position_config import LearnedConfig
from regard.models.summary import one_line_summary
from regard.runs.run_config import Confidence, DataSection, Proposal, RunConfig

WAITS = re.compile(r"[1-9][0-9]{0,2}(\.\.[1-9][0-9]{0,2})?")  # of wait-k: "3", or "1..9"
METRIC_NAMES = ("bleu", "bleu-tok-lc", "chrf", "ter", "exact", "wer", "per", "rouge-1", "rouge-2", "rouge-l")


class DataConfig(DataSection):
    """Parallel text, and its tokenization."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: tuple[CorpusConfig, ...]  # empty for an imported model without data
    valid: tuple[CorpusConfig, ...] | None = None
    tokenizer: TokenizerConfig = TokenizerConfig()  # of both sides, unless a side has its own tokenizer
    joint: bool = True  # a joint vocabulary; false requires model.share = "target" or "none"
    source_tokenizer: TokenizerConfig | None = None
    target_tokenizer: TokenizerConfig | None = None
    source_language: str | None = None  # shown in the model card
    target_language: str | None = None  # shown in the model card and passed to sacreBLEU
    max_length: int = Field(
        256, ge=1, le=1 << 20
    )  # pieces per side; longer pairs are left out and reported with their lines
    long_sources: Literal["in parts", "cropped"] = Field(
        "in parts",
        description="sources longer than max_length: `in parts` leaves them out of training and translates them in "
        "parts; `cropped` reads their first max_length pieces, for summaries",
    )
    processes: int | None = Field(
        None, ge=1, le=1024
    )  # of tokenization; unset: the number of cores for a large text, else 1
    # order of an epoch: a shuffled list of all pairs, or computed per batch for corpora too large for a list
    order: Literal["shuffled", "feistel"] = "shuffled"

    @property
    def crops(self) -> bool:
        """True if long sources are truncated."""
        return self.long_sources == "cropped"

    @property
    def listed(self) -> bool:
        """True for an imported vocabulary: own segmentation models for both sides, and a shared list of pieces."""
        sides = (self.source_tokenizer or self.tokenizer, self.target_tokenizer or self.tokenizer)
        return all(side.kind == "listed" for side in sides)

    @model_validator(mode="after")
    def _joint_or_separate(self) -> Self:
        if self.joint and (self.source_tokenizer or self.target_tokenizer):
            raise ValueError(
                "source_tokenizer and target_tokenizer require joint = false; a joint vocabulary has one tokenizer"
            )
        return self


class TranslationTrainConfig(TrainConfig):
    """Training of a translation model."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)

    prefixes: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of pairs that each epoch cuts to a beginning of both sides, for translation of sources that "
        "have not ended (--streaming)",
    )
    wait: str | None = Field(
        None,
        description='k of wait-k: "3", or "1..9" for a k drawn for each pair at each visit (Elbayad et al. 2020); '
        "requires `model.encoder.causal = true`",
    )

    @property
    def changes_pairs(self) -> bool:
        """True if training also shows sources that have not ended."""
        return bool(self.prefixes) or self.wait is not None

    @property
    def waits(self) -> tuple[int, int] | None:
        """The smallest and largest k of wait-k; None if targets see the whole source."""
        if self.wait is None:
            return None
        first, _, last = self.wait.partition("..")
        return int(first), int(last or first)

    @field_validator("wait")
    @classmethod
    def _check_wait(cls, wait: str | None) -> str | None:
        if wait is None:
            return None
        if not WAITS.fullmatch(wait):
            raise ValueError('write a number of words, such as "3", or a range, such as "1..9"')
        first, _, last = wait.partition("..")
        if last and int(first) > int(last):
            raise ValueError("the range descends: write the smaller number first")
        return wait


class TranslationConfig(RunConfig):
    """Config of a translation run. Frozen; the saved file has a value for every key."""

    metric_names: ClassVar[tuple[str, ...]] = METRIC_NAMES
    chooses_baseline: ClassVar[bool] = True
    encoder_obstacle: ClassVar[str | None] = "its two vocabularies are trained together"
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer", "joint", "source_tokenizer", "target_tokenizer")

    data: DataConfig
    model: ModelConfig = ModelConfig()
    train: TranslationTrainConfig = TranslationTrainConfig()
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
    def import_note(self) -> str | None:
        if self.data.train or self.data.tokenizer.kind != "pretokenized":
            return None
        return "the run reads and writes pieces separated by spaces: segment text as in the training of the model"

    @property
    def reads_with(self) -> tuple[str, TokenizerConfig]:
        data = self.data
        return ("joint", data.tokenizer) if data.joint else ("source", data.source_tokenizer or data.tokenizer)

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"source_types", "target_types"}:
            raise ValueError("expected the keys `source_types` and `target_types` (sizes of the vocabularies)")
        if self.model.share == "all" and spec["source_types"] != spec["target_types"]:
            raise ValueError("model.share = all needs vocabularies of equal size")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
        corpus = _pairs(files)
        if corpus is None:
            return Confidence.NONE
        if corpus.target is not None:  # two texts
            return Confidence.ANY_TEXT
        named = pair_columns(column_names(named_files(files[0])[0]))
        return Confidence.COLUMNS if named is None else Confidence.NAMES

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for two files, or for files with both sides in each row."""
        from regard.tasks.translation.automatic_config import choose, choose_rows

        corpus = _pairs(files)
        if corpus is None:
            return None
        held_out = _held_out(valid) if valid else None
        return (
            choose_rows(files, corpus, held_out, overrides)
            if corpus.target is None
            else choose(corpus, held_out, overrides)
        )

    @classmethod
    def migrate_saved(cls, values: Mapping[str, Any]) -> None:
        """Set keys that were added after a run was saved to the values that reproduce its behavior."""
        model = values.get("model")
        sides = [model.get(side) for side in ("encoder", "decoder")] if isinstance(model, dict) else []
        for own in sides:
            if isinstance(own, dict) and own.get("kind") == "recurrent":
                own.setdefault("scale_embedding", False)
        search = values.setdefault("search", {}) if isinstance(values, dict) else None
        if isinstance(search, dict):
            search.setdefault("early_stopping", False)

    @model_validator(mode="after")
    def _shared_matrix_needs_joint_vocabulary(self) -> Self:
        if not self.data.joint and self.model.share == "all" and not self.data.listed:
            raise InvalidCombination(
                "data.joint",
                "model.share",
                why='share = "all" requires a joint vocabulary; with two vocabularies, use share = "target" or "none"',
                help="--set model.share=target",
            )
        return self

    @model_validator(mode="after")
    def _copying_needs_joint_vocabulary(self) -> Self:
        if self.model.copying and not self.data.joint:
            raise InvalidCombination(
                "model.copying",
                "data.joint",
                why="pieces of the source are copied to the output, which requires a joint vocabulary",
                help="--set data.joint=true",
            )
        return self

    @model_validator(mode="after")
    def _waiting_needs_a_causal_encoder(self) -> Self:
        encoder, decoder = self.model.encoder, self.model.decoder
        if self.train.wait is None:
            return self
        if not getattr(encoder, "causal", False):
            raise InvalidCombination(
                "train.wait",
                "model.encoder.causal",
                why="the states of an encoder that reads both directions depend on the whole source",
                help="--set model.encoder.causal=true",
            )
        if decoder.kind != "transformer" or self.model.copying:
            raise InvalidCombination(
                "train.wait",
                "model.copying" if self.model.copying else "model.decoder.kind",
                why="only a Transformer decoder without copying can see a part of the source",
                help="--set model.decoder.kind=transformer, and model.copying=false",
            )
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        needed = self.data.max_length + 1  # for the end token
        for name, side in (("encoder", self.model.encoder), ("decoder", self.model.decoder)):
            position = None if side.kind == "recurrent" else side.position
            if isinstance(position, LearnedConfig) and position.longest < needed:
                raise InvalidCombination(
                    f"model.{name}.position.longest",
                    "data.max_length",
                    why=f"{self.data.max_length} pieces and the end token need {needed} learned positions",
                    help=f"--set model.position.longest={needed}, or lower data.max_length",
                )
        return self


def _pairs(files: Sequence[Path]) -> CorpusConfig | None:
    """Return the corpus of pairs in files; None if they do not contain pairs."""
    from regard.data.documents import holds_documents

    return None if files and holds_documents(files[0]) else corpus_of_files(files)


def _held_out(files: Sequence[Path]) -> CorpusConfig:
    return corpus_of_files(files) or CorpusConfig(source=files[0])


def translation_config(run: Any) -> TranslationConfig:
    """Return the config of a run folder, or a config itself; raise ConfigError if it has another task."""
    config = getattr(run, "config", run)
    if not isinstance(config, TranslationConfig):
        raise ConfigError(
            f"a translation run is required; the task of {getattr(run, 'path', 'this run')} is {config.task.kind}",
            where="task.kind",
            help=f"regard info {run.path}" if hasattr(run, "path") else None,
        )
    return config

"""The config of a tagger: tokens with tags, and an encoder. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import Misfit
from regard.data.file_names import FileNames, spelled
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.position_config import LearnedConfig
from regard.models.tagger_config import TaggerModelConfig
from regard.runs.config import DataSection, Proposal, RunConfig

__all__ = ["TaggedConfig", "TaggedDataConfig", "TaggingConfig"]

Column = Annotated[int, Field(ge=1)] | Annotated[str, Field(min_length=1)]


class TaggedConfig(BaseModel):
    """Files of tagged sentences: .conllu, .tsv or .jsonl, plain or ``.gz``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: FileNames = Field(description="a .conllu, .tsv or .jsonl; also a list, or a pattern such as `part-*.tsv`")
    share: tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=0, le=1)]] = Field(
        (0.0, 1.0),
        description="the part of the sentences, by a hash of their tokens: [0.0, 0.9] and [0.9, 1.0] split it",
    )

    @property
    def name(self) -> str:
        """The name of the first file."""
        return spelled(self.source)

    @model_validator(mode="after")
    def _share_is_a_part(self) -> TaggedConfig:
        if self.share[0] >= self.share[1]:
            raise ValueError("a share goes from a smaller to a larger number")
        return self


class TaggedDataConfig(DataSection):
    """Tagged sentences, and how their tokens become numbers."""

    train: tuple[TaggedConfig, ...]  # none where a model came without its data
    valid: tuple[TaggedConfig, ...] | None = None
    token: Column | None = Field(
        None, description="column of the token, from 1, or key of JSON lines; unset: 1, 2 in a .conllu, `tokens`"
    )
    tag: Column | None = Field(
        None, description="column of the tag, or key of JSON lines; unset: 2, 4 in a .conllu (UPOS), `tags`"
    )
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="word"), description="of each token; of several pieces the first one's class is its tag"
    )
    max_length: int = Field(256, ge=1, description="pieces read at once; longer sentences are read in parts")
    hidden_tokens: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the tokens that training shows as unknown, drawn anew each epoch: what "
        "is told of unknown words is then learned, too",
    )


class TaggingConfig(RunConfig):
    """Everything that decides a tagger's run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "calibration_error", "entity_f1")
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("max_length",)

    data: TaggedDataConfig
    model: TaggerModelConfig = TaggerModelConfig()

    @property
    def width(self) -> int:
        return self.model.encoder.width

    @property
    def layers(self) -> int:
        return self.model.encoder.depth

    @property
    def summary(self) -> str:
        side, affixes = self.model.encoder, f", {self.model.affixes:,} affixes" if self.model.affixes else ""
        return f"tagger, {side.kind} encoder, {side.depth} layers, width {side.width}{affixes}, dropout {side.dropout}"

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types", "classes"}:
            raise ValueError("it should have the size of one vocabulary, types, and the number of classes")

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For one file of tagged sentences: a .conllu, a .tsv with blank lines, a .jsonl of tokens and tags."""
        from regard.tasks.tagging.automatic_config import choose

        return choose(files, valid, given)

    @model_validator(mode="before")
    @classmethod
    def _smooths_nothing(cls, given: Any) -> Any:
        """Label smoothing, a habit of translation, only where it is asked for."""
        if not isinstance(given, dict) or not isinstance(given.get("train", {}), dict):
            return given
        return given | {"train": {"label_smoothing": 0.0} | given.get("train", {})}

    @model_validator(mode="after")
    def _positions_suffice(self) -> TaggingConfig:
        encoder, needed = self.model.encoder, self.data.max_length + 2
        position = None if encoder.kind == "recurrent" else encoder.position
        if isinstance(position, LearnedConfig) and position.longest < needed:
            raise Misfit(
                "model.encoder.position.longest",
                "data.max_length",
                why=f"{self.data.max_length} pieces and the symbols around them need {needed} learned positions",
                help=f"--set model.position.longest={needed}, or lower data.max_length",
            )
        return self

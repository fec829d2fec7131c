"""The config of a tagger: tokens with tags, and an encoder. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from regard.core.wording import pluralize
from regard.data.shared_files import FilesConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.classifier_config import TaggerModelConfig
from regard.runs.run_config import Confidence, DataSection, Proposal
from regard.tasks.encoder_run_config import EncoderRunConfig

ColumnKey = Annotated[int, Field(ge=1, le=1 << 20)] | Annotated[str, Field(min_length=1)]


class TaggedDataConfig(DataSection):
    """Files of tagged sentences, their columns, and the vocabulary."""

    train: tuple[FilesConfig, ...]  # empty for an imported model without data
    valid: tuple[FilesConfig, ...] | None = None
    token: ColumnKey | None = Field(
        None, description="column of the token, from 1, or key of JSON lines; unset: 1 (2 in a .conllu), or `tokens`"
    )
    tag: ColumnKey | None = Field(
        None, description="column of the tag, from 1, or key of JSON lines; unset: 2 (4, UPOS, in a .conllu), or `tags`"
    )
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="word"),
        description="tokenizer of each token; the tag of a token is predicted at its first piece",
    )
    max_length: int = Field(
        256, ge=1, le=1 << 20, description="maximum number of pieces; longer sentences are read in parts"
    )
    hidden_tokens: float = Field(
        0.0, ge=0, lt=1,
        description="word dropout: share of the tokens that are replaced by the unknown token, drawn in each epoch, to "
        "learn predictions for unknown words",
    )  # fmt: skip


class TaggingConfig(EncoderRunConfig):
    """Config of a tagger's run. Frozen; the saved file has a value for every key."""

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "calibration_error", "exact", "entity_f1")

    data: TaggedDataConfig
    model: TaggerModelConfig = TaggerModelConfig()

    @property
    def longest(self) -> int:
        return self.data.max_length + 2

    @classmethod
    def fitting_length(cls, positions: int, data: Mapping[str, Any]) -> int:
        return positions - 2

    @property
    def summary(self) -> str:
        side = self.model.encoder
        affixes = f", {pluralize(self.model.affixes, 'affix', 'affixes')}" if self.model.affixes else ""
        sizes = f"{pluralize(side.depth, 'layer')}, width {side.width}{affixes}"
        return f"tagger, {side.kind} encoder, {sizes}, dropout {side.dropout}"

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
        from regard.tasks.tagging.automatic_config import confidence

        return confidence(files, valid, overrides)

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for tagged sentences: .conllu, .tsv with blank lines, .jsonl with tokens and tags."""
        from regard.tasks.tagging.automatic_config import choose

        return choose(files, valid, overrides)

"""Config of masked models: texts, masking, an encoder, and settings for gaps. Does not import torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.prediction_settings import GapSettings
from regard.config.setting_models import config_model
from regard.core.wording import pluralize
from regard.data.documents import Cut
from regard.data.masking import MaskingConfig
from regard.data.stream import TextConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.masked_config import MaskedModelConfig
from regard.models.origin_config import trained_positions
from regard.models.position_config import LearnedConfig
from regard.models.wide_config import require_baseline
from regard.runs.run_config import DataSection, Proposal, RunConfig

if TYPE_CHECKING:
    GapFields = GapSettings
else:
    GapFields = config_model(GapSettings)

CONTEXT = 256


class MaskedDataConfig(DataSection):
    """Files, their division into texts, and the conversion of texts to token ids."""

    train: tuple[TextConfig, ...]  # empty for a model without its data
    valid: tuple[TextConfig, ...] | None = None
    tokenizer: TokenizerConfig = Field(TokenizerConfig(kind="word"), description="any kind except `listed`")
    context: int = Field(
        CONTEXT,
        ge=4,
        le=1 << 20,
        description="maximum number of tokens per input; a longer text is divided",
    )
    documents: Literal["file", "line", "blank-line", "separator", "json-line"] = Field(
        "line", description="a text is a line, a file or a JSON line, or ends at a `blank-line` or `separator`"
    )
    separator: str | None = Field(None, min_length=1, description="line between texts, for `separator`")
    processes: int | None = Field(
        None, ge=1, le=1024, description="processes that tokenize; unset: one per core for a large text, else 1"
    )

    @property
    def cut(self) -> Cut:
        """Rule that divides files into texts."""
        return Cut(self.documents, self.separator, completions=False)

    @model_validator(mode="after")
    def _check_texts(self) -> Self:
        if (self.documents == "separator") != (self.separator is not None):
            raise InvalidCombination(
                "data.separator",
                "data.documents",
                why='data.separator is required for data.documents = "separator", and only valid there',
                help="--set data.documents=separator --set data.separator='<|endoftext|>'",
            )
        if self.tokenizer.kind == "listed":
            raise InvalidCombination(
                "data.tokenizer",
                why="only imported translation models have a listed vocabulary",
                help="--set data.tokenizer.kind=word",
            )
        return self


class FillConfig(GapFields):
    """Default settings for filling gaps."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MaskedConfig(RunConfig):
    """Config of a masked model run. Frozen; the saved file has a value for every key."""

    metric_names: ClassVar[tuple[str, ...]] = ("perplexity", "accuracy")
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("context",)

    data: MaskedDataConfig
    masking: MaskingConfig = MaskingConfig()
    model: MaskedModelConfig = MaskedModelConfig()
    fill: FillConfig = FillConfig()

    @property
    def wide(self) -> bool:
        return self.model.wide

    @property
    def width(self) -> int:
        return self.model.encoder.features

    @property
    def layers(self) -> int:
        return self.model.encoder.depth

    @property
    def summary(self) -> str:
        encoder, masking = self.model.encoder, self.masking
        return (
            f"masked model, {encoder.kind} encoder, {pluralize(encoder.depth, 'layer')}, width {encoder.features}, "
            f"{masking.share:.0%} of tokens masked by {masking.unit}, context {self.data.context}, "
            f"dropout {encoder.dropout}"
        )

    @property
    def import_note(self) -> str | None:
        if self.model.head:
            return None
        return "the folder has no masked head: the run cannot fill gaps, but other models can start from it " \
            "(--set model.encoder.from=RUN)"  # fmt: skip

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types"}:
            raise ValueError("expected the key `types` (size of the vocabulary)")

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for texts, only if the user names the task: other tasks read texts, too."""
        from regard.tasks.masked.automatic_config import choose

        return choose(files, valid, overrides) if overrides.get("task") == "masked" else None

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        """Set the defaults of masked models: no label smoothing, and learned positions for the whole context."""
        if not isinstance(values, dict):
            return values
        filled = dict(values)
        if isinstance(values.get("train", {}), dict):
            filled["train"] = {"label_smoothing": 0.0} | values.get("train", {})
        model, data = values.get("model"), values.get("data")
        if isinstance(model, dict) and isinstance(data, dict):
            if "context" not in data and (positions := trained_positions(model)) is not None:
                filled["data"] = data = data | {"context": min(CONTEXT, positions)}
            filled["model"] = {"longest": data.get("context", CONTEXT)} | model
        return filled

    @model_validator(mode="after")
    def _check_wide(self) -> Self:
        require_baseline(self.wide, self.train.baseline)
        return self

    @model_validator(mode="after")
    def _check_voices(self) -> Self:
        if self.masking.unit == "voice" and self.data.tokenizer.kind != "notes":
            raise InvalidCombination(
                "masking.unit",
                "data.tokenizer.kind",
                why="only music has voices",
                help="--set masking.unit=span, or --set data.tokenizer.kind=notes",
            )
        return self

    @model_validator(mode="after")
    def _trains_a_head(self) -> Self:
        if self.data.train and not self.model.head:
            why = "the weights have no masked head, which training needs"
            help = "start from the encoder instead: model.encoder.from, without model.from"
            raise InvalidCombination("model.head", why=why, help=help)
        return self

    @model_validator(mode="after")
    def _check_context(self) -> Self:
        position = getattr(self.model.encoder, "position", None)
        if isinstance(position, LearnedConfig) and position.longest < self.data.context:
            starts = self.model.encoder.origin is not None  # the number of positions is that of the trained encoder
            raise InvalidCombination(
                "model.encoder.position.longest",
                "data.context",
                why=f"a text of {self.data.context} tokens exceeds {position.longest} learned positions",
                help=f"--set data.context={position.longest}" if starts
                else f"--set model.position.longest={self.data.context}",
            )  # fmt: skip
        if self.train.batch_tokens < self.data.context:
            raise InvalidCombination(
                "train.batch_tokens",
                "data.context",
                why=f"a text of {self.data.context:,} tokens does not fit a batch of {self.train.batch_tokens:,}",
                help=f"--set train.batch_tokens={self.data.context}, or a smaller data.context",
            )
        return self

"""The config of a masked model: texts, what is masked of them, an encoder, and how gaps are filled. No torch."""

from __future__ import annotations

from collections.abc import Mapping
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
from regard.models.position_config import LearnedConfig
from regard.runs.run_config import DataSection, RunConfig

if TYPE_CHECKING:
    GapFields = GapSettings
else:
    GapFields = config_model(GapSettings)

CONTEXT = 256


class MaskedDataConfig(DataSection):
    """Texts, what a text is, and how they become token numbers."""

    train: tuple[TextConfig, ...]  # none where a model came without its data
    valid: tuple[TextConfig, ...] | None = None
    tokenizer: TokenizerConfig = Field(TokenizerConfig(kind="word"), description="any kind but `listed`")
    context: int = Field(
        CONTEXT,
        ge=4,
        le=1 << 20,
        description="tokens that are read at once at most; a longer text is in several pieces",
    )
    documents: Literal["file", "line", "blank-line", "separator", "json-line"] = Field(
        "line", description="a text: a line, a file, a JSON line, or what stands between `blank-line` or `separator`"
    )
    separator: str | None = Field(None, min_length=1, description="the line between texts, for `separator`")
    processes: int | None = Field(
        None, ge=1, le=1024, description="that tokenize; unset: as many as cores for a large text, else 1"
    )

    @property
    def cut(self) -> Cut:
        """The way files are cut into texts."""
        return Cut(self.documents, self.separator, completions=False)

    @model_validator(mode="after")
    def _can_be_read(self) -> Self:
        if (self.documents == "separator") != (self.separator is not None):
            raise InvalidCombination(
                "data.separator",
                "data.documents",
                why="a separator is the line between texts where data.documents is separator, and only there",
                help="--set data.documents=separator --set data.separator='<|endoftext|>'",
            )
        if self.tokenizer.kind == "listed":
            raise InvalidCombination(
                "data.tokenizer",
                why="a listed vocabulary comes with an imported model of translation",
                help="--set data.tokenizer.kind=word",
            )
        return self


class FillConfig(GapFields):
    """Settings of filling gaps, unless a command says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MaskedConfig(RunConfig):
    """Everything that decides a masked model's run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = ("perplexity", "accuracy")
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("context",)

    data: MaskedDataConfig
    masking: MaskingConfig = MaskingConfig()
    model: MaskedModelConfig = MaskedModelConfig()
    fill: FillConfig = FillConfig()

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

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types"}:
            raise ValueError("it should have the size of one vocabulary, types")

    @model_validator(mode="before")
    @classmethod
    def _own_habits(cls, given: Any) -> Any:
        """Label smoothing, a habit of translation, only where it is asked for; a learned table is as long as a text."""
        if not isinstance(given, dict):
            return given
        found = dict(given)
        if isinstance(given.get("train", {}), dict):
            found["train"] = {"label_smoothing": 0.0} | given.get("train", {})
        model, data = given.get("model"), given.get("data")
        if isinstance(model, dict) and isinstance(data, dict):
            found["model"] = {"longest": data.get("context", CONTEXT)} | model
        return found

    @model_validator(mode="after")
    def _texts_fit(self) -> Self:
        position = getattr(self.model.encoder, "position", None)
        if isinstance(position, LearnedConfig) and position.longest < self.data.context:
            raise InvalidCombination(
                "model.encoder.position.longest",
                "data.context",
                why=f"a text of {self.data.context} tokens needs as many learned positions",
                help=f"--set model.position.longest={self.data.context}",
            )
        if self.train.batch_tokens < self.data.context:
            raise InvalidCombination(
                "train.batch_tokens",
                "data.context",
                why=f"a batch of {self.train.batch_tokens:,} tokens holds no text of {self.data.context:,}",
                help=f"--set train.batch_tokens={self.data.context}, or a smaller data.context",
            )
        return self

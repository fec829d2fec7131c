"""The config of a next-item model: sessions, a causal network, prediction settings. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.config.prediction_settings import RankingSettings
from regard.config.setting_models import config_model
from regard.core.wording import pluralize
from regard.data.sessions import SessionColumns
from regard.data.shared_files import FilesConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.causal_config import CausalModelConfig
from regard.models.position_config import LearnedConfig
from regard.models.wide_config import require_baseline
from regard.runs.run_config import Confidence, DataSection, Proposal, UnsmoothedRunConfig

if TYPE_CHECKING:
    RankingFields = RankingSettings
else:
    RankingFields = config_model(RankingSettings)

CONTEXT = 50
Column = Annotated[int, Field(ge=1, le=1 << 20)] | Annotated[str, Field(min_length=1)]


class SessionDataConfig(DataSection):
    """Files of sessions, their columns, and the vocabulary of items."""

    train: tuple[FilesConfig, ...]  # empty for an imported model without data
    valid: tuple[FilesConfig, ...] | None = None
    items: str = Field("items", min_length=1, description="column or key of the item list of a row")
    session: Column | None = Field(
        None,
        description="column of the session, if a row is one item: a number from 1 or a name; unset: column 1 of a TSV, "
        "or a common name such as `user_id`",
    )
    item: Column | None = Field(
        None,
        description="column of the item, if a row is one item; unset: column 2 of a TSV, or a name such as `item_id`",
    )
    time: Column | None = Field(
        None,
        description="column of the time by which the items of a session are sorted: numbers, or dates in ISO 8601; "
        "unset: row order",
    )
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="word"),
        description="`word`: an item is a piece; `size` keeps only the most frequent items",
    )
    context: int = Field(CONTEXT, ge=1, le=1 << 20, description="maximum number of items before the predicted one")

    @property
    def max_length(self) -> int:
        """Maximum number of items that the network reads."""
        return self.context

    @property
    def columns(self) -> SessionColumns:
        """Columns of the files."""
        return SessionColumns(self.items, self.session, self.item, self.time)

    @model_validator(mode="before")
    @classmethod
    def _default_kind(cls, value: Any) -> Any:
        """Set the tokenizer's type to ``word`` if the config sets only other keys of it."""
        own = value.get("tokenizer") if isinstance(value, dict) else None
        return value | {"tokenizer": {"kind": "word"} | own} if isinstance(own, dict) else value

    @model_validator(mode="after")
    def _an_item_is_a_piece(self) -> Self:
        if self.tokenizer.kind != "word":
            raise InvalidCombination(
                "data.tokenizer.kind", why="each item must be one piece",
                help="--set data.tokenizer.kind=word",
            )  # fmt: skip
        return self


class RecommendConfig(RankingFields):
    """Default settings of predictions."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class NextItemConfig(UnsmoothedRunConfig):
    """Config of a next-item run. Frozen; the saved file has a value for every key."""

    metric_names: ClassVar[tuple[str, ...]] = ("hit_rate_10", "ndcg_10")
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("context",)

    data: SessionDataConfig
    model: CausalModelConfig = CausalModelConfig()
    recommend: RecommendConfig = RecommendConfig()

    @property
    def wide(self) -> bool:
        return self.model.wide

    @property
    def width(self) -> int:
        return self.model.decoder.width

    @property
    def layers(self) -> int:
        return self.model.decoder.layers

    @property
    def summary(self) -> str:
        stack = self.model.decoder
        return (
            f"next items, {pluralize(stack.layers, 'layer')}, width {stack.width}, {pluralize(stack.heads, 'head')}, "
            f"mixer {stack.mixer.kind}, context {self.data.context}, dropout {stack.dropout}"
        )

    @model_validator(mode="after")
    def _check_wide(self) -> Self:
        require_baseline(self.wide, self.train.baseline)
        if self.wide and self.model.share != "none":
            raise InvalidCombination(
                "model.wide",
                "model.share",
                why="the outputs of the network start at zero, and an embedding must not",
                help="--set model.share=none",
            )
        return self

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types"}:
            raise ValueError("expected the key `types` (size of the vocabulary)")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
        from regard.tasks.next_item.automatic_config import confidence

        return confidence(files, valid, overrides)

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for rows with a list of items, or with a session and an item."""
        from regard.tasks.next_item.automatic_config import choose

        return choose(files, valid, overrides)

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        position = self.model.decoder.position
        if isinstance(position, LearnedConfig) and position.longest < self.data.context:
            raise InvalidCombination(
                "model.decoder.position.longest", "data.context",
                why=f"{self.data.context} items need {self.data.context} learned positions",
                help=f"--set model.position.longest={self.data.context}",
            )  # fmt: skip
        return self

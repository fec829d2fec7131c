"""The config of a model of next items: sessions, a causal stack, what is recommended. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.config.explain import Misfit
from regard.core.wording import counted
from regard.models.causal_config import CausalModelConfig
from regard.models.position_config import LearnedConfig
from regard.runs.run_config import Confidence, Proposal, UnsmoothedRunConfig
from regard.tasks.next_item.data_config import SessionDataConfig

__all__ = ["NextItemConfig", "RecommendConfig", "SessionDataConfig"]


class RecommendConfig(BaseModel):
    """Settings of recommending, unless a command says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    top_k: int = Field(10, ge=1, le=1000, description="items that are recommended")
    new: bool = Field(False, description="only items that the session has not had")


class NextItemConfig(UnsmoothedRunConfig):
    """Everything that decides a run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = ("hit_rate_10", "ndcg_10")
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("context",)

    data: SessionDataConfig
    model: CausalModelConfig = CausalModelConfig()
    recommend: RecommendConfig = RecommendConfig()

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
            f"next items, {counted(stack.layers, 'layer')}, width {stack.width}, {counted(stack.heads, 'head')}, "
            f"mixer {stack.mixer.kind}, context {self.data.context}, dropout {stack.dropout}"
        )

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types"}:
            raise ValueError("it should have the size of one vocabulary, types")

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
        from regard.tasks.next_item.automatic_config import confidence

        return confidence(files, valid, given)

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For one file of JSON lines with a list of items each."""
        from regard.tasks.next_item.automatic_config import choose

        return choose(files, valid, given)

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        position = self.model.decoder.position
        if isinstance(position, LearnedConfig) and position.longest < self.data.context:
            raise Misfit(
                "model.decoder.position.longest", "data.context",
                why=f"{self.data.context} items need as many learned positions",
                help=f"--set model.position.longest={self.data.context}",
            )  # fmt: skip
        return self

"""The config of a tagger: tokens with tags, and an encoder. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from regard.core.wording import counted
from regard.models.tagger_config import TaggerModelConfig
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.encoder_run_config import EncoderRunConfig
from regard.tasks.tagging.data_config import TaggedDataConfig

__all__ = ["TaggedDataConfig", "TaggingConfig"]


class TaggingConfig(EncoderRunConfig):
    """Everything that decides a tagger's run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = ("accuracy", "macro_f1", "calibration_error", "entity_f1")

    data: TaggedDataConfig
    model: TaggerModelConfig = TaggerModelConfig()

    @property
    def longest(self) -> int:
        return self.data.max_length + 2

    @property
    def summary(self) -> str:
        side, affixes = (
            self.model.encoder,
            f", {counted(self.model.affixes, 'affix', 'affixes')}" if self.model.affixes else "",
        )
        sizes = f"{counted(side.depth, 'layer')}, width {side.width}{affixes}"
        return f"tagger, {side.kind} encoder, {sizes}, dropout {side.dropout}"

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Confidence:
        from regard.tasks.tagging.automatic_config import confidence

        return confidence(files, valid, given)

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For one file of tagged sentences: a .conllu, a .tsv with blank lines, a .jsonl of tokens and tags."""
        from regard.tasks.tagging.automatic_config import choose

        return choose(files, valid, given)

"""The config of a classifier: labelled texts, an encoder and a pooling. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from regard.config.explain import Misfit
from regard.data.shared_files import FilesConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.classifier_config import ClassifierModelConfig
from regard.runs.config import DataSection, Proposal
from regard.tasks.encoder_run_config import EncoderRunConfig

__all__ = ["ClassificationConfig", "LabelledDataConfig"]

# The figures that may choose a checkpoint, of each kind of label.
METRICS = {
    "class": ("accuracy", "macro_f1", "calibration_error"),
    "several": ("micro_f1", "exact_match"),
    "number": ("rmse", "mae", "pearson"),
}
Column = Annotated[int, Field(ge=1)] | Annotated[str, Field(min_length=1)]


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, str | int) else given


class LabelledDataConfig(DataSection):
    """Labelled texts, and how they become token numbers and classes."""

    train: tuple[FilesConfig, ...]  # none where a model came without its data
    valid: tuple[FilesConfig, ...] | None = None
    text: Annotated[tuple[Column, ...], BeforeValidator(_as_list)] = Field(
        (1,),
        min_length=1,
        max_length=8,
        description="columns that are read one after the other, two for pairs: numbers from 1, or names of the first "
        "line; keys of JSON lines",
    )
    label: Column = Field(2, description="column or key of the label")
    label_kind: Literal["class", "several", "number"] = Field(
        "class", description="what is told of a text: one of the labels, any of them, or a number"
    )
    label_separator: str = Field(
        ",", min_length=1, description="what stands between the labels of a text where there are several"
    )
    tokenizer: TokenizerConfig = Field(TokenizerConfig(kind="word"), description="of all text columns")
    max_length: int = Field(256, ge=1, description="pieces of a text column; longer ones are cut, and counted")
    reverse_complement: bool = Field(
        False, description="of DNA: training reads the other strand of every second text, drawn anew each epoch"
    )
    hidden_tokens: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the pieces that training shows as unknown, without affixes, drawn anew each epoch: "
        "what is told must not hang on a single word",
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="each example counts the same, or each class: by examples / (classes · its examples)"
    )

    @model_validator(mode="after")
    def _columns_are_alike(self) -> Self:
        columns = (*self.text, self.label)
        if len({type(column) for column in columns}) > 1:
            raise Misfit(
                "data.label",
                "data.text",
                why="columns are all numbers, or all names of the first line",
                help="--set data.text=1 --set data.label=2",
            )
        if self.label_kind != "class" and self.class_weights != "none":
            why = f"a {self.label_kind} is told, and only classes have weights"
            raise Misfit("data.class_weights", "data.label_kind", why=why, help="--set data.class_weights=none")
        if self.label in self.text:
            raise Misfit("data.label", "data.text", why="the label's column is no text", help="--set data.label=2")
        return self


class ClassificationConfig(EncoderRunConfig):
    """Everything that decides a classifier's run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = tuple(name for names in METRICS.values() for name in names)

    data: LabelledDataConfig
    model: ClassifierModelConfig = ClassifierModelConfig()

    @property
    def longest(self) -> int:
        return (self.data.max_length + 1) * len(self.data.text) + 1

    @property
    def summary(self) -> str:
        side, affixes = self.model.encoder, f"{self.model.affixes:,} affixes, " if self.model.affixes else ""
        return (
            f"classifier, {side.kind} encoder, {side.depth} layers, width {side.width}, {affixes}pooling "
            f"{self.model.pooling}, dropout {side.dropout}"
        )

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For one .tsv of two columns, the second of which is a label."""
        from regard.tasks.classification.automatic_config import choose

        return choose(files, valid, given)

    @model_validator(mode="after")
    def _pairs_are_two(self) -> Self:
        if self.model.pairs == "apart" and len(self.data.text) != 2:
            why = f"two texts are compared, and data.text names {len(self.data.text)}"
            raise Misfit("model.pairs", "data.text", why=why, help="--set model.pairs=together")
        return self

    @model_validator(mode="after")
    def _best_by_fits_the_labels(self) -> Self:
        by, kind = self.train.best_by, self.data.label_kind
        if by != "loss" and by not in METRICS[kind]:
            raise Misfit(
                "train.best_by", "data.label_kind", why=f"{by} is not measured of a {kind}",
                help=f"--set train.best_by={METRICS[kind][0]}",
            )  # fmt: skip
        return self

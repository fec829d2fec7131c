"""The config of a classifier: labelled texts, an encoder and a pooling. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from regard.config.explain import Misfit
from regard.data.file_names import FileNames, spelled
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.models.classifier_config import ClassifierModelConfig
from regard.models.position_config import LearnedConfig
from regard.runs.config import DataSection, Proposal, RunConfig

__all__ = ["ClassificationConfig", "LabelledConfig", "LabelledDataConfig"]

# The figures that may choose a checkpoint, of each kind of label.
METRICS = {
    "class": ("accuracy", "macro_f1", "calibration_error"),
    "several": ("micro_f1", "exact_match"),
    "number": ("rmse", "mae", "pearson"),
}
Column = Annotated[int, Field(ge=1)] | Annotated[str, Field(min_length=1)]


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, str | int) else given


class LabelledConfig(BaseModel):
    """Files of labelled texts, .tsv or .jsonl, plain or ``.gz``; their columns stand in the section ``data``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: FileNames = Field(description="a .tsv or .jsonl; also a list, or a pattern such as `part-*.tsv`")
    share: tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=0, le=1)]] = Field(
        (0.0, 1.0), description="the part of the examples, by a hash of their text: [0.0, 0.9] and [0.9, 1.0] split it"
    )

    @property
    def name(self) -> str:
        """The name of the first file."""
        return spelled(self.source)

    @model_validator(mode="after")
    def _share_is_a_part(self) -> Self:
        if self.share[0] >= self.share[1]:
            raise ValueError("a share goes from a smaller to a larger number")
        return self


class LabelledDataConfig(DataSection):
    """Labelled texts, and how they become token numbers and classes."""

    train: tuple[LabelledConfig, ...]  # none where a model came without its data
    valid: tuple[LabelledConfig, ...] | None = None
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


class ClassificationConfig(RunConfig):
    """Everything that decides a classifier's run. Frozen; every key has its value in the saved file."""

    metric_names: ClassVar[tuple[str, ...]] = tuple(name for names in METRICS.values() for name in names)
    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer",)
    inherited_keys: ClassVar[tuple[str, ...]] = ("max_length",)

    data: LabelledDataConfig
    model: ClassifierModelConfig = ClassifierModelConfig()

    @property
    def width(self) -> int:
        return self.model.encoder.width

    @property
    def layers(self) -> int:
        return self.model.encoder.depth

    @property
    def summary(self) -> str:
        side = self.model.encoder
        return (
            f"classifier, {side.kind} encoder, {side.depth} layers, width {side.width}, pooling {self.model.pooling}, "
            f"dropout {side.dropout}"
        )

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        if spec.keys() != {"types", "classes"}:
            raise ValueError("it should have the size of one vocabulary, types, and the number of classes")

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], given: Mapping[str, Any]) -> Proposal | None:
        """For one .tsv of two columns, the second of which is a label."""
        from regard.tasks.classification.automatic_config import choose

        return choose(files, valid, given)

    @model_validator(mode="before")
    @classmethod
    def _smooths_nothing(cls, given: Any) -> Any:
        """Label smoothing, a habit of translation, only where it is asked for."""
        if not isinstance(given, dict) or not isinstance(given.get("train", {}), dict):
            return given
        return given | {"train": {"label_smoothing": 0.0} | given.get("train", {})}

    @model_validator(mode="after")
    def _best_by_fits_the_labels(self) -> Self:
        by, kind = self.train.best_by, self.data.label_kind
        if by != "loss" and by not in METRICS[kind]:
            raise Misfit(
                "train.best_by", "data.label_kind", why=f"{by} is not measured of a {kind}",
                help=f"--set train.best_by={METRICS[kind][0]}",
            )  # fmt: skip
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Self:
        encoder, needed = self.model.encoder, (self.data.max_length + 1) * len(self.data.text) + 1
        position = None if encoder.kind == "recurrent" else encoder.position
        if isinstance(position, LearnedConfig) and position.longest < needed:
            raise Misfit(
                "model.encoder.position.longest",
                "data.max_length",
                why=f"{self.data.max_length} pieces a text and the symbols around them need {needed} learned positions",
                help=f"--set model.position.longest={needed}, or lower data.max_length",
            )
        return self

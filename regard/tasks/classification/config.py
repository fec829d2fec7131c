"""The config of a classifier: labeled texts, an encoder and a pooling. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from regard.config.explain import InvalidCombination
from regard.core.wording import pluralize
from regard.errors import ConfigError
from regard.models.classifier_config import ClassifierModelConfig
from regard.models.input_config import InputOptions
from regard.runs.run_config import Confidence, Proposal
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.inputs import INPUTS, input_of
from regard.tasks.encoder_run_config import EncoderRunConfig

# The metrics that ``train.best_by`` may name, by type of label.
METRICS = {
    "class": ("accuracy", "macro_f1", "calibration_error"),
    "several": ("micro_f1", "exact_match"),
    "number": ("rmse", "mae", "pearson"),
}


class ClassificationConfig(EncoderRunConfig):
    """Config of a classifier's run. Frozen; the saved file has a value for every key."""

    codec_keys: ClassVar[tuple[str, ...]] = ("tokenizer", "input")
    inherited_keys: ClassVar[tuple[str, ...]] = ("max_length", "long_texts", "max_windows", "sound", "image")
    metric_names: ClassVar[tuple[str, ...]] = tuple(name for names in METRICS.values() for name in names)

    data: LabeledDataConfig
    model: ClassifierModelConfig = ClassifierModelConfig()

    @property
    def loss_unit(self) -> str:
        return "" if self.data.label_kind == "number" else "nats"

    @property
    def longest(self) -> int:
        if self.data.input != "text":
            return self.data.max_length
        between = (self.model.separators - 1) * (len(self.data.text) - 1)
        return (self.data.max_length + 1) * len(self.data.text) + 1 + between

    @classmethod
    def fitting_length(cls, positions: int, data: Mapping[str, Any]) -> int:
        text = data.get("text")
        texts = max(len(text), 1) if isinstance(text, list | tuple) else 1
        return (positions - texts) // texts - 1  # two end symbols between texts fit, too

    @property
    def summary(self) -> str:
        side, affixes = (
            self.model.encoder,
            f"{pluralize(self.model.affixes, 'affix', 'affixes')}, " if self.model.affixes else "",
        )
        windows = f", up to {self.data.windows} windows of {self.data.max_length} pieces" if self.data.window else ""
        return (
            f"classifier, {side.kind} encoder, {pluralize(side.depth, 'layer')}, width {side.width}, {affixes}pooling "
            f"{self.model.pooling}, dropout {side.dropout}{windows}"
        )

    @classmethod
    def confidence(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Confidence:
        from regard.tasks.classification.confidence import confidence

        return confidence(files, valid, overrides)

    @classmethod
    def propose(cls, files: Sequence[Path], valid: Sequence[Path], overrides: Mapping[str, Any]) -> Proposal | None:
        """Propose a config for a .tsv of texts and labels, for columns named as text and label, or for other inputs."""
        proposals = (input_of(name).propose(files, valid, overrides) for name in reversed(INPUTS))
        return next((proposal for proposal in proposals if proposal is not None), None)

    def check_sizes(self, spec: Mapping[str, int]) -> None:
        size = INPUTS[self.data.input].size
        if spec.keys() != {size, "classes"}:
            raise ValueError(f"expected the keys `{size}` (size of the input) and `classes` (number of classes)")

    @property
    def reads_frames(self) -> bool:
        return bool(self.data.input != "text")

    def encoded_length(self, length: int) -> int:
        # Patches of images are the positions of the data; those of frames are formed by the first layer.
        return length if self.data.input == "images" else super().encoded_length(length)

    @property
    def reads_files(self) -> bool:
        return INPUTS[self.data.input].files

    @property
    def reads_with(self) -> tuple[str, Any]:
        if self.data.input != "text":
            raise ConfigError(f"a model with the input {self.data.input} has no vocabulary", where="data.input")
        return super().reads_with

    @model_validator(mode="after")
    def _only_texts_have_parts_and_vocabularies(self) -> Self:
        takes_encoder = self.start is not None and self.start.part == "encoder"
        for key, value in (("model.affixes", self.model.affixes), ("model.encoder.from", takes_encoder)):
            if value and self.data.input != "text":
                why = f"it requires a vocabulary, which the input {self.data.input} does not have"
                raise InvalidCombination(key, "data.input", why=why, help=f"remove {key}")
        return self

    @model_validator(mode="after")
    def _images_have_patches_only(self) -> Self:
        options = self.model.encoder.input
        if self.data.input == "images" and (options.subsample > 1 or options.stride is not None):
            key = "model.encoder.input.subsample" if options.subsample > 1 else "model.encoder.input.stride"
            why = "an image is cut into patches that do not overlap (model.encoder.input.patch)"
            raise InvalidCombination(key, "data.input", why=why, help=f"remove {key}")
        return self

    @model_validator(mode="after")
    def _pairs_are_two(self) -> Self:
        if self.model.pairs == "apart" and len(self.data.text) != 2:
            why = f"exactly two texts can be compared, but data.text names {len(self.data.text)}"
            raise InvalidCombination("model.pairs", "data.text", why=why, help="--set model.pairs=together")
        if self.model.matches and len(self.data.text) != 2:
            why = f"words of two texts can match, but data.text names {len(self.data.text)}"
            raise InvalidCombination("model.matches", "data.text", why=why, help="--set model.matches=false")
        if self.model.matches and not self.model.affixes:
            why = "the vectors of matches are stored with those of affixes"
            raise InvalidCombination("model.matches", "model.affixes", why=why, help="--set model.affixes=20000")
        return self

    @model_validator(mode="after")
    def _windows_are_pooled(self) -> Self:
        if self.data.window is None:
            return self
        if len(self.data.text) > 1:
            why = f"windows divide a single text, but data.text names {len(self.data.text)}, which are read together"
            raise InvalidCombination("data.long_texts", "data.text", why=why, help="--set data.long_texts=cropped")
        if self.model.encoder.input != InputOptions():
            why = "the weights of a window are those of its frames, one for each"
            raise InvalidCombination(
                "data.long_texts", "model.encoder.input", why=why, help="--set data.long_texts=cropped"
            )
        if self.model.pooling in ("first", "last"):
            why = f"the {self.model.pooling} state is of one window and has not read the others"
            raise InvalidCombination(
                "data.long_texts", "model.pooling", why=why, help="--set model.pooling=attention, or mean"
            )
        return self

    @model_validator(mode="after")
    def _best_by_fits_the_labels(self) -> Self:
        by, kind = self.train.best_by, self.data.label_kind
        if by != "loss" and by not in METRICS[kind]:
            raise InvalidCombination(
                "train.best_by", "data.label_kind", why=f"{by} is not a metric for label_kind = {kind}",
                help=f"--set train.best_by={METRICS[kind][0]}",
            )  # fmt: skip
        return self

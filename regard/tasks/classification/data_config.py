"""The section ``data`` of a classifier: the columns of texts and labels. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.core.wording import listed
from regard.data.image_options import ImageOptions
from regard.data.shared_files import FilesConfig
from regard.data.sound_options import SoundOptions
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.runs.run_config import DataSection
from regard.tasks.classification.inputs import INPUTS

Column = Annotated[int, Field(ge=1, le=1 << 20)] | Annotated[str, Field(min_length=1)]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str | int) else value


# The keys that apply to some types of input only.
KEYS = {
    ("text",): ("text", "tokenizer", "long_texts", "max_windows", "reverse_complement", "hidden_tokens"),
    ("text", "audio", "images"): ("label",),
    ("audio",): ("sound",),
    ("images",): ("image",),
}


class LabeledDataConfig(DataSection):
    """Files of labeled texts, their columns, and how they become tokens and classes."""

    train: tuple[FilesConfig, ...]  # empty for an imported model without data
    valid: tuple[FilesConfig, ...] | None = None
    input: Literal[tuple(INPUTS)] = Field("text", description="type of an example")  # type: ignore[valid-type]
    text: Annotated[tuple[Column, ...], BeforeValidator(_as_list)] = Field(
        (1,),
        min_length=1,
        max_length=8,
        description="columns that are read as one sequence, two for pairs: numbers from 1, names of the header row, or "
        "keys of JSON lines",
    )
    label: Column | tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        2,
        description="column or key of the label; for several labels also a list of columns named as the labels (1 or "
        "true if the label applies; 0, false or empty if not)",
    )
    label_kind: Literal["class", "several", "number"] = Field(
        "class", description="prediction for a text: one label (class), any number of labels (several), or a number"
    )
    label_separator: str = Field(",", min_length=1, description="separator of the labels of a text, for several labels")
    tokenizer: TokenizerConfig = Field(TokenizerConfig(kind="word"), description="tokenizer of all text columns")
    max_length: int = Field(
        256,
        ge=1,
        le=1 << 20,
        description="maximum number of pieces of a text column, or of a window; see long_texts for longer texts",
    )
    long_texts: Literal["cropped", "windows"] = Field(
        "cropped",
        description="texts longer than max_length: `cropped` reads their first max_length pieces; `windows` reads "
        "consecutive windows of max_length pieces, encodes each separately, and pools the positions of all windows",
    )
    max_windows: int = Field(
        8, ge=2, le=1 << 12, description="maximum number of windows of a text; the rest of a longer text is truncated"
    )
    reverse_complement: bool = Field(
        False, description="for DNA: train on the reverse complement of a random half of the texts in each epoch"
    )
    hidden_tokens: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="word dropout: share of the pieces that are replaced by the unknown token, without affixes, drawn "
        "in each epoch",
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none",
        description="balanced: weight each example by examples / (classes · examples of its class), to give all "
        "classes equal weight",
    )

    sound: SoundOptions = Field(SoundOptions(), description="features of recordings, for the input audio")

    image: ImageOptions = Field(ImageOptions(), description="size and colors of images, for the input images")

    @property
    def labels(self) -> tuple[Column, ...]:
        """Columns of the labels."""
        if self.input != "text":
            return ("label",)
        return self.label if isinstance(self.label, tuple) else (self.label,)

    @property
    def windows(self) -> int:
        """Maximum number of windows of a text; 1: longer texts are truncated."""
        return self.max_windows if self.long_texts == "windows" else 1

    @property
    def window(self) -> int | None:
        """Number of positions of a window, including BEGIN and END; None: a text is one sequence."""
        return self.max_length + 2 if self.windows > 1 else None

    @property
    def by_default(self) -> bool:
        """True if the columns are the default ones."""
        return (*self.text, *self.labels) == (1, 2)

    @model_validator(mode="after")
    def _keys_are_of_the_input(self) -> Self:
        fields = type(self).model_fields
        for inputs, keys in KEYS.items():
            changed = [key for key in keys if getattr(self, key) != fields[key].get_default()]
            if self.input not in inputs and changed:
                why = f"it applies to the input {listed(inputs)}, and the input is {self.input}"
                raise InvalidCombination(f"data.{changed[0]}", "data.input", why=why, help=f"remove data.{changed[0]}")
        return self

    @model_validator(mode="after")
    def _several_columns_are_several_labels(self) -> Self:
        if isinstance(self.label, tuple) and (
            self.label_kind != "several" or len({*self.label}) < max(len(self.label), 2)
        ):
            raise InvalidCombination(
                "data.label",
                "data.label_kind",
                why="a list of label columns requires label_kind = several and at least two different columns",
                help="--set data.label_kind=several, or name one column",
            )
        return self

    @model_validator(mode="after")
    def _columns_are_alike(self) -> Self:
        columns = (*self.text, *self.labels) if self.input == "text" else ()
        if len({type(column) for column in columns}) > 1:
            raise InvalidCombination(
                "data.label",
                "data.text",
                why="columns must be either all numbers or all names of the header row",
                help="--set data.text=1 --set data.label=2",
            )
        if self.label_kind != "class" and self.class_weights != "none":
            why = f'`class_weights` requires label_kind = "class", not "{self.label_kind}"'
            raise InvalidCombination(
                "data.class_weights", "data.label_kind", why=why, help="--set data.class_weights=none"
            )
        if {*self.labels} & {*self.text}:
            raise InvalidCombination(
                "data.label", "data.text", why="a column cannot be both text and label", help="--set data.label=2"
            )
        return self

"""The config of labeled texts: which columns are read, and as what. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from regard.config.explain import InvalidCombination
from regard.data.shared_files import FilesConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.runs.run_config import DataSection
from regard.tasks.classification.inputs import INPUTS

Column = Annotated[int, Field(ge=1, le=1 << 20)] | Annotated[str, Field(min_length=1)]


def _as_list(given: Any) -> Any:
    return [given] if isinstance(given, str | int) else given


TEXT_KEYS = ("text", "label", "tokenizer", "reverse_complement", "hidden_tokens")


class LabeledDataConfig(DataSection):
    """Labeled texts, and how they become token numbers and classes."""

    train: tuple[FilesConfig, ...]  # none where a model came without its data
    valid: tuple[FilesConfig, ...] | None = None
    input: Literal[tuple(INPUTS)] = Field("text", description="what an example is")  # type: ignore[valid-type]
    text: Annotated[tuple[Column, ...], BeforeValidator(_as_list)] = Field(
        (1,),
        min_length=1,
        max_length=8,
        description="columns that are read one after the other, two for pairs: numbers from 1, or names of the first "
        "line; keys of JSON lines",
    )
    label: Column | tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        2,
        description="column or key of the label; of several labels also a list of columns, each named as its label, "
        "with 1 or true where it is told and 0, false or nothing where not",
    )
    label_kind: Literal["class", "several", "number"] = Field(
        "class", description="what is told of a text: one of the labels, any of them, or a number"
    )
    label_separator: str = Field(
        ",", min_length=1, description="what stands between the labels of a text where there are several"
    )
    tokenizer: TokenizerConfig = Field(TokenizerConfig(kind="word"), description="of all text columns")
    max_length: int = Field(
        256, ge=1, le=1 << 20, description="pieces of a text column; longer ones are cut, and counted"
    )
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

    @property
    def labels(self) -> tuple[Column, ...]:
        """The columns that labels are read from."""
        if self.input != "text":
            return ("label",)
        return self.label if isinstance(self.label, tuple) else (self.label,)

    @property
    def by_default(self) -> bool:
        """Return whether nothing was said of columns."""
        return (*self.text, *self.labels) == (1, 2)

    @model_validator(mode="after")
    def _keys_are_of_the_input(self) -> Self:
        fields = type(self).model_fields
        changed = [key for key in TEXT_KEYS if getattr(self, key) != fields[key].get_default()]
        if self.input != "text" and changed:
            key = f"data.{changed[0]}"
            raise InvalidCombination(
                key, "data.input", why=f"it is a key of texts, and {self.input} have none", help="leave it out"
            )
        return self

    @model_validator(mode="after")
    def _several_columns_are_several_labels(self) -> Self:
        if isinstance(self.label, tuple) and (
            self.label_kind != "several" or len({*self.label}) < max(len(self.label), 2)
        ):
            raise InvalidCombination(
                "data.label",
                "data.label_kind",
                why="columns of labels are two or more different ones, of which each row may tell several",
                help="--set data.label_kind=several, or the name of one column",
            )
        return self

    @model_validator(mode="after")
    def _columns_are_alike(self) -> Self:
        columns = (*self.text, *self.labels) if self.input == "text" else ()
        if len({type(column) for column in columns}) > 1:
            raise InvalidCombination(
                "data.label",
                "data.text",
                why="columns are all numbers, or all names of the first line",
                help="--set data.text=1 --set data.label=2",
            )
        if self.label_kind != "class" and self.class_weights != "none":
            why = f"a {self.label_kind} is told, and only classes have weights"
            raise InvalidCombination(
                "data.class_weights", "data.label_kind", why=why, help="--set data.class_weights=none"
            )
        if {*self.labels} & {*self.text}:
            raise InvalidCombination(
                "data.label", "data.text", why="the label's column is no text", help="--set data.label=2"
            )
        return self

"""The config of sessions of items, and how they become numbers. Imports no torch."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from regard.config.explain import Misfit
from regard.data.shared_files import FilesConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.runs.run_config import DataSection

__all__ = ["SessionDataConfig"]

CONTEXT = 50
Column = Annotated[int, Field(ge=1, le=1 << 20)] | Annotated[str, Field(min_length=1)]


class SessionDataConfig(DataSection):
    """Sessions, and how their items become numbers."""

    train: tuple[FilesConfig, ...]  # none where a model came without its data
    valid: tuple[FilesConfig, ...] | None = None
    items: str = Field("items", min_length=1, description="column or key of the list of items of a row")
    session: Column | None = Field(
        None,
        description="column of the session, where a row is one item: a number from 1, or a name; unset: 1 in a TSV, "
        "or a well-known name such as `user_id`",
    )
    item: Column | None = Field(
        None, description="column of the item, where a row is one item; unset: 2 in a TSV, or a name such as `item_id`"
    )
    time: Column | None = Field(
        None,
        description="column of the time by which the items of a session are sorted: numbers, or dates in ISO 8601; "
        "unset: items are in the order of the rows",
    )
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="word"), description="`word`: an item is a piece; with `size`, only the most frequent are"
    )
    context: int = Field(CONTEXT, ge=1, le=1 << 20, description="items before the one that is predicted, at most")

    @model_validator(mode="before")
    @classmethod
    def _items_unless_told(cls, given: Any) -> Any:
        """A tokenizer of which only the size is given is of words."""
        own = given.get("tokenizer") if isinstance(given, dict) else None
        return given | {"tokenizer": {"kind": "word"} | own} if isinstance(own, dict) else given

    @model_validator(mode="after")
    def _an_item_is_a_piece(self) -> Self:
        if self.tokenizer.kind != "word":
            raise Misfit(
                "data.tokenizer.kind", why="an item is one piece, whatever its letters",
                help="--set data.tokenizer.kind=word",
            )  # fmt: skip
        return self

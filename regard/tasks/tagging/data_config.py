"""The config of tagged sentences: where words and tags stand, and how they are read. Imports no torch."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from regard.data.shared_files import FilesConfig
from regard.data.tokenizers.tokenizer import TokenizerConfig
from regard.runs.run_config import DataSection

__all__ = ["TaggedDataConfig"]

Column = Annotated[int, Field(ge=1, le=1 << 20)] | Annotated[str, Field(min_length=1)]


class TaggedDataConfig(DataSection):
    """Tagged sentences, and how their tokens become numbers."""

    train: tuple[FilesConfig, ...]  # none where a model came without its data
    valid: tuple[FilesConfig, ...] | None = None
    token: Column | None = Field(
        None, description="column of the token, from 1, or key of JSON lines; unset: 1, 2 in a .conllu, `tokens`"
    )
    tag: Column | None = Field(
        None, description="column of the tag, or key of JSON lines; unset: 2, 4 in a .conllu (UPOS), `tags`"
    )
    tokenizer: TokenizerConfig = Field(
        TokenizerConfig(kind="word"), description="of each token; of several pieces the first one's class is its tag"
    )
    max_length: int = Field(
        256, ge=1, le=1 << 20, description="pieces read at once; longer sentences are read in parts"
    )
    hidden_tokens: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of the tokens that training shows as unknown, drawn anew each epoch: what "
        "is told of unknown words is then learned, too",
    )

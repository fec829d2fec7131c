"""Files of examples, of which a part may be selected: by a column, or by a hash of the input."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.data.file_names import FileNames, summarize

Bound = Annotated[float, Field(ge=0, le=1)]
PartName = Literal["train", "valid", "test"]


class FilesConfig(BaseModel):
    """Files of examples, plain or ``.gz``; the section ``data`` describes their columns."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: FileNames = Field(description="a file, a list of files, or a pattern such as `part-*.tsv`")
    share: tuple[Bound, Bound] = Field(
        (0.0, 1.0),
        description="part of the examples, by a hash of their inputs: [0.0, 0.9] and [0.9, 1.0] split a file",
    )
    part: tuple[str, PartName] | None = Field(
        None,
        description="a column and the split to select: [`split`, `train`]; its cells are train, valid (val, "
        "validation, dev) or test",
    )

    @property
    def name(self) -> str:
        """The name of the first file."""
        return summarize(self.source)

    @model_validator(mode="after")
    def _share_is_a_part(self) -> FilesConfig:
        if self.share[0] >= self.share[1]:
            raise ValueError("a share must begin below its end")
        return self


def hash_position(text: str) -> float:
    """Return the position of a text in [0, 1) by its hash: equal for equal texts, in any file or order."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()) / 2**64


def falls_into(text: str, share: tuple[float, float]) -> bool:
    """Return whether the hash of a text is in this part of [0, 1)."""
    return share == (0.0, 1.0) or share[0] <= hash_position(text) < share[1]

"""``data/examples.json`` of a run: a few validation inputs for display, and the size of the validation data.

The file is next to the prepared data and is deleted with them, because inputs can be private.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from regard.core.codec_files import open_codec_file, save_codec_file
from regard.core.task import Data
from regard.core.untrusted_files import SMALL, FileVersion
from regard.errors import ModelError
from regard.runs.run_folder import RunFolder

NAME = "examples.json"
NUMBER = 3  # examples of a run
CANDIDATES = 64  # inputs that are examined
SHORT, LONGEST = 500, 100_000  # characters of an example: preferred and maximum


class RunExamples(NamedTuple):
    """Validation inputs as lines that ``Predictor.read`` accepts, and their total weight; None: unknown."""

    lines: tuple[str, ...] = ()
    validation: int | None = None


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    validation: Annotated[int, Field(ge=0, lt=10**15)]
    examples: Annotated[list[Annotated[str, Field(max_length=LONGEST)]], Field(max_length=NUMBER)]


def save_examples(run: RunFolder, data: Data) -> None:
    """Write examples of the validation data into a run, unless the run has examples or has no validation data."""
    path = run.data / NAME
    if data.valid is None or path.exists():
        return
    weight = int(data.valid.token_counts().sum())
    lines = choose_examples(run.task.examples(run.config, data))
    save_codec_file(path, _File(validation=weight, examples=lines).model_dump())


def choose_examples(lines: Iterable[str]) -> list[str]:
    """Return the first distinct short lines, otherwise the shortest long lines."""
    different = [line for line in dict.fromkeys(islice(lines, CANDIDATES)) if line.strip() and len(line) <= LONGEST]
    short = [line for line in different if len(line) <= SHORT]
    return (short or sorted(different, key=len))[:NUMBER]


def read_examples(run: RunFolder) -> RunExamples:
    """Return the examples of a run; none if they were deleted or damaged, or the run is older than this file."""
    return _read(FileVersion.of(run.data / NAME))


@lru_cache(maxsize=64)
def _read(file: FileVersion) -> RunExamples:
    try:
        saved = open_codec_file(file.path, _File.model_validate, limit=SMALL)
    except ModelError:
        return RunExamples()
    return RunExamples(tuple(saved.examples), saved.validation)

"""A run continues with the data that it began with, whatever its task."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any

import pytest

from regard.core.contents import PreparedParts
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.errors import DataError
from regard.testing import TaskCase


@pytest.mark.parametrize("kind", TASKS)
def test_no_task_continues_with_other_data(kind: str) -> None:
    case = TaskCase(find_task(kind), kind)
    run = case.run()

    def prepare(contents: dict[str, str] | None) -> dict[str, str]:
        shutil.rmtree(run.data, ignore_errors=True)
        files: Any = SimpleNamespace(
            path=run.path, data=run.data, tokenizers=run.tokenizers, config=run.config, contents=contents,
            makes_codecs=contents is None,
        )  # fmt: skip
        return case.task.prepare(files, lambda message: None, None).contents

    contents = prepare(None)
    assert contents and prepare(contents) == contents
    for part in contents:
        with pytest.raises(DataError, match="changed since this run started"):
            prepare(contents | {part: "0" * 64})


def test_a_part_is_reported_once_it_is_accepted() -> None:
    lines = list[str]()
    parts = PreparedParts({"train": "a"}, lines.append)
    parts.add("train", "a", "train: 1 text", what="texts", where="t.tsv")
    parts.add("valid", "b", "valid: 2 texts", what="texts", where="v.tsv")  # a part that the run did not have before
    assert parts.contents == {"train": "a", "valid": "b"} and lines == ["train: 1 text", "valid: 2 texts"]
    with pytest.raises(DataError, match="the texts changed") as refused:
        parts.add("train", "c", "train: 3 texts", what="texts", where="t.tsv")
    assert refused.value.where == "t.tsv" and refused.value.help and len(lines) == 2

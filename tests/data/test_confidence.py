"""The choice of a task: by the evidence in files, whatever the order of the tasks, and by nobody where it is equal."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from regard.core.task_table import TASKS
from regard.errors import ConfigError, RegardError
from regard.tasks import detect_files
from regard.tasks import find_config as module
from regard.tasks.find_config import find_config

from ..cli.file_forms import FORMS, training_files

SESSIONS_OF_REVIEWS = "user_id,item_id,review,rating\n" + "".join(
    f"u{n % 7},i{n % 5},a {word} film {n},{word}\n" for n in range(30) for word in ("good", "bad")
)


def chosen(files: list[Path]) -> str:
    try:
        return find_config([str(file) for file in files], [], ["train.steps=1"]).task.kind
    except RegardError as error:
        return str(error)


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "masked"])
def test_the_order_of_the_tasks_decides_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpora = [training_files(tmp_path / form, kind, form) for form in FORMS]
    before = [chosen(files) for files in corpora]
    assert kind in before
    monkeypatch.setattr(module, "TASKS", dict(reversed(TASKS.items())))
    assert [chosen(files) for files in corpora] == before


def test_files_of_two_tasks_are_refused_with_the_command_of_each(tmp_path: Path) -> None:
    path = tmp_path / "my reviews.csv"
    path.write_text(SESSIONS_OF_REVIEWS)
    with pytest.raises(ConfigError, match="fit several tasks: next-item, classification") as caught:
        find_config([str(path)], [], [])
    error = caught.value
    assert (
        error.where == str(path)
        and "user_id and item_id" in str(error.why)
        and "review (text) and rating" in str(error.why)
    )
    commands = [shlex.split(command) for command in str(error.help).removeprefix("choose one: ").split(", or ")]
    for command, kind in zip(commands, ("next-item", "classification"), strict=True):
        assert command[:3] == ["regard", "train", str(path)] and command[3:] == ["--task", kind]
        assert find_config(command[2:3], [], [f"task.kind={kind}"]).task.kind == kind


def test_evidence_reads_no_more_of_a_file_than_its_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of a column ``split`` are counted by a task that proposes a config, not by each that is asked."""
    counts: list[str] = []
    monkeypatch.setattr(detect_files, "_rows_by_part", lambda files, column: counts.append(column))
    path = tmp_path / "reviews.csv"
    path.write_text("text,label,split\n" + "a film,good,train\na play,bad,train\n" * 20)
    groups = module.tasks_by_confidence([path], [], {})
    assert groups[0] == ["classification"] and counts == []
    find_config([str(path)], [], [])
    assert counts == ["split"]


def test_more_evidence_counts_more_than_less(tmp_path: Path) -> None:
    """Names of columns before cells that may be labels, and those before any two columns."""
    rows = "".join(f"a {word} film {n}\t{word}\n" for n in range(30) for word in ("good", "bad"))
    for name, head, kind in (
        ("a.tsv", "", "classification"), ("b.tsv", "text\tlabel\n", "classification"),
        ("c.tsv", "source\ttarget\n", "translation"), ("d.tsv", "session\titem\n", "next-item"),
    ):  # fmt: skip
        (tmp_path / name).write_text(head + rows)
        assert find_config([str(tmp_path / name)], [], []).task.kind == kind, name

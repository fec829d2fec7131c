"""The ``--set`` hints of errors are executed: laid over the config that was refused, they make one that trains."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from regard.core.task import find_task
from regard.errors import ConfigError
from regard.runs.config import load_config
from regard.training.setup import require_trainable
from tests.test_shortcomings import regard, settings

# A task and the overrides that its sample is refused with. What the help names first is tried.
REFUSED = [
    ("translation", "train.average=20"),
    ("translation", "train.steps="),
    ("translation", "data.joint=false", "model.share=all"),
    ("translation", "model.copying=true", "data.joint=false", "model.share=target"),
    ("translation", "model.position=learned", "model.position.longest=4", "data.max_length=16"),
    ("translation", "train.workers=8", "train.shards=2"),
    ("language-model", "data.order=lanes"),
    ("language-model", "data.order=lanes", "data.stride=2", "model.mixer=segment-memory"),
    ("language-model", "data.stride=1000"),
    ("language-model", "data.documents=separator"),
    ("language-model", "train.best_by=nats_per_frame"),
    ("language-model", "model.position=learned", "model.position.longest=2"),
    ("language-model", "train.batch_tokens=2"),
    ("language-model", "model.mixer=ssru", "data.documents=file"),
    ("masked", "train.batch_tokens=2"),
    ("masked", "model.position=learned", "model.position.longest=2"),
    ("masked", "masking.mask=0.9", "masking.random=0.9"),
    ("classification", "data.label=1", "data.text=1"),
    ("classification", "data.label_kind=number", "data.class_weights=balanced"),
    ("classification", "model.encoder.frozen=all"),
    ("classification", "train.best_by=rmse"),
    ("classification", "model.pairs=apart"),
    ("classification", "model.position=learned", "model.position.longest=2"),
    ("tagging", "model.encoder.frozen=1"),
    ("graphs", "train.best_by=rmse"),
    ("nodes", "data.neighbors=[2, 2]"),
    ("nodes", "data.neighbors=[2]", "data.batch_nodes=4"),
    ("nodes", "data.batch_nodes=4", "model.sees=all"),
    ("next-item", "data.tokenizer.kind=bpe"),
    ("next-item", "model.position=learned", "model.position.longest=2"),
]


def refusal(tables: dict[str, Any], overrides: list[str]) -> ConfigError | None:
    try:
        require_trainable(load_config(tables, overrides))
    except ConfigError as error:
        return error
    return None


@pytest.mark.parametrize(("kind", "overrides"), [(kind, [*rest]) for kind, *rest in REFUSED])
def test_the_hint_of_a_refused_config_makes_one_that_trains(kind: str, overrides: list[str], tmp_path: Path) -> None:
    sample = find_task(kind).sample(tmp_path)
    tables = {"task": kind, **sample, "train": {"steps": 2, **sample.get("train", {})}}
    error = refusal(tables, overrides)
    assert error is not None, "no longer refused: take it out of the table"
    hints = re.findall(r"--set ('[^']*'|\S+?)(?=[,;]|\s|$)", (error.help or "").partition(" or ")[0])
    assert hints, f"the help names no key: {error.help}"
    again = refusal(tables, [*overrides, *(shlex.split(hint)[0] for hint in hints)])
    assert again is None, f"{error.help}\nleads to: {again}"


def test_the_hints_of_a_dropped_column_name_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways out: the columns of a classifier, or the task that reads the text alone."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"text number {n},{'ab'[n % 2]}{n},x\n" for n in range(60))
    (tmp_path / "t.csv").write_text(f"text,label,other\n{rows}")
    error = regard("train", "t.csv", *settings("train.steps=1")).exception
    help = str(getattr(error, "help", ""))
    assert "--task language-model" in help, help
    again = regard("train", "t.csv", "--task", "language-model", *settings("train.steps=1"))
    assert again.exit_code == 0, (again.output, again.exception)

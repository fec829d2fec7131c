"""The unit that a task states is what its batches weigh, and what progress and evaluation report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import regard
from regard.cli import build_app
from regard.commands.train import open_display
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.core.wording import pluralize_unit
from regard.runs.config import load_config
from regard.runs.parameter_counts import _part
from regard.runs.run_folder import RunFolder
from regard.runs.size_check import outline
from regard.training.start import train_run

# What ``Batch.weight`` counts, by task; a task that is added states its own.
UNITS = {
    "nodes": "nodes", "links": "pairs", "graphs": "graphs", "tagging": "words", "next-item": "items",
    "classification": "examples", "translation": "tokens", "language-model": "tokens", "masked": "tokens",
    "recognition": "tokens", "forecasting": "windows",
}  # fmt: skip


def sample(kind: str, folder: Path) -> dict[str, Any]:
    found = dict(find_task(kind).sample(folder))
    train = {"steps": 2, "precision": "float32", "threads": 1, "shards": 1, **found.get("train", {})}
    return {**found, "task": kind, "train": train}


@pytest.mark.parametrize("kind", TASKS)
def test_the_display_and_the_evaluation_of_a_task_use_its_unit(kind: str, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    tables = sample(kind, tmp_path)
    if kind == "nodes":  # evaluation measures the part test
        table = Path(tables["data"]["train"][0]["source"])
        table.write_text(table.read_text(encoding="utf-8").replace("n11,right,valid", "n11,right,test"))
    run = regard.train(tables, tmp_path / "run")
    display = open_display(run)
    assert train_run(RunFolder.open(run), lambda path: display) == 0
    assert display.unit == UNITS[kind]
    if kind != "translation":
        corpora = tables["data"]["train"]
        files = [each[key] for each in corpora for key in ("source", "edges") if key in each]
        result = CliRunner().invoke(build_app(), ["evaluate", str(run), *map(str, files)])
        assert result.exit_code == 0, (result.output, result.exception)
        words = result.stdout.splitlines()[-1].replace(",", "").split()
        assert {UNITS[kind], UNITS[kind][:-1]} & {*words} and (
            kind not in ("nodes", "links") or "example" not in words
        ), words
    torch.set_num_threads(threads)


@pytest.mark.parametrize("kind", TASKS)
def test_a_parameter_is_a_norm_exactly_where_its_name_has_one(kind: str, tmp_path: Path) -> None:
    """Projections and attention vectors of graph layers were counted as norms."""
    task, config = find_task(kind), load_config(sample(kind, tmp_path))
    names = outline(lambda: task.build(config, task.small_spec))
    parts = {name: _part(name) for name in names}
    assert {name for name, part in parts.items() if part.endswith("norms")} == {n for n in names if "norm" in n}
    assert not [name for name, part in parts.items() if part.endswith("other")]


def test_a_unit_agrees_with_its_number() -> None:
    assert [pluralize_unit(n, "nodes") for n in (0, 1, 2, 1000)] == ["0 nodes", "1 node", "2 nodes", "1,000 nodes"]
    assert pluralize_unit(1, "%") == "1 %"


def test_a_run_folder_names_its_unit(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", load_config(sample("classification", tmp_path)))
    assert run.task.unit == "examples"

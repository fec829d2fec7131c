"""``regard nodes``, ``inspect`` and ``evaluate`` of a classifier of nodes, and what is no run of one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard as package
from regard.errors import DataError
from regard.tasks.nodes.task import sample_graph


@pytest.fixture(scope="module")
def nodes_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graph")
    corpus = sample_graph(folder)
    train = {"epochs": 2, "threads": 1, "precision": "float32"}
    tables = {"task": "nodes", "data": {"train": [corpus], "valid": [corpus]}, "model": {"heads": 2}, "train": train}
    return package.train(tables, folder / "run")


def test_names_in_classes_out(regard, nodes_run: Path) -> None:
    told = regard("nodes", nodes_run, input="n0\nn11\n").stdout.splitlines()
    assert len(told) == 2 and set(told) <= {"left", "right"}
    found = [json.loads(line) for line in regard("nodes", nodes_run, "--json", input="n0\nn11\n").stdout.splitlines()]
    assert [each["node"] for each in found] == ["n0", "n11"] and [each["label"] for each in found] == told


def test_a_name_that_is_none(regard, nodes_run: Path) -> None:
    refused = regard("nodes", nodes_run, input="n0\nn12\n").exception
    assert isinstance(refused, DataError) and "no node 'n12'" in str(refused)


def test_evaluation_and_inspection(regard, nodes_run: Path) -> None:
    folder = nodes_run.parent
    refused = regard("evaluate", nodes_run, folder / "nodes.csv", folder / "edges.csv").exception
    assert isinstance(refused, DataError) and "no node of the part test" in refused.what
    assert "left" in regard("inspect", nodes_run, "n1", "--terminal").stdout

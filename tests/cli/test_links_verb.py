"""``regard links``: pairs, best links of one node, and the likeliest that are missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import regard as package
from regard.errors import ConfigError, DataError
from regard.tasks.links.task import TASK


@pytest.fixture(scope="module")
def links_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("links")
    tables = dict(TASK.sample(folder))
    return package.train(tables | {"task": "links", "train": {"epochs": 2, "threads": 1}}, folder / "run")


def test_pairs_and_nodes(regard, links_run: Path) -> None:
    told = regard("links", links_run, "--top-k", "3", input='n0 n6\n["n2"]\n').stdout.splitlines()
    assert 0 < float(told[0]) < 1 and len(told[1].split()) == 3
    found = regard("links", links_run, "--top-k", "3", "--json", input='n0 n6\n["n2"]\n').stdout.splitlines()
    pair, best = map(json.loads, found)
    assert (pair["source"], pair["target"]) == ("n0", "n6") and pair["probability"] == float(told[0])
    assert best["source"] == "n2" and [each["target"] for each in best["links"]] == told[1].split()


def test_what_is_missing(regard, links_run: Path, tmp_path: Path) -> None:
    told = [line.split("\t") for line in regard("links", links_run, "--missing", "4").stdout.splitlines()]
    found = [json.loads(line) for line in regard("links", links_run, "--missing", "4", "--json").stdout.splitlines()]
    assert [(each["source"], each["target"]) for each in found] == [(one, other) for one, other, _ in told]
    assert len(told) == 4 and [float(p) for *_, p in told] == sorted((float(p) for *_, p in told), reverse=True)
    for other in ([links_run.parent / "edges.csv"], ["--top-k", "2"], ["--set", "top_k=2"], ["-o", tmp_path / "out"]):
        refused = regard("links", links_run, *other, "--missing", "4").exception
        assert isinstance(refused, ConfigError) and "reads no names" in str(refused), other


def test_a_name_that_is_none_is_told_with_its_line(regard, links_run: Path) -> None:
    refused = regard("links", links_run, input="n0 n1\nn0 nobody\n").exception
    assert isinstance(refused, DataError) and refused.where == "standard input:2"


def test_one_node_is_looked_into(regard, links_run: Path) -> None:
    shown = regard("inspect", links_run, "n1", "--terminal").stdout
    best = package.load(links_run)(["n1"])[0].links[0]
    first, second = shown.splitlines()[:2]
    assert "n1" in first and second.split()[:3] == [best.target, f"{100 * best.probability:.1f}", "%"]

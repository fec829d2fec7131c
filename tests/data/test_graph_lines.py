"""Graphs a line: what is read, and what is refused with its reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.graph_lines import MAX_NODES, graph_of, parse_graph, read_graph_lines
from regard.data.shared_files import FilesConfig
from regard.errors import DataError


def test_a_line_in_each_spelling() -> None:
    own, row = parse_graph('{"edges": [[0, 1], [1, 2]], "features": [[1], [2], [0.5]], "label": 1}')
    other, _ = parse_graph('{"edge_index": [[0, 1], [1, 2]], "num_nodes": 3, "node_feat": [[1], [2], [0.5]], "y": [1]}')
    for found in (own, other):
        assert found.edges.tolist() == [[0, 1], [1, 2]] and found.features.tolist() == [[1], [2], [0.5]]
        assert (found.nodes, found.kinds, found.label) == (3, (), "1")
    assert row["label"] == 1 and own.digest() == other.digest() != graph_of({"edges": [[0, 1]]}).digest()


def test_nodes_are_counted_named_or_those_of_the_edges() -> None:
    assert graph_of({"edges": [[4, 1]]}).nodes == 5
    alone = graph_of({"edges": [[0, 1]], "nodes": 4})
    assert alone.nodes == 4 and alone.label is None
    assert graph_of({"edges": [[0, 1]], "nodes": ["C", 6]}).kinds == ("C", "6")
    assert graph_of({"edges": [], "nodes": 1}).edges.shape == (0, 2)


def test_labels_are_texts() -> None:
    found = [graph_of({"edges": [[0, 1]], "label": each}).label for each in (True, 3, 0.5, " a ", [2], "", None)]
    assert found == ["true", "3", "0.5", "a", "2", None, None]
    assert graph_of({"edges": [[0, 1]], "class": "x", "label": "y"}, key="class").label == "x"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"nodes": 3}, "no edges"),
        ({"edges": []}, "no node"),
        ({"edges": [], "nodes": 0}, "no node"),
        ({"edges": [], "nodes": -1}, "no node"),
        ({"edges": [], "nodes": MAX_NODES + 1}, "262,145 nodes"),
        ({"edges": [[0, 10**30]]}, "nodes"),
        ({"edges": [[0, 3]], "nodes": 3}, "edge 0 is [0, 3]; nodes are 0 to 2"),
        ({"edges": [[0, 1], [-1, 0]]}, "edge 1 is [-1, 0]"),
        ({"edges": [[0, 1, 2]]}, "edge 0 is [0, 1, 2]"),
        ({"edges": [[0, 1.0]]}, "must be a list of two nodes"),
        ({"edges": [[True, 1]]}, "must be a list of two nodes"),
        ({"edges": "0-1"}, "no edges"),
        ({"edge_index": [[0, 1], [1]]}, "2 and 1"),
        ({"edges": [[0, 1]], "nodes": ["C"]}, "edge 0 is [0, 1]"),
        ({"edges": [[0, 1]], "nodes": [["C"], ["O"]]}, "list of their labels"),
        ({"edges": [[0, 1]], "nodes": "2"}, "list of their labels"),
        ({"edges": [[0, 1]], "nodes": 3, "features": [[1], [2]]}, "3 nodes have 2 rows of features"),
        ({"edges": [[0, 1]], "features": [[1], [2, 3]]}, "node 1 has 2 features"),
        ({"edges": [[0, 1]], "features": [[1], [float("nan")]]}, "a feature of node 1"),
        ({"edges": [[0, 1]], "features": [[1], ["2"]]}, "a feature of node 1"),
        ({"edges": [[0, 1]], "features": [1, 2]}, "one list of numbers per node"),
        ({"edges": [[0, 1]], "label": {"a": 1}}, "neither a text nor a number"),
    ],
)
def test_what_is_no_graph(row: dict[str, Any], told: str) -> None:
    with pytest.raises(DataError) as caught:
        graph_of(row, where="a.jsonl:7")
    assert told in str(caught.value) and caught.value.where == "a.jsonl:7"


@pytest.mark.parametrize(("line", "told"), [("[", "not JSON"), ("[1]", "not a JSON object")])
def test_what_is_no_line(line: str, told: str) -> None:
    with pytest.raises(DataError, match=told):
        parse_graph(line)


def test_shares_of_a_file_go_by_what_a_graph_holds(tmp_path: Path) -> None:
    lines = [json.dumps({"edges": [[0, node]], "label": label}) for node in range(1, 41) for label in "ab"]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n\n")
    corpora = [FilesConfig(source=tmp_path / "a.jsonl", share=share) for share in ((0.0, 0.7), (0.7, 1.0))]
    parts = [{(each.nodes, each.label) for each in read_graph_lines([corpus], "label")} for corpus in corpora]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 80 and parts[1]
    assert {nodes for nodes, _ in parts[0]}.isdisjoint(nodes for nodes, _ in parts[1]), "equal graphs fall apart"

"""Graphs from files: what they hold, and what is wrong with them, by line."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from regard.data.graph_files import read_graph, save_graph
from regard.data.graphs import UNLABELED, edge_count, edge_pairs, normalized_rows
from regard.errors import DataError

NODES = "node,label,split,a,b\nx,one,train,1,0\ny,two,valid,0,2\nz,,,0.5,0\nalone,one,test,0,0\n"
EDGES = "source,target\nx,y\ny,x\nz,y\n"


def tables(folder: Path, nodes: str = NODES, edges: str = EDGES) -> tuple[Path, Path]:
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    return folder / "nodes.csv", folder / "edges.csv"


def test_tables_of_nodes_and_edges(tmp_path):
    graph = read_graph(*tables(tmp_path))
    assert graph.names == ("x", "y", "z", "alone") and graph.classes == ("one", "two")
    assert graph.labels.tolist() == [0, 1, UNLABELED, 0]
    assert graph.pairs.T.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2], [2, 1], [2, 2], [3, 3]]
    assert graph.entries.T.tolist() == [[0, 0], [1, 1], [2, 0]] and graph.values.tolist() == [1, 2, 0.5]
    assert {part: np.flatnonzero(mask).tolist() for part, mask in graph.parts.items()} == {
        "train": [0], "valid": [1], "test": [3],
    }  # fmt: skip
    assert graph.isolated.tolist() == [3] and "1 of them without an edge, 2 edges" in graph.describe()
    assert graph.neighbors(1).tolist() == [0, 1, 2]
    assert read_graph(*tables(tmp_path), directed=True).pairs.T.tolist()[-3:] == [[2, 1], [2, 2], [3, 3]]


def test_edges_are_counted_once_or_by_direction(tmp_path):
    """A ring of four and a mutual edge: five edges where directions do not count, and six where they do."""
    nodes, edges = tables(tmp_path, "node,a\nx,1\ny,1\nz,1\nw,1\n", "x,y\ny,z\nz,w\nw,x\nx,z\nz,x\n")
    plain, directed = (read_graph(nodes, edges, directed=each) for each in (False, True))
    assert (plain.mutual, directed.mutual) == (True, False)
    assert "5 edges" in plain.describe() and "6 edges" in directed.describe()
    assert [edge_count(graphs) for graphs in ([plain], [plain, directed], [])] == [5, 16, 0]


def test_weights_by_degree_with_a_pencil(tmp_path):
    """x has 2 edges with its own, y 3, z 2, and the lonely one its own."""
    graph = read_graph(*tables(tmp_path))
    expected = [1 / 2, 6**-0.5, 6**-0.5, 1 / 3, 6**-0.5, 6**-0.5, 1 / 2, 1]
    np.testing.assert_allclose(graph.degree, expected, rtol=1e-6)


def test_a_graph_saved_is_the_same_graph(tmp_path):
    graph = read_graph(*tables(tmp_path))
    save_graph(graph, tmp_path / "graph.npz")
    again = read_graph(tmp_path / "graph.npz", None, directed=True)
    assert again.digest() == graph.digest() and again.names == graph.names


def test_dense_and_sparse_features_are_one(tmp_path):
    x, edges = np.array([[1.0, 0], [0, 2], [0, 0]]), np.array([[0, 1]])
    np.savez(tmp_path / "dense.npz", x=x, edges=edges)
    sparse = dict(x_data=[1.0, 2.0], x_indices=[0, 1], x_indptr=[0, 1, 2, 2], x_shape=[3, 2])
    np.savez(tmp_path / "sparse.npz", edges=edges, **sparse)
    one, other = (read_graph(tmp_path / f"{name}.npz", None) for name in ("dense", "sparse"))
    assert one.digest() == other.digest() and (one.labels == UNLABELED).all()


def test_rows_of_size_one():
    entries = np.array([[0, 0, 2], [0, 1, 0]])
    values = normalized_rows(entries, np.array([3, -1, 5], np.float32), 3)
    np.testing.assert_allclose(values, [0.75, -0.25, 1])


def test_each_edge_stands_once():
    assert edge_pairs(np.array([[1, 0], [0, 1], [1, 1]]), 2).T.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert edge_pairs(np.zeros((0, 2), np.int64), 2).T.tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    "nodes, edges, where, what",
    [
        (NODES, "x,y\nx,w\n", "edges.csv:2", "'w', which is not a node"),
        (NODES, "x\n", "edges.csv:1", "two ends"),
        (NODES.replace("y,two,valid,0,2", "y,two,valid,0"), EDGES, "nodes.csv:3", "differ in length"),
        (NODES.replace("0.5", "much"), EDGES, "nodes.csv:4", "the feature a is 'much'"),
        (NODES.replace("0.5", "nan"), EDGES, "nodes.csv:4", "the feature a is 'nan'"),
        (NODES.replace("0.5", "1e39"), EDGES, "nodes.csv:4", "the feature a is '1e39'"),
        (NODES.replace("z,", "x,"), EDGES, "nodes.csv:4", "twice"),
        (NODES.replace("valid", "another"), EDGES, "nodes.csv:3", "unknown split"),
        (NODES.replace("node", "what"), EDGES, "nodes.csv:1", "no column of names"),
        ("node,label\nx,one\n", EDGES, "nodes.csv:1", "no features"),
        ("node,label,a\n", EDGES, "nodes.csv", "no rows"),
        (NODES.replace("0.5", "5" * 200_000), EDGES, "nodes.csv:4", "no cells|a is '5"),  # csv's limit may be raised
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_by_line(tmp_path, nodes, edges, where, what):
    with pytest.raises(DataError, match=what) as refused:
        read_graph(*tables(tmp_path, nodes, edges))
    assert len(str(refused.value)) < 1_000
    assert refused.value.where == str(tmp_path / where)


ARRAYS = dict(x=np.ones((3, 2)), edges=np.array([[0, 1]]), y=np.array([0, 1, -1]), train_mask=np.ones(3, np.bool_))


@pytest.mark.parametrize(
    "changed, what",
    [
        (dict(edges=np.array([[0, 3]])), "leads to a missing node"),
        (dict(edges=np.array([[-1, 0]])), "leads to a missing node"),
        (dict(edges=np.array([[0.0, 1.0]])), "edges has the wrong shape or type"),
        (dict(edges=np.array([[0, 1, 2]])), "edges must have shape"),
        (dict(y=np.array([0, 1])), "y must have one class per node"),
        (dict(y=np.array([0, 1, 10**6])), "too many classes"),
        (dict(x=np.full((3, 2), np.inf)), "not a finite number"),
        (dict(x=np.array([["a"]])), "x has the wrong shape or type"),
        (dict(train_mask=np.ones(2, np.bool_)), "train_mask must have one value per node"),
        (dict(x=None), "x_data is missing"),
        (dict(x=None, x_data=[1.0], x_indices=[2], x_indptr=[0, 1, 1, 1], x_shape=[3, 2]), "compressed sparse rows"),
        (dict(x=None, x_data=[1.0], x_indices=[0], x_indptr=[0, 1], x_shape=[3, 2]), "do not match"),
        (dict(x=None, x_data=[1.0], x_indices=[0], x_indptr=[0, 1, 1, 1], x_shape=[3, 1 << 31]), "do not match"),
        (dict(x=None, x_data=[1.0], x_indices=[0], x_indptr=[0, 1, 1, 1], x_shape=[3, 0]), "do not match"),
        (dict(names=np.array(["a", "a", "b"])), "distinct texts"),
        (dict(y=np.array([None, 1, 2], dtype=object)), "not a .npz of plain arrays"),
    ],
)  # fmt: skip
def test_arrays_are_checked(tmp_path, changed, what):
    np.savez(tmp_path / "graph.npz", **{name: each for name, each in {**ARRAYS, **changed}.items() if each is not None})
    with pytest.raises(DataError, match=what):
        read_graph(tmp_path / "graph.npz", None)


@pytest.mark.parametrize("shape", ["1000000000000,", "3, 100000000", "2,"])
def test_a_header_that_says_another_size_than_the_file_has_is_refused_before_memory_is_taken(tmp_path, shape):
    """Three numbers, and a header of so many; with two of them the third would be passed over in silence."""
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape})}}".ljust(117) + "\n"
    with zipfile.ZipFile(tmp_path / "graph.npz", "w") as packed:
        packed.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(24))
    with pytest.raises(DataError, match=r"not a \.npz of plain arrays") as refused:
        read_graph(tmp_path / "graph.npz", None)
    assert "x.npy" in str(refused.value.why)


def test_no_file_at_all(tmp_path):
    (tmp_path / "text.npz").write_text("words")
    with pytest.raises(DataError, match=r"not a \.npz"):
        read_graph(tmp_path / "text.npz", None)
    with pytest.raises(DataError, match="needs an edge table"):
        read_graph(tables(tmp_path)[0], None)

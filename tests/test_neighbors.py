"""Neighborhoods, whole and drawn, and the classifier of nodes that reads a graph by them."""

from __future__ import annotations

import random
import shutil
import struct
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.core.task import ExampleIndices, find_task
from regard.data.feature_file import FeatureFile
from regard.data.graph_files import read_graph
from regard.data.graphs import Graph, edge_pairs
from regard.data.neighbors import Neighborhoods, _numbers
from regard.errors import ConfigError, DataError
from regard.models.graph.build import build_graph_net
from regard.models.graph.config import GraphNetConfig
from regard.runs.config import load_config
from regard.tasks.graph_batch import GraphCodecs, graph_tensors
from regard.tasks.nodes.sampling import SampledNodes, SomeNodes
from regard.tasks.nodes.task import sample_graph
from regard.testing import TASK_LAWS, Draw, TaskCase
from regard.testing.law import same

KINDS = ["gat", "gatv2", "gcn", "gin", "transformer"]
NODES, FEATURES, CLASSES = 40, 5, 3


def made_graph(*, hub: int = 0) -> Graph:
    """A drawn graph whose node 0 sees ``hub`` others besides."""
    draw = np.random.default_rng(1)
    edges = np.concatenate([draw.integers(0, NODES, (60, 2)), [(0, other) for other in range(1, hub + 1)]])
    x = draw.standard_normal((NODES, FEATURES)).astype(np.float32) * (draw.random((NODES, FEATURES)) > 0.4)
    entries = np.stack(np.nonzero(x)).astype(np.int64)
    pairs = edge_pairs(edges.astype(np.int64).reshape(-1, 2), NODES)
    values = x[entries[0], entries[1]]
    return Graph("drawn", NODES, FEATURES, pairs, entries, values, draw.integers(0, CLASSES, NODES), ("a", "b", "c"))


def net(kind: str, layers: int = 2, **more: Any) -> Any:
    torch.manual_seed(1)
    config = GraphNetConfig(kind=kind, width=3, heads=2, output_heads=2, layers=layers, **more)
    return build_graph_net(config, features=FEATURES, outputs=CLASSES).double().eval()


@pytest.mark.parametrize("nodes", [[7], [3, 0, 25, 11]])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_neighborhood_of_all_gives_the_numbers_of_the_whole_graph(kind, layers, nodes):
    graph, made = made_graph(hub=9), net(kind, layers, skip=True)
    whole = made(*graph_tensors(graph))[nodes]
    degree = int(np.bincount(graph.pairs[0]).max())
    for most in (None, degree):
        found = made(*SomeNodes(graph).inputs(np.array(nodes), [most] * layers, (1, 1)))
        same(found, whole, f"{kind}, {most} neighbors", tolerance=1e-12)
    fewer = made(*SomeNodes(graph).inputs(np.arange(NODES), [1] * layers, (1, 1)))
    assert not torch.allclose(fewer, made(*graph_tensors(graph)), atol=1e-3)


def test_so_many_different_neighbors_are_drawn_and_the_node_itself():
    graph = made_graph(hub=20)
    for visit in range(5):
        hop = Neighborhoods(graph).of(np.array([0, 5]), [4], (1, visit)).hops[0]
        nodes = Neighborhoods(graph).of(np.array([0, 5]), [4], (1, visit)).nodes
        seen = nodes[hop.pairs[1, hop.pairs[0] == 0]]
        assert len({*seen.tolist()}) == 5 and 0 in seen and {*seen} <= {*graph.neighbors(0)}
        all_of_five = nodes[hop.pairs[1, hop.pairs[0] == 1]]
        assert len(graph.neighbors(5)) > 5 or sorted(all_of_five) == graph.neighbors(5).tolist()


@pytest.mark.parametrize("key", [0, 1, 12345, (1 << 64) - 1, -3])
def test_numbers_of_draws_are_splitmix64_in_whole_numbers(key: int):
    """Steele et al. 2014, Figure 17, twice: after adding the key, and after adding the golden gamma."""
    whole, words = 2**64, [0, 1, 77, 2**63 + 5, 2**64 - 1]
    expected = []
    for word in words:
        for added in (key, 0x9E3779B97F4A7C15):
            word = (word + added) % whole
            word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % whole
            word = (word ^ (word >> 27)) * 0x94D049BB133111EB % whole
            word ^= word >> 31
        expected.append(word)
    assert _numbers(np.array(words, np.uint64), key).tolist() == expected


def test_every_neighbor_is_drawn_equally_often():
    graph, count = made_graph(hub=20), np.zeros(NODES)
    every = Neighborhoods(graph)
    others = graph.neighbors(0)[1:]
    for visit in range(1200):
        nodes = every.of(np.array([0]), [5], (3, visit)).nodes
        count[nodes] += 1
    share = 5 / len(others)
    assert count[0] == 1200 and np.abs(count[others] / 1200 - share).max() < 5 * (share * (1 - share) / 1200) ** 0.5


def test_a_convolution_over_drawn_neighbors_is_in_the_mean_that_over_all():
    graph, draws = made_graph(hub=20), 800
    every, x = Neighborhoods(graph), np.random.default_rng(2).standard_normal(NODES)

    def sum_of(most: int | None, visit: int) -> float:
        nodes, (hop,) = every.of(np.array([0]), [most], (1, visit))
        return float(hop.degree @ x[nodes[hop.pairs[1]]])

    drawn = np.array([sum_of(6, visit) for visit in range(draws)])
    assert abs(drawn.mean() - sum_of(None, 0)) < 4 * drawn.std() / draws**0.5
    assert drawn.std() > 0.01


@pytest.mark.parametrize("most", [6, 15])
def test_a_drawn_edge_stands_for_as_many_as_were_not(most: int) -> None:
    graph = made_graph(hub=20)
    others = len(graph.neighbors(0)) - 1
    nodes, (hop,) = Neighborhoods(graph).of(np.array([0]), [most], (1, 1))
    whole = {int(key): each for query, key, each in zip(*graph.pairs, graph.degree, strict=True) if query == 0}
    for key, each in zip(nodes[hop.pairs[1]].tolist(), hop.degree, strict=True):
        assert each == pytest.approx(whole[key] * (1 if key == 0 else others / most), rel=1e-6)


def test_layers_draw_for_themselves() -> None:
    graph = made_graph(hub=20)
    nodes, hops = Neighborhoods(graph).of(np.array([0]), [3, 3], (1, 1))
    near, far = ({*nodes[hop.pairs[1, hop.pairs[0] == 0]].tolist()} for hop in hops)
    assert len(near) == len(far) == 4 and near != far


def test_a_draw_is_a_function_of_seed_visit_and_node_alone():
    graph = made_graph(hub=20)

    def of(nodes: list[int], *draw: int) -> set[int]:
        found = Neighborhoods(graph).of(np.array(nodes), [3], draw)
        hop = found.hops[0]
        return {*found.nodes[hop.pairs[1, hop.pairs[0] == nodes.index(0)]].tolist()}

    assert of([0], 1, 4) == of([9, 0, 5], 1, 4)
    assert len({frozenset(of([0], seed, visit)) for seed in (1, 2, 3) for visit in (1, 2, 3)}) > 5


def test_evaluation_looks_at_all_and_epochs_draw_anew():
    graph = made_graph(hub=20)
    examples = SampledNodes(graph, np.ones(NODES, np.bool_), batch=16, limits=[2, 2], seed=1)
    assert [len(batch.index) for batch in examples.batches(None)] == [16, 16, 8]
    sizes = []
    for visit in (0, 1, 2):
        batch = examples.collate(ExampleIndices(np.array([0]), np.array([visit])))
        sizes.append(batch.inputs.sizes[-1].edges)
        assert batch.label.tolist() == graph.labels[:1].tolist()
    assert sizes == [len(graph.neighbors(0)), 3, 3]
    every = np.arange(NODES)
    first, again, second = (examples.collate(ExampleIndices(every, np.full(NODES, visit))) for visit in (1, 1, 2))
    assert torch.equal(first.inputs.pairs, again.inputs.pairs)
    assert not torch.equal(first.inputs.pairs, second.inputs.pairs)


@pytest.fixture(scope="module")
def case() -> TaskCase:
    task = find_task("nodes")
    more = {"batch_nodes": 3, "neighbors": [1, 1]}

    def sample(folder: Path) -> Any:
        tables = dict(task.sample(folder))
        return tables | {"data": tables["data"] | more}

    return TaskCase(replace(task, sample=sample), "nodes")


@pytest.mark.parametrize("law", TASK_LAWS, ids=lambda law: law.name)
def test_laws_of_tasks(case: TaskCase, law: Any) -> None:
    law.check(case, Draw(random.Random(1)))


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample as arrays, its features in a file of their own."""
    folder = tmp_path_factory.mktemp("arrays")
    corpus = sample_graph(folder)
    graph = read_graph(Path(corpus["source"]), Path(corpus["edges"]))
    x = np.zeros((graph.nodes, graph.features), np.float16)
    x[graph.entries[0], graph.entries[1]] = graph.values
    np.save(folder / "x.npy", x)
    masks = {"train_mask": graph.parts["train"], "val_mask": graph.parts["valid"]}
    np.savez(folder / "graph.npz", edges=graph.pairs.T, y=graph.labels, **masks)
    np.savez(folder / "with_x.npz", edges=graph.pairs.T, y=graph.labels, x=x, **masks)
    return folder


def trained(folder: Path, name: str, source: dict[str, Any], **data: Any) -> Any:
    train = {"epochs": 3, "threads": 1, "precision": "float32", "schedule": "constant", "warmup": 0, "shards": 1}
    model = {"heads": 2, "width": 2, "dropout": 0, "attention_dropout": 0}
    tables = {"task": "nodes", "data": {"train": [source], "valid": [source], **data}, "model": model, "train": train}
    return regard.load(regard.train(tables, folder / name))


def equal_maps(one: Any, other: Any) -> None:
    assert one.attention
    for left, right in zip(one.attention, other.attention, strict=True):
        assert left.place == right.place
        torch.testing.assert_close(left.weights, right.weights, atol=1e-5, rtol=0)


def test_features_in_a_file_are_those_in_the_graph(arrays, tmp_path):
    beside = {"source": str(arrays / "graph.npz"), "features": str(arrays / "x.npy")}
    batch, inside = {"batch_nodes": 4, "neighbors": [2, 2]}, {"source": str(arrays / "with_x.npz")}
    names = [str(node) for node in range(12)]
    models = [
        trained(tmp_path, "mapped", beside, **batch),
        trained(tmp_path, "inside", inside, **batch),
        trained(tmp_path, "whole", beside),
        trained(tmp_path, "whole inside", inside),
    ]
    assert models[0].graph.file is not None and len(models[0].graph.values) == 0 and models[1].graph.file is None
    found = [[list(each.probabilities.values()) for each in model(names)] for model in models]
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)
    np.testing.assert_allclose(found[2], found[3], atol=1e-5)
    observed = [model.inspect("3") for model in models[:2]]
    equal_maps(*observed)


def test_answers_by_neighborhoods_are_those_of_the_whole_graph(arrays, tmp_path):
    model = trained(tmp_path, "run", {"source": str(arrays / "with_x.npz")}, batch_nodes=4)
    data = model.config.data.model_copy(update={"batch_nodes": None})
    codecs = GraphCodecs(model.graph, model.wide, model.answer.temperature)
    whole = type(model)(model.net, codecs, model.config.model_copy(update={"data": data}))
    names = ["3", "11", "0", "3", "7", "6"]
    for one, other in zip(model(names), whole(names), strict=True):
        assert one.node == other.node and one.probabilities == pytest.approx(other.probabilities, abs=1e-5)
    one, other = model.inspect("6"), whole.inspect("6")
    assert one.surfaces == other.surfaces
    assert [each.label for each in one.predictions] == [each.label for each in other.predictions]
    equal_maps(one, other)


REFUSED = [
    ({"neighbors": [2, 2]}, {}, "data.batch_nodes=512"),
    ({"batch_nodes": 4, "neighbors": [2]}, {}, "2 layers, 1 number"),
    ({"batch_nodes": 4}, {"kind": "transformer", "sees": "all"}, "a batch needs the whole graph"),
    ({"batch_nodes": 4, "neighbors": [2, 2]}, {"kind": "gin"}, "a sum over sampled neighbors is smaller"),
]


@pytest.mark.parametrize(("data", "model", "told"), REFUSED)
def test_settings_that_do_not_fit(data, model, told):
    corpus = {"source": "g.npz"}
    with pytest.raises(ConfigError, match=told):
        load_config({"task": "nodes", "data": {"train": [corpus], **data}, "model": model, "train": {"epochs": 1}})


def test_files_of_features_that_are_none(arrays, tmp_path):
    whole = (arrays / "x.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-5])
    np.save(tmp_path / "flat.npy", np.ones(4))
    np.save(tmp_path / "text.npy", np.array([["a"]]))
    np.save(tmp_path / "columns.npy", np.asfortranarray(np.ones((3, 4))))
    np.save(tmp_path / "object.npy", np.array([[{}]]), allow_pickle=True)
    np.save(tmp_path / "nan.npy", np.array([[1, 2], [3, np.nan]]))
    told = {"short": "not a .npy", "flat": "must be numbers", "text": "must be numbers", "columns": "column order",
            "object": "not a .npy", "missing": "file not found"}  # fmt: skip
    for name, words in told.items():
        with pytest.raises(DataError, match=words):
            FeatureFile(tmp_path / f"{name}.npy")
    with pytest.raises(DataError, match="node 1 is not a finite"):
        list(FeatureFile(tmp_path / "nan.npy").blocks())
    np.save(tmp_path / "large.npy", np.array([[1.0], [1e300]]))
    with pytest.raises(DataError, match="node 1 is not a finite"):
        list(FeatureFile(tmp_path / "large.npy").blocks())
    np.save(tmp_path / "few.npy", np.ones((5, 3), np.float32))
    with pytest.raises(DataError, match=r"5 rows in .*few\.npy"):
        trained(tmp_path, "few", {"source": str(arrays / "graph.npz"), "features": str(tmp_path / "few.npy")})
    for source, words in (
        ("with_x.npz", "both files contain features"),
        ("nodes.csv", "already contains the features"),
    ):
        beside = {"source": str(arrays / source), "features": str(arrays / "x.npy")}
        beside |= {"edges": str(arrays / "edges.csv")} if source.endswith("csv") else {}
        with pytest.raises(DataError, match=words):
            trained(tmp_path, source, beside)


HEADERS = ["(" * 5000, "{[]: 1}", '"""', '{"a\n', "-" * 9000 + "1", "{'descr': 1}", "", "\0",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 3), }\n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (12, -3), }\n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 100000000000000), }\n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (12, 100000000000000000000000), }\n"]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_headers_that_are_none(header: str, arrays: Path, tmp_path: Path) -> None:
    text = header.encode()
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + bytes(144))
    with pytest.raises(DataError, match=r"not a \.npy of plain numbers") as refused:
        FeatureFile(tmp_path / "x.npy")
    assert refused.value.why
    packed = tmp_path / "graph.npz"
    shutil.copy(arrays / "with_x.npz", packed)
    with zipfile.ZipFile(packed, "a") as file:
        file.write(tmp_path / "x.npy", "names.npy")
    with pytest.raises(DataError, match=r"not a \.npz of plain arrays") as refused:
        read_graph(packed, None)
    assert refused.value.why


def test_archives_that_are_damaged(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "g.npz", edges=np.random.default_rng(1).integers(0, 12, (500, 2)), x=np.eye(12))
    whole = (tmp_path / "g.npz").read_bytes()
    entry = whole.index(b"PK\1\2")
    packed, locked, unknown = (bytearray(whole) for _ in range(3))
    packed[60:120] = bytes(255 - each for each in packed[60:120])
    locked[entry + 8] |= 1
    unknown[entry + 10] = 77
    for damaged in (packed, locked, unknown, whole[:40], b""):
        (tmp_path / "g.npz").write_bytes(damaged)
        with pytest.raises(DataError, match=r"not a \.npz of plain arrays"):
            read_graph(tmp_path / "g.npz", None)


def test_a_small_archive_of_large_arrays_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred times its own size, or some megabytes, and never more than four gigabytes."""
    path, bomb = tmp_path / "g.npz", {"edges": np.array([[0, 1]]), "x": np.zeros((1000, 1000), np.int8)}
    np.savez_compressed(path, **bomb)
    assert read_graph(path, None).nodes == 1000
    monkeypatch.setattr("regard.data.npz_files.FREE", 1000)
    with monkeypatch.context() as patch:
        patch.setattr(np, "load", None)
        with pytest.raises(DataError, match="too large") as refused:
            read_graph(path, None)
    assert f"has {path.stat().st_size:,} bytes" in str(refused.value.why) and ".npy" in str(refused.value.help)
    np.savez(path, **bomb)
    assert read_graph(path, None).nodes == 1000
    monkeypatch.setattr("regard.data.npz_files.MAX_BYTES", 1000)
    with pytest.raises(DataError, match="too large"):
        read_graph(path, None)

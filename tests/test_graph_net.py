"""Networks over graphs, and the classifier of nodes that they make."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.core.wording import pluralize
from regard.data.graph_files import read_graph, save_graph
from regard.errors import DataError, ModelError
from regard.models.graph.build import GraphNet, build_graph_net
from regard.models.graph.config import GraphNetConfig
from regard.models.graph.layers import GraphAttention, NodeFeatures, NodeLinear, degree_weights
from regard.runs.config import load_config
from regard.tasks.find_config import find_config
from regard.tasks.graph_parts import graph_of
from regard.tasks.graph_run_config import GraphDataConfig, GraphFilesConfig
from regard.tasks.nodes.task import sample_graph
from regard.testing.law import same

NODES, FEATURES, CLASSES = 6, 4, 3
PAIRS = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5], [0, 1, 0, 1, 2, 1, 2, 3, 4, 3, 4, 5]])  # 5 is alone
KINDS = ["gat", "gatv2", "gcn", "gin", "transformer"]


def net(kind: str, **more: Any) -> GraphNet:
    torch.manual_seed(1)
    width = 16 if kind == "gin" else 3  # of three units in its rectifier all may be off
    config = GraphNetConfig(kind=kind, width=width, heads=2, output_heads=2, **{"layers": 2, **more})
    return build_graph_net(config, features=FEATURES, outputs=CLASSES).double().eval()


def features() -> torch.Tensor:
    x = torch.randn(NODES, FEATURES, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return x * (x > -0.5)


def ran(made: GraphNet, x: Any, pairs: torch.Tensor = PAIRS) -> torch.Tensor:
    found: torch.Tensor = made(x, pairs, degree_weights(pairs, NODES))
    return found


def sparse_of(x: torch.Tensor) -> NodeFeatures:
    entries = x.nonzero().T.contiguous()
    return NodeFeatures(entries, x[entries[0], entries[1]], *x.shape)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sparse_features_are_the_dense_ones(kind, skip):
    made, x = net(kind, skip=skip), features()
    same(ran(made, sparse_of(x)), ran(made, x), kind, tolerance=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_renumbered_nodes_give_renumbered_outputs(kind):
    made, x, order = net(kind, skip=True), features(), torch.tensor([3, 5, 0, 1, 4, 2])
    place = order.argsort()
    same(ran(made, x[order], place[PAIRS]), ran(made, x)[order], kind, tolerance=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_sees_as_far_as_there_are_layers_and_one_alone_itself(kind):
    made, x = net(kind), features().requires_grad_()
    for node, seen in ((0, [0, 1, 2]), (3, [3, 4]), (5, [5])):
        (slope,) = torch.autograd.grad(ran(made, x)[node].square().sum(), x)
        assert slope.abs().sum(1).nonzero()[:, 0].tolist() == seen
    (slope,) = torch.autograd.grad(ran(net(kind, layers=1), x)[0].square().sum(), x)
    assert slope.abs().sum(1).nonzero()[:, 0].tolist() == [0, 1]


def test_who_sees_all_is_told_edges_by_the_bias_alone():
    made, x = net("transformer", sees="all", layers=1), features()
    before = ran(made, x)
    fewer = PAIRS[:, (PAIRS[0] == PAIRS[1])]
    same(ran(made, x, fewer), before, "a bias of 0", tolerance=1e-12)
    with torch.no_grad():
        made.layers[0].mechanism.bias.table[1] = 1.0
    assert float((ran(made, x, fewer) - ran(made, x)).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("kind", ["gat", "gatv2", "transformer"])
def test_the_weights_that_are_shown_are_those_that_are_used(kind):
    made, x = net(kind, layers=1), features()
    (layer,) = made.layers
    assert isinstance(layer, GraphAttention)
    with torch.no_grad():
        others = torch.tensor([0, 1, 2])
        weights = layer.weights(x, 1, others)
        value = layer._heads(x)[2][0][:, others]
        context = torch.einsum("hk,hkv->hv", weights, value).mean(0)
        same(context + layer.bias, ran(made, x)[1], kind, tolerance=1e-12)


@pytest.mark.parametrize("key", ["dropout", "attention_dropout", "value_dropout"])
def test_each_dropout_drops_in_training_alone(key):
    made, x = net("gat", **dict.fromkeys(("dropout", "attention_dropout"), 0.0) | {key: 0.5}), features()
    whole = ran(made, x)
    same(ran(made, x), whole, key, tolerance=0)
    torch.manual_seed(3)
    assert not torch.allclose(ran(made.train(), x), whole)


@pytest.mark.parametrize("form", [lambda x: x, sparse_of])
@pytest.mark.parametrize("draws", [1, 3])
def test_each_draw_of_dropout_is_of_its_own_block_of_the_outputs(draws, form):
    torch.manual_seed(4)
    layer, x = NodeLinear(64, 6, dropout=0.5, draws=draws).double(), torch.eye(64, dtype=torch.float64)
    told = layer(form(x)) / layer.weight  # row n: what became of the one input of node n in each output
    blocks = told.unflatten(1, (draws, -1))
    same(blocks, blocks[..., :1].expand_as(blocks), "a block", tolerance=1e-12)
    kept = blocks[..., 0].round(decimals=9).unique(dim=1)
    assert kept.unique().tolist() == [0, 2] and kept.shape == (64, draws)  # no two blocks alike
    same(layer.eval()(form(x)), layer.weight, "no dropout", tolerance=1e-12)


def test_heads_drop_other_inputs_of_dense_features_as_of_sparse_ones():
    made, x = net("gat", value_dropout=0.2, dropout_by_head=True).train(), features().abs() + 1
    torch.manual_seed(5)
    dense = ran(made, x)
    torch.manual_seed(5)
    same(ran(made, sparse_of(x)), dense, "sparse", tolerance=1e-12)
    torch.manual_seed(5)
    shared = net("gat", value_dropout=0.2).train()
    shared.load_state_dict(made.state_dict())
    assert not torch.allclose(ran(shared, x), dense)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nodes")
    corpus = sample_graph(folder)
    tables: dict[str, Any] = {
        "task": "nodes", "data": {"train": [corpus], "valid": [corpus]},
        "model": {"heads": 2, "dropout": 0.1, "attention_dropout": 0.1},
        "train": {"epochs": 60, "learning_rate": 0.02, "schedule": "constant", "warmup": 0, "precision": "float32",
                  "threads": 1, "best_by": "accuracy", "stop_by": "either", "early_stopping": 4, "validate_every": 10},
    }  # fmt: skip
    return regard.train(tables, folder / "run")


def test_it_tells_classes_by_name(run):
    model = regard.load(run)
    found = model(["n0", "n11", "n2"])
    assert [each.label for each in found] == ["left", "right", "left"]
    assert all(sum(each.probabilities.values()) == pytest.approx(1) for each in found)
    told = json.loads(model.write(found[0], json=True))
    assert told["node"] == "n0" and told["label"] == "left" == model.write(found[0], json=False)
    with pytest.raises(DataError, match="no node 'n99'"):
        model(["n99"])
    with pytest.raises(ValueError, match="expected the name of a node"):
        model.read(" ")


def test_what_it_looks_at_is_its_neighbors(run):
    observed = regard.load(run).inspect("n1")
    assert [each.place for each in observed.attention] == ["encoder.0.edges", "encoder.1.edges"]
    for each in observed.attention:
        assert each.query.labels == ("n1/left",) and each.key.labels == ("n0/left", "n1/left", "n2/left")
        torch.testing.assert_close(each.weights.sum(-1), torch.ones(each.weights.shape[:2]))
    assert observed.surfaces[0].pieces == ("n1/left", "n0/left", "n2/left")
    assert [prediction.site.pieces for prediction in observed.predictions] == [(0,), (1,), (2,)]


def test_evaluation_takes_the_part_that_is_asked_for(run, tmp_path):
    graph = read_graph(run.parent / "nodes.csv", run.parent / "edges.csv")
    save_graph(graph, tmp_path / "same.npz")
    found = regard.evaluate(run, tmp_path / "same.npz", part="valid", directed=True)
    assert float(sum(sum(row[1:]) for row in found.tables["confusion"].rows)) == 4
    again = regard.evaluate(run, run.parent / "nodes.csv", run.parent / "edges.csv", part="valid")
    assert again.figures == found.figures
    with pytest.raises(DataError, match="no node of the part test"):
        regard.evaluate(run, tmp_path / "same.npz")
    np.savez(tmp_path / "other.npz", x=np.ones((2, 9)), edges=np.array([[0, 1]]), y=np.array([0, 1]))
    with pytest.raises(DataError, match="does not match the graph"):
        regard.evaluate(run, tmp_path / "other.npz")


def test_a_run_without_its_graph_is_no_run(run, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    (kept,) = (tmp_path / "copy").rglob("graph.npz")
    kept.write_bytes(b"PK")
    with pytest.raises(ModelError, match="the graph of the run"):
        regard.load(tmp_path / "copy")


def test_files_that_look_like_a_graph_are_taken_for_one(tmp_path):
    sample_graph(tmp_path)
    config = find_config([str(tmp_path / "nodes.csv"), str(tmp_path / "edges.csv")], [], [])
    assert config.task.kind == "nodes" and config.data.split is None
    np.savez(tmp_path / "g.npz", x=np.ones((2, 9)), edges=np.array([[0, 1]]), y=np.array([0, 1]))
    assert find_config([str(tmp_path / "g.npz")], [], []).data.split is not None


def test_a_drawn_split_has_so_many_of_each_class(tmp_path):
    draw = np.random.default_rng(1)
    np.savez(tmp_path / "g.npz", x=draw.random((90, 3)), edges=np.zeros((0, 2), np.int64), y=np.arange(90) % 3)
    source = {"source": str(tmp_path / "g.npz")}
    split = {"per_class": 5, "valid": 20, "test": 30}
    config = load_config({"task": "nodes", "data": {"train": [source], "split": split}, "train": {"epochs": 1}})
    graph = graph_of(config.data.train[0], config.data)
    assert np.bincount(graph.labels[graph.parts["train"]]).tolist() == [5, 5, 5]
    assert [int(mask.sum()) for mask in graph.parts.values()] == [15, 20, 30]
    assert not (graph.parts["train"] & graph.parts["valid"] | graph.parts["valid"] & graph.parts["test"]).any()
    other = load_config({**config.model_dump(), "data": {"train": [source], "split": split | {"seed": 2}}})
    assert (graph_of(other.data.train[0], other.data).parts["train"] != graph.parts["train"]).any()


def test_a_graph_whose_file_changes_is_read_again(tmp_path):
    """Two files with equal names and sizes, too, are two graphs."""
    source, features = tmp_path / "g.npz", tmp_path / "x.npy"
    files, data = GraphFilesConfig(source=source, features=features), GraphDataConfig(train=(), normalize="none")
    for time, (label, feature) in enumerate([(0, 0.0), (1, 0.0), (1, 1.0)], start=1):
        np.savez(source, edges=np.array([[0, 1]]), y=np.array([0, label]))
        np.save(features, np.full((2, 3), feature))
        for path in (source, features):
            os.utime(path, ns=(0, time))  # the clock of a file system may be too coarse
        graph = graph_of(files, data)
        assert graph.labels.tolist() == [0, label] and graph.file.rows(slice(1, 2)).tolist() == [[feature] * 3]
        assert graph_of(files, data) is graph


def test_edges_that_change_are_read_again(tmp_path):
    (tmp_path / "nodes.csv").write_text("node,label,a\nx,one,1\ny,two,1\nz,one,1\n")
    files = GraphFilesConfig(source=tmp_path / "nodes.csv", edges=tmp_path / "edges.csv")
    for node, other in enumerate("yz", start=1):
        files.edges.write_text(f"x,{other}\n")
        os.utime(files.edges, ns=(0, node))
        graph = graph_of(files, GraphDataConfig(train=(), directed=True))
        assert graph.pairs.T.tolist() == [[0, 0], [0, node], [1, 1], [2, 2]]


def graph_of_classes(path: Path, *sizes: int) -> None:
    y = np.repeat(np.arange(-1, len(sizes)), [7, *sizes])  # seven without a class
    np.savez(path, x=np.ones((len(y), 1)), edges=np.zeros((0, 2), np.int64), y=y)


@pytest.mark.parametrize("sizes", [(10, 10), (261, 280), (18, 2), (400, 400), (3, 3), (900, 900)], ids=str)
def test_a_split_is_chosen_that_fits_the_graph_and_told(tmp_path, sizes):
    """The usual one where a node is left to test on; of smaller graphs a third is trained on."""
    graph_of_classes(tmp_path / "g.npz", *sizes)
    said = list[str]()
    parts = parts_of_the_split(tmp_path, [], said)
    few = sum(sizes) - sum(min(size, 20) for size in sizes) <= 500
    first = sum(sizes) // (3 * len(sizes)) if few else 20
    rest = sum(sizes) - first * len(sizes)
    wanted = [first, rest // 3, rest - rest // 3] if few else [20, 500, min(1000, rest - 500)]
    assert parts[1:] == wanted[1:] and parts[0] == sum(min(size, first) for size in sizes)
    numbers = [(first, "training node"), (wanted[1], "validation node"), (wanted[2], "test node")]
    told = "{} per class, {}, {}".format(*(pluralize(number, noun) for number, noun in numbers))
    assert any(told in line and ("too few for the default split" in line) == few for line in said)


def test_a_split_is_chosen_by_the_labels_of_a_table_of_nodes(tmp_path):
    lines = [f"n{node},{('one', 'two', '')[node % 3]},1" for node in range(30)]
    (tmp_path / "nodes.csv").write_text("\n".join(["node,label,a", *lines]))
    (tmp_path / "edges.csv").write_text("n0,n1\n")
    config = find_config([str(tmp_path / "nodes.csv"), str(tmp_path / "edges.csv")], [], [])
    assert config.data.split.sizes == {"per_class": 3, "valid": 4, "test": 10}


def test_a_graph_too_small_for_a_split_is_told_one_that_fits(tmp_path):
    graph_of_classes(tmp_path / "g.npz", 10, 10)
    with pytest.raises(DataError, match="too few labeled nodes") as refused:
        parts_of_the_split(tmp_path, ["data.split.valid=500"])
    settings = str(refused.value.help).removeprefix("--set ").split(" --set ")
    assert parts_of_the_split(tmp_path, settings) == [6, 4, 10]


def parts_of_the_split(folder: Path, settings: list[str], said: list[str] | None = None) -> list[int]:
    config = find_config([str(folder / "g.npz")], [], settings, log=(said if said is not None else []).append)
    return [int(mask.sum()) for mask in graph_of(config.data.train[0], config.data).parts.values()]

"""``regard graphs``, and ``train``, ``evaluate`` and ``inspect`` of whole graphs, classes and numbers."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import regard as package
from regard.errors import ConfigError, DataError, ModelError
from regard.runs.config import load_config
from regard.tasks.find_config import find_config
from regard.tasks.graphs.task import TASK, sample_graphs

LINES = "\n".join(TASK.sample_lines) + "\n"


@pytest.fixture(scope="module")
def graphs_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("graphs")
    corpus = sample_graphs(folder)
    train = {"epochs": 40, "threads": 1, "precision": "float32", "learning_rate": 0.01, "warmup": 0, "batch_tokens": 64}
    model = {"kind": "gatv2", "layers": 2, "width": 8, "heads": 2}
    tables = {"task": "graphs", "data": {"train": [corpus], "valid": [corpus]}, "model": model, "train": train}
    return package.train(tables, folder / "run")


def test_graphs_in_classes_out(regard, graphs_run: Path) -> None:
    told = regard("graphs", graphs_run, input=LINES).stdout.splitlines()
    assert len(told) == 3 and told[0] == "ring" and told[2] == "star"
    found = [json.loads(line) for line in regard("graphs", graphs_run, "--json", input=LINES).stdout.splitlines()]
    assert [each["label"] for each in found] == told
    assert all(abs(sum(each["probabilities"].values()) - 1) < 1e-5 for each in found)
    model = package.load(graphs_run)
    (first,) = model([json.loads(TASK.sample_lines[0])])
    assert first.label == "ring" and abs(sum(first.weights) - 1) < 1e-5 and len(first.weights) == 3
    assert model([]) == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('{"edges": [[0, 4]], "nodes": 2}', "nodes are 0 to 1"),
        ('{"edges": [[0, 1]]}', "0 features"),
        ('{"edges": [[0, 1]], "features": [[1, 2], [1, 2]]}', "2 features"),
        ('{"edges": [[0, 1]], "nodes": ["C", "C"], "features": [[1], [2]]}', "have labels"),
    ],
)
def test_a_graph_that_is_none_of_the_models(regard, graphs_run: Path, line: str, told: str) -> None:
    refused = regard("graphs", graphs_run, input=f"{TASK.sample_lines[0]}\n{line}\n").exception
    assert isinstance(refused, DataError) and told in str(refused) and refused.where == "standard input:2"


def test_evaluation_and_inspection(regard, graphs_run: Path) -> None:
    told = regard("evaluate", graphs_run, graphs_run.parent / "graphs.jsonl").stdout
    assert re.search(r"majority +0\.5000", told) and "12 graphs" in told
    shown = regard(
        "inspect", graphs_run, '{"edges": [[0, 1]], "nodes": 2, "features": [[1], [2]]}', "--terminal"
    ).stdout
    assert "pooling" in shown and ("ring" in shown or "star" in shown)
    found = package.load(graphs_run).inspect(json.loads(TASK.sample_lines[2]))
    maps = {each.place: each.weights for each in found.attention}
    weights = maps["encoder.0.edges"]  # of a star: each leaf sees itself and the center
    assert weights.shape == (2, 4, 4) and bool((weights[:, 1, 2:] == 0).all()) and bool((weights[:, 1, :2] > 0).all())
    assert maps["pooling"].shape == (1, 1, 4)
    assert found.surfaces[0].edges == ((0, 1), (0, 2), (0, 3)) and found.facts == {"nodes": 4, "edges": 3}


def test_a_damaged_run_says_so(graphs_run: Path, tmp_path: Path) -> None:
    for name, content in (("nodes.json", '{"scale": [0.0], "kinds": []}'), ("labels.json", "[]"), ("nodes.json", "")):
        shutil.copytree(graphs_run, tmp_path / "copy", dirs_exist_ok=True)
        (tmp_path / "copy" / "tokenizer" / name).write_text(content)
        with pytest.raises(ModelError):
            package.load(tmp_path / "copy")


def test_numbers_of_graphs(regard, tmp_path: Path) -> None:
    """The number of nodes of a path, from its nodes alone: a sum knows it."""
    rows = [
        {"edges": [[n, n + 1] for n in range(nodes - 1)], "nodes": nodes, "label": nodes / 2} for nodes in range(2, 26)
    ]
    (tmp_path / "paths.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = find_config([str(tmp_path / "paths.jsonl")], [], [])
    assert found.data.label_kind == "number" and found.data.valid is not None  # type: ignore[attr-defined]
    corpus = {"source": str(tmp_path / "paths.jsonl")}
    train = {
        "epochs": 60,
        "threads": 1,
        "precision": "float32",
        "learning_rate": 0.005,
        "warmup": 0,
        "batch_tokens": 200,
    }
    data = {"train": [corpus], "valid": [corpus], "label_kind": "number"}
    model = {"kind": "gin", "layers": 1, "width": 8, "pooling": "sum", "dropout": 0.0}
    run = package.train({"task": "graphs", "data": data, "model": model, "train": train}, tmp_path / "run")
    figures = package.evaluate(run, tmp_path / "paths.jsonl").figures
    assert figures["rmse"] < 0.2 * figures["mean_rmse"] and figures["pearson"] > 0.95
    (value,) = regard("graphs", run, input=json.dumps(rows[9]) + "\n").stdout.split()
    assert abs(float(value) - 5.5) < 1.0
    (found_json,) = regard("graphs", run, "--json", input=json.dumps(rows[9]) + "\n").stdout.splitlines()
    assert abs(json.loads(found_json)["value"] - float(value)) < 1e-3
    (prediction,) = package.load(run).inspect(rows[9]).predictions
    assert prediction.kind == "number" and prediction.label == value


def test_files_choose_the_task(tmp_path: Path) -> None:
    source = Path(sample_graphs(tmp_path)["source"])
    found = find_config([str(source)], [], [])
    assert found.task.kind == "graphs" and found.data.label_kind == "class"  # type: ignore[attr-defined]
    assert found.data.train[0].share == (0.0, 0.9) and found.train.early_stopping
    assert found.data.walks == 8  # type: ignore[attr-defined]
    found = find_config([str(source)], [source], ["train.steps=3"])
    assert found.data.train[0].share == (0.0, 1.0) and found.train.epochs is None
    (tmp_path / "texts.jsonl").write_text('{"text": "a b", "label": "x"}\n' * 3 + '{"text": "c", "label": "y"}\n')
    assert find_config([str(tmp_path / "texts.jsonl")], [], []).task.kind != "graphs"


@pytest.mark.parametrize("line", ['{"edges": [[0, 99]], "nodes": 3, "label": "x"}', '{"edges": [], "label": "x"}', ""])
def test_a_first_line_that_is_wrong_is_still_one_of_graphs(tmp_path: Path, line: str) -> None:
    source = Path(sample_graphs(tmp_path)["source"])
    source.write_text(f"{line}\n{source.read_text()}")
    assert find_config([str(source)], [], []).task.kind == "graphs"


def test_equal_graphs_of_which_none_can_be_held_out(tmp_path: Path) -> None:
    (tmp_path / "few.jsonl").write_text('{"edges": [[0, 1]], "label": "a"}\n{"edges": [[0, 1]], "label": "b"}\n')
    said: list[str] = []
    config = find_config([str(tmp_path / "few.jsonl")], [], ["train.epochs=1"], log=said.append)
    assert config.data.valid is None and any("--valid-file" in line for line in said)
    package.train(config, tmp_path / "run")


def test_an_answer_that_is_no_number(graphs_run: Path) -> None:
    model = package.load(graphs_run)
    field = model.codec.fields["graph"]
    field.codec = field.codec._replace(scale=(1e-30,))
    graphs = [{"edges": [[0, 1]], "features": [[each], [-each]]} for each in (0.0, 9e29)]
    assert model(graphs[:1])[0].probability > 0
    with pytest.raises(DataError, match="is not finite") as caught:
        model(graphs)
    assert caught.value.where == "input 2"


def test_a_figure_of_the_other_kind_chooses_no_checkpoint() -> None:
    data = {part: [{"source": "a.jsonl"}] for part in ("train", "valid")}
    with pytest.raises(ConfigError, match="rmse is not a metric for label_kind = class"):
        load_config({"task": "graphs", "data": data, "train": {"best_by": "rmse"}})

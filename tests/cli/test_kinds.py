"""Every kind of model in one table: one batch learned by heart, served, inspected, bad input named by its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

import regard
from regard import cli
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.errors import RegardError
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.prediction import read_inputs
from regard.testing import TaskCase
from regard.training.optim import Optimizer


@pytest.fixture(scope="module", params=TASKS)
def case(request: pytest.FixtureRequest) -> TaskCase:
    return TaskCase(find_task(request.param), request.param)


def test_one_batch_is_learnt_by_heart(case: TaskCase) -> None:
    """The most of what can be known: of equal beginnings a causal model can only know how often each goes on."""
    net, examples = case.net(), case.data.train.batches(0)[0]
    optimizer, losses = Optimizer(net), list[float]()
    for _ in range(150):
        terms, batch = case.terms(net, examples)
        (terms.minimized / batch.weight).backward()
        optimizer.step(0.01)
        losses.append(case.task.compute_metrics(terms.sums)["loss"])
    assert losses[-1] < HEART.get(case.kind, 0.02) * losses[0], (losses[0], losses[-1])


HEART = {"language-model": 0.6, "next-item": 0.6, "translation": 0.05}  # the last smooths its labels


@pytest.mark.parametrize("kind", TASKS)
def test_it_is_served_with_what_python_says(kind: str, runs: dict[str, Path], address: str) -> None:
    model = regard.load(runs[kind], device="cpu")
    lines = [line for line in find_task(kind).sample_lines if line and read_inputs(model, [line], name="")[1] is None]
    told = httpx.get(f"{address}/v1/models/{kind}", timeout=60).json()
    assert told["task"] == kind and told["takes"] and told["gives"]
    answer = httpx.post(f"{address}/v1/predict", json={"model": kind, "inputs": lines}, timeout=60)
    assert answer.status_code == 200, answer.text
    outputs = answer.json()["outputs"]
    assert len(outputs) == len(lines) > 0 and all(isinstance(each, dict) for each in outputs)
    if kind not in ("language-model", "translation"):  # these draw, or decode
        import json

        inputs = [model.read(line) for line in lines]
        assert outputs == [json.loads(model.write(each, json=True)) for each in (model([row])[0] for row in inputs)]


@pytest.mark.parametrize("kind", TASKS)
def test_it_is_looked_into(kind: str, runs: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    line = find_task(kind).sample_lines[0]
    assert cli.run(["inspect", str(runs[kind]), line, "--json"]) == 0
    assert f'"name": "{kind}"' in capsys.readouterr().out
    assert cli.run(["info", str(runs[kind])]) == 0
    assert kind in capsys.readouterr().out


LABELS = "good\tx\nbad\ty\n"
RING = '{"edges": [[0, 1], [1, 2], [2, 0]], "label": "ring"}\n'
TAGS = "the\tDET\ndog\tNOUN\n\n"
BAD: list[tuple[str, dict[str, str], dict[str, Any], str, str]] = [
    ("classification", {"a.tsv": LABELS, "v.tsv": "good\tz\n"}, {}, "label 'z' is unknown", "v.tsv:1"),
    ("classification", {"a.tsv": LABELS + "worse\n"}, {}, "1 column", "a.tsv:3"),
    ("classification", {"a.tsv": LABELS + "worse\t\n"}, {}, "no label", "a.tsv:3"),
    ("classification", {"a.tsv": "good\tx\nfine\tx\n"}, {}, "found 1 label; classification needs at least 2", "a.tsv"),
    ("classification", {"a.tsv": "a\t1\nb\ttwo\n"}, {"label_kind": "number"}, "'two' is not a number", "a.tsv:2"),
    ("classification", {"a.csv": "text,label\na,x\nb,y,z\n"}, {}, "3 cells", "a.csv:3"),
    ("classification", {"a.fasta": ">one A\nAC\n>two\nGT\n"}, {}, "no label", "a.fasta:3"),
    ("tagging", {"a.tsv": TAGS + "runs\n"}, {}, "1 column", "a.tsv:4"),
    ("tagging", {"a.jsonl": '{"tokens": ["a", "b"], "tags": ["X"]}\n'}, {}, "found 1 tag for 2 tokens", "a.jsonl:1"),
    ("tagging", {"a.tsv": TAGS, "v.tsv": "cat\tPROPN\n"}, {}, "label 'PROPN' is unknown", "v.tsv:1"),
    ("next-item", {"a.jsonl": '{"items": [1, 2]}\n{"items": ["a b"]}\n'}, {}, "invalid item", "a.jsonl:2"),
    ("next-item", {"a.csv": "session,item\n1,2\n1,\n"}, {}, "invalid item", "a.csv:3"),
    ("translation", {"a.tsv": "a\tb\nc\n"}, {}, "needs two columns", "a.tsv:2"),
    ("language-model", {"a.jsonl": '{"text": "a"}\n{"txt": "b"}\n'}, {}, 'no key "prompt"', "a.jsonl:2"),
    ("graphs", {"a.jsonl": RING + '{"edges": [[0, 2]], "nodes": 2}\n'}, {}, "leads to a missing node", "a.jsonl:2"),
    ("graphs", {"a.jsonl": RING + '{"edges": [[0, 1]]}\n'}, {}, "the graph has no label", "a.jsonl:2"),
    ("graphs", {"a.jsonl": RING + '\n{"edges": [], "label": 1}\n'}, {}, "no node", "a.jsonl:3"),
    ("graphs", {"a.jsonl": RING + '{"edges": [], "features": [[1]], "label": 1}\n'}, {}, "1 feature", "a.jsonl:2"),
    ("graphs", {"a.jsonl": RING}, {}, "found 1 label; classification needs at least 2", "a.jsonl"),
    ("graphs", {"a.jsonl": RING}, {"label_kind": "number"}, "'ring' is not a number", "a.jsonl:1"),
    ("graphs", {"a.jsonl": RING + RING.replace("ring", "x"), "v.jsonl": RING.replace("ring", "z")}, {},
     "label 'z' is unknown", "v.jsonl:1"),
    ("masked", {"a.jsonl": '{"text": "a b"}\n{"text": 3}\n'}, {"documents": "json-line"}, "not a string", "a.jsonl:2"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "files", "data", "told", "where"), BAD)
def test_bad_input_is_named_by_its_line(
    tmp_path: Path, kind: str, files: dict[str, str], data: dict[str, Any], told: str, where: str
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    train, *valid = ([{"source": str(tmp_path / name)}] for name in files)
    tables = {"task": kind, "data": {"train": train, **({"valid": valid[0]} if valid else {}), **data}}
    with pytest.raises(RegardError) as caught:
        run = RunFolder.create(tmp_path / "run", load_config(tables | {"train": {"steps": 1, "threads": 1}}))
        find_task(kind).prepare(run, lambda line: None, None)
    assert told in str(caught.value) and f"{tmp_path / where}" == str(caught.value.where), caught.value

"""Next items: figures by pencil, baselines, sessions of files, what is recommended, a structure that a model finds."""

from __future__ import annotations

import hashlib
import json
import math
import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from regard import cli
from regard.answers.next_item import NextItemSettings
from regard.attention.span import Span
from regard.data.sessions import ITEMS, SessionColumns, read_sessions
from regard.data.shared_files import FilesConfig
from regard.errors import ConfigError, DataError
from regard.fields.vocabularies import item_numbers
from regard.metrics.ranking import gain_sums, ranks
from regard.runs.config import load_config
from regard.tasks.evaluate import evaluate
from regard.tasks.load import load
from regard.tasks.next_item.task import NEXT_ITEM, TASK
from regard.tasks.supervised_codecs import SupervisedCodecs
from regard.tasks.supervised_examples import SupervisedExamples
from regard.testing.codec_case import CodecRun


def call(*arguments: object, input: str | None = None) -> Any:
    return CliRunner().invoke(cli.build_app(), [str(each) for each in arguments], input=input)


def sessions(path: Path, **columns: str) -> list[Any]:
    return [row.cells[ITEMS] for row in read_sessions([FilesConfig(source=path)], SessionColumns(**columns))]


def prepared(config: Any, folder: Path) -> tuple[SupervisedExamples, SupervisedCodecs]:
    """Return the training examples and the codecs of a config."""
    codecs = NEXT_ITEM.learn_codecs(CodecRun(folder / "run", config), lambda message: None)
    return SupervisedExamples(NEXT_ITEM.read(config, "train"), config, codecs), codecs


def test_ranks_and_gains_by_pencil() -> None:
    """An item that training did not have ranks after all."""
    scores = torch.tensor([[3.0, 1, 2], [0, 5, 4], [1, 2, 3]])
    assert ranks(scores, torch.tensor([0, 0, -3])).tolist() == [0, 2, 3]
    hits, gain = gain_sums(torch.tensor([0, 2, 9, 10, 300])).tolist()
    assert hits == 3 and gain == pytest.approx(1 + 1 / math.log2(4) + 1 / math.log2(11))


def test_sessions_of_every_form(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"items": ["i1", 7]}\n{"items": []}\n')
    (tmp_path / "b.txt").write_text("i1 7\n\ni2\n")
    (tmp_path / "c.tsv").write_text("anna\ti1\t10:00\nbert\ti2\nanna\t7\n\n")
    (tmp_path / "d.jsonl").write_text('{"played": ["i1", "7"]}\n')
    assert sessions(tmp_path / "a.jsonl") == [("i1", "7")] == sessions(tmp_path / "d.jsonl", items="played")
    assert sessions(tmp_path / "b.txt") == sessions(tmp_path / "c.tsv") == [("i1", "7"), ("i2",)]


@pytest.mark.parametrize(
    ("name", "line", "told"),
    [
        ("x.jsonl", "{", "not JSON"), ("x.jsonl", "[1]", "not a JSON object"),
        ("x.jsonl", '{"items": {}}', "the value of 'items' is a table"),
        ("x.jsonl", '{"items": ["a b"]}', "invalid item"), ("x.jsonl", '{"items": [1.5]}', "only integers"),
        ("x.jsonl", '{"items": [true]}', "only integers"),
        ("x.tsv", "anna", "1 column"), ("x.tsv", "anna\t", "invalid item"),
    ],
)  # fmt: skip
def test_what_is_no_session_is_told_with_its_line(tmp_path: Path, name: str, line: str, told: str) -> None:
    good = {"x.jsonl": '{"items": ["a"]}', "x.tsv": "anna\ta"}[name]
    (tmp_path / name).write_text(f"{good}\n{line}\n")
    with pytest.raises(DataError, match=told) as caught:
        sessions(tmp_path / name)
    assert str(caught.value.where).endswith(":2")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each item is told by the one two before it, nine times of ten; the last item alone tells nothing."""
    folder, draw = tmp_path_factory.mktemp("items"), random.Random(1)
    lines = []
    for _ in range(900):
        items = [draw.randrange(40), draw.randrange(40)]
        for _ in range(10):
            items.append((items[-2] * 7 + 3) % 40 if draw.random() < 0.9 else draw.randrange(40))
        lines.append(json.dumps({"items": [f"i{item}" for item in items]}))
    (folder / "train.jsonl").write_text("\n".join(lines[:860]) + "\n")
    (folder / "test.jsonl").write_text("\n".join(lines[860:]) + "\n")
    sizes = ["model.layers=2", "model.width=48", "model.feed_forward=64", "model.heads=2", "model.dropout=0.0"]
    train = ["train.steps=200", "train.batch_tokens=512", "train.learning_rate=5e-3", "train.threads=1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        sets = [part for each in [*sizes, *train] for part in ("--set", each)]
        found = call("train", "train.jsonl", "--valid-file", "test.jsonl", "--name", "two-before", *sets)
    assert found.exit_code == 0, found.output
    assert "→ next-item" in found.output and "40 items, 10,320 events in 860 sessions" in found.output
    return folder


def test_a_structure_that_the_last_item_does_not_tell_is_found(run: Path) -> None:
    found = evaluate(run / "runs" / "two-before", run / "test.jsonl").figures
    assert found["hit_rate_10"] > 0.75 and found["ndcg_10"] > 0.6
    assert found["follower_hit_rate_10"] < 0.45 and found["popular_hit_rate_10"] < 0.4, "ten of 40 are a quarter"


def test_baselines_are_those_of_training_sessions(run: Path) -> None:
    """Counted here anew: the ten most frequent items, and the ten most frequent after the one before."""
    train, test = (
        [json.loads(line)["items"] for line in (run / f"{part}.jsonl").read_text().splitlines()]
        for part in ("train", "test")
    )
    counts: dict[str, int] = {}
    after: dict[str, dict[str, int]] = {}
    for items in train:
        for item in items:
            counts[item] = counts.get(item, 0) + 1
        for one, other in pairwise(items):
            after.setdefault(one, {})[other] = after.get(one, {}).get(other, 0) + 1
    codec = load(run / "runs" / "two-before").codec
    number = {item: int(item_numbers(codec.answer.tokenizer, [item])[0]) for item in counts}
    popular = sorted(counts, key=lambda item: (-counts[item], number[item]))[:10]

    def likely(item: str) -> list[str]:
        found = sorted(after[item], key=lambda other: (-after[item][other], number[other]))[:10]
        return (found + [each for each in popular if each not in found])[:10]

    asked = [(one, other) for items in test for one, other in pairwise(items)]
    found = evaluate(run / "runs" / "two-before", run / "test.jsonl").figures
    assert found["popular_hit_rate_10"] == pytest.approx(sum(other in popular for _, other in asked) / len(asked))
    assert found["follower_hit_rate_10"] == pytest.approx(sum(b in likely(a) for a, b in asked) / len(asked))
    gains = [1 / math.log2(likely(a).index(b) + 2) for a, b in asked if b in likely(a)]
    assert found["follower_ndcg_10"] == pytest.approx(sum(gains) / len(asked))


def test_what_is_recommended(run: Path) -> None:
    model = load(run / "runs" / "two-before")
    found, alone, nothing, strange = model(["i5 i9", ["i9"], "", "i5 x1 i9"])
    assert found.items[0] == "i38" and len(found.items) == 10 and found.probabilities[0] > 0.4  # 5 · 7 + 3
    assert list(found.probabilities) == sorted(found.probabilities, reverse=True)
    assert strange.items == found.items and strange.unknown == ("x1",) and len(alone.items) == len(nothing.items) == 10
    fresh = model(["i5 i9"], top_k=40, new=True)[0].items
    assert len(fresh) == 38 and not {"i5", "i9"} & {*fresh}
    assert sum(model([""], top_k=40)[0].probabilities) == pytest.approx(1.0)
    model.codec.answer.defaults = NextItemSettings(top_k=3, new=True)
    own = model(["i5 i38"])[0].items
    assert len(own) == 3 and not {"i5", "i38"} & {*own}, "the run's own settings, unless a call has others"
    with pytest.raises(ConfigError, match="top_k"):
        model(["i5"], top_k=0)
    long = model([" ".join(["i1"] * 500)])[0]
    assert long.items == model([" ".join(["i1"] * 50)])[0].items, "the last 50 are read"


def test_the_commands(run: Path) -> None:
    told = call("recommend", run / "runs" / "two-before", "--top-k", 2, "--json", input='i5 i9\n["i5", "x1", "i9"]\n')
    first, second = map(json.loads, told.stdout.splitlines())
    assert first["items"][0] == "i38" and len(first["items"]) == 2 and second["unknown"] == ["x1"]
    table = call("evaluate", run / "runs" / "two-before", run / "test.jsonl").stdout
    assert "this model" in table and "after the last" in table and "most popular" in table
    seen = call("inspect", run / "runs" / "two-before", "i5 i9", "--json")
    assert seen.exit_code == 0 and "i38" in seen.stdout, seen.output
    wrong = call("recommend", run / "runs" / "two-before", input='["a b"]\n')
    assert "standard input:1" in str(wrong.exception)


def test_a_damaged_list_of_followers_is_told(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run / "runs" / "two-before", tmp_path / "copy"))
    for content in ("{", '{"popular": [1]}', '{"popular": [9999], "followers": {}}', '{"popular": [], "followers": 3}'):
        next(copy.glob("**/followers.json")).write_text(content)
        with pytest.raises(Exception, match=r"codec followers\.json is damaged"):
            load(copy)


def test_a_session_longer_than_the_context_is_learnt_whole(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a b c d e\n")
    data = {"train": [{"source": str(tmp_path / "x.txt")}], "context": 2}
    config = load_config({"task": {"kind": "next-item"}, "data": data, "train": {"steps": 1, "batch_tokens": 8}})
    examples, codecs = prepared(config, tmp_path)
    items, pieces = codecs.fields["items"], codecs.answer.tokenizer.pieces
    targets = [examples.targets[examples.target_places(np.array([number]))] for number in range(len(examples))]
    both = [(items.labels(row), tuple(pieces(target))) for (row,), target in zip(examples.rows, targets, strict=True)]
    assert both == [(("<s>", "a"), ("a", "b")), (("b", "c"), ("c", "d")), (("d",), ("e",))]
    whole = hashlib.sha256(np.array([2, 2, 1], np.int32).tobytes())
    for (row,), target in zip(examples.rows, targets, strict=True):
        whole.update(row.tobytes() + target.tobytes())
    assert examples.digest() == whole.hexdigest(), "earlier runs recorded other contents"
    assert TASK.name == "next-item"


def test_a_loss_of_a_mixer_is_minimized_and_not_reported(tmp_path: Path) -> None:
    """Compression learns from its own loss alone, whatever the task."""
    (tmp_path / "x.txt").write_text("a b c d e f g h i j k l\n")
    mixer = {"kind": "compressive", "memory": 2, "segment": 2, "compressed": 2, "rate": 2}
    model = {"layers": 2, "width": 8, "heads": 2, "feed_forward": 8, "dropout": 0.0, "mixer": mixer}
    config = load_config({
        "task": {"kind": "next-item"}, "data": {"train": [{"source": str(tmp_path / "x.txt")}], "context": 16},
        "model": model, "train": {"steps": 1},
    })  # fmt: skip
    examples, codecs = prepared(config, tmp_path)
    batch = examples.collate(examples.batches(0)[0])
    net = TASK.build(config, codecs.spec).double()
    terms = TASK.objective(config)(net, batch)
    (padded,) = batch.inputs
    (lost,) = net(padded.values, Span.of(padded.valid)).losses.values()
    assert float(terms.minimized.detach() - terms.sums["nll"]) == pytest.approx(float(lost.detach()), rel=1e-4) != 0
    terms.minimized.backward()
    assert all(layer.mixer.compressor.convolution.weight.grad.abs().sum() > 0 for layer in net.stack)

"""Classification: what is read, what is measured, and what a trained classifier says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.core.task import find_task
from regard.errors import DataError, RegardError
from regard.metrics.classes import class_figures, class_metrics, class_tables, prediction_sums
from regard.models.classifier import build_classifier
from regard.models.classifier_config import ClassifierModelConfig
from regard.runs.config import load_config
from regard.tasks.classification.automatic_config import choose
from regard.tasks.classification.classifier import Classifier
from regard.tasks.classification.config import LabelledConfig, LabelledDataConfig
from regard.tasks.classification.labelled_text import read_labelled
from regard.testing import TaskCase


def data_of(path: Path, **keys: object) -> LabelledDataConfig:
    return LabelledDataConfig.model_validate({"train": [{"source": str(path)}], **keys})


def read(path: Path, **keys: object) -> list[tuple[tuple[str, ...], str]]:
    data = data_of(path, **keys)
    return [(each.texts, each.label) for each in read_labelled(data.train, data)]


def test_columns_are_numbers_or_names_of_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("first\tsecond\tkind\na b\tc\tyes\n")
    by_name = read(tmp_path / "a.tsv", text=["first", "second"], label="kind")
    assert by_name == [(("a b", "c"), "yes")]
    assert read(tmp_path / "a.tsv", text=[1], label=3)[0] == (("first",), "kind")


def test_json_lines_are_read_by_key(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": 1}\n')
    assert read(tmp_path / "a.jsonl") == [(("a",), "1")]


@pytest.mark.parametrize(
    ("content", "keys", "told"),
    [
        ("a\tb\nc\n", {}, ":2"),
        ("a\t \n", {}, ":1"),
        ("x\ty\na\tb\n", {"text": ["x"], "label": "z"}, "no column z"),
    ],
)
def test_a_line_that_is_no_example_is_named(tmp_path: Path, content: str, keys: dict[str, object], told: str) -> None:
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(DataError) as caught:
        read(tmp_path / "a.tsv", **keys)
    assert told in f"{caught.value} {caught.value.where}"


def test_shares_of_one_file_have_no_text_in_common(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("".join(f"text {number}\t{number % 2}\n" for number in range(40)))
    data = data_of(path)
    parts = [
        {each.texts for each in read_labelled([LabelledConfig(source=path, share=share)], data)}
        for share in ((0.0, 0.5), (0.5, 1.0))
    ]
    assert all(parts) and not parts[0] & parts[1] and len(parts[0] | parts[1]) == 40


def test_figures_by_pencil() -> None:
    p = torch.tensor([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    sums = prediction_sums(p.log(), torch.tensor([0, 1, 1, 0])) | {"nll": torch.tensor(2.0)}
    assert sums["confusion"].tolist() == [[1, 1], [1, 1]]
    figures = class_metrics(sums)
    assert figures["loss"] == 0.5
    assert figures["accuracy"] == figures["macro_f1"] == figures["majority"] == 0.5
    # each alone in its bin: |1 − .9|, |0 − .6|, |1 − .8|, |0 − .7|
    assert figures["calibration_error"] == pytest.approx((0.1 + 0.6 + 0.2 + 0.7) / 4, abs=1e-6)


def test_figures_of_classes_by_pencil() -> None:
    first, second, third = class_figures(torch.tensor([[3.0, 1, 0], [2, 4, 0], [0, 0, 0]]))
    assert first == (3 / 5, 3 / 4, 6 / 9, 4)
    assert second == (4 / 5, 4 / 6, 8 / 11, 6)
    assert third == (0, 0, 0, 0)


def test_tables_of_classes_by_pencil() -> None:
    tables = class_tables({"confusion": torch.tensor([[3.0, 1], [2, 4]])}, ["no", "yes"])
    assert tables["classes"].columns == ("class", "precision", "recall", "f1", "examples")
    assert tables["classes"].rows[0] == ("no", 3 / 5, 3 / 4, 6 / 9, 4)
    assert tables["confusion"].square and tables["confusion"].columns == ("label", "no", "yes")
    assert tables["confusion"].rows == (("no", 3, 1), ("yes", 2, 4))


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("pooling", ["first", "last", "mean", "attention"])
def test_padding_weighs_nothing_under_any_encoder(kind: str, pooling: str) -> None:
    torch.manual_seed(1)
    side = {"kind": kind, "width": 8, "layers": 1, "dropout": 0.0}
    if kind == "transformer":
        side |= {"heads": 2, "feed_forward": 8}
    config = ClassifierModelConfig.model_validate({"encoder": side, "pooling": pooling})
    net = build_classifier(config, types=9, classes=3).double().eval()
    tokens, valid = torch.tensor([[2, 5, 6, 3]]), torch.ones(1, 4, dtype=torch.bool)
    padded = torch.nn.functional.pad(tokens, (0, 2))
    with torch.no_grad():
        alone, beside = net(tokens, valid), net(padded, torch.nn.functional.pad(valid, (0, 2)))
    torch.testing.assert_close(alone.logits, beside.logits)
    assert beside.weights[0, 4:].tolist() == [0, 0]
    assert float(alone.weights.sum()) == pytest.approx(1)
    if pooling in ("first", "last"):
        assert int(alone.weights.argmax()) == {"first": 0, "last": 3}[pooling]


@pytest.fixture(scope="module")
def case() -> TaskCase:
    return TaskCase(find_task("classification"), "classification")


def test_a_classifier_says_labels_and_probabilities(case: TaskCase) -> None:
    predictor = case.predictor
    assert isinstance(predictor, Classifier) and predictor.labels == ("bad", "good")
    found = predictor(["a fine film", ""])
    told = json.loads(predictor.write(found[0], json=True))
    assert told["probabilities"].keys() == {"bad", "good"}
    assert sum(found[1].probabilities.values()) == pytest.approx(1)
    assert len(found[0].weights) == 5
    assert predictor(["a fine film"], abstain_below=1.1)[0].label is None
    assert predictor.write(predictor(["x"], abstain_below=1.1)[0], json=False).startswith("?\t")


def test_an_unknown_label_of_validation_is_named_by_line(tmp_path: Path, case: TaskCase) -> None:
    tables = dict(case.tables)
    (tmp_path / "valid.tsv").write_text("a film\tgood\na film\tstrange\n")
    tables["data"] = tables["data"] | {"valid": [{"source": str(tmp_path / "valid.tsv")}]}
    from regard.runs.run_folder import RunFolder

    run = RunFolder.create(tmp_path / "run", load_config({"task": "classification", **tables}))
    with pytest.raises(DataError, match="strange") as caught:
        case.task.prepare(run, lambda message: None, None)
    assert str(caught.value.where).endswith("valid.tsv:2")


def test_balanced_classes_cost_alike(tmp_path: Path, case: TaskCase) -> None:
    from regard.runs.run_folder import RunFolder

    (tmp_path / "a.tsv").write_text("a\tx\n" * 3 + "b\ty\n")
    data = {"train": [{"source": str(tmp_path / "a.tsv")}], "class_weights": "balanced"}
    run = RunFolder.create(tmp_path / "run", load_config({**case.tables, "task": "classification", "data": data}))
    train = case.task.prepare(run, lambda message: None, None).train
    batch = train.collate(train.batches(None)[0])
    assert sorted(batch.cost.tolist()) == pytest.approx([4 / 6] * 3 + [2.0])


def test_a_file_of_texts_and_labels_is_recognised(tmp_path: Path) -> None:
    labels, pairs = tmp_path / "labels.tsv", tmp_path / "pairs.tsv"
    labels.write_text("".join(f"text {number}\t{number % 2}\n" for number in range(40)))
    pairs.write_text("".join(f"text {number}\tein Text {number}\n" for number in range(40)))
    proposal = choose([labels], [], {})
    assert proposal is not None
    assert load_config(proposal.config).task.kind == "classification"
    assert choose([pairs], [], {}) is None


def test_columns_of_two_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="data"):
        load_config({"task": "classification", "data": {"train": [{"source": "a.tsv"}], "text": ["a"], "label": 2}})

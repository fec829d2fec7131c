"""Classification: what is read, what is measured, and what a trained classifier says."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.attention.span import Span
from regard.core.observation import WHOLE
from regard.core.task import find_task
from regard.core.wording import pluralize
from regard.data.padding import padded
from regard.data.shared_files import FilesConfig
from regard.errors import DataError, ModelError, RegardError
from regard.metrics.classes import (
    calibration_error,
    class_figures,
    class_metrics,
    class_tables,
    label_set_metrics,
    label_set_sums,
    label_set_tables,
    prediction_sums,
)
from regard.metrics.numbers import number_metrics, number_sums
from regard.models.classifier import build_classifier, token_input
from regard.models.classifier_config import ClassifierModelConfig
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.classification.automatic_config import choose
from regard.tasks.classification.data_config import LabeledDataConfig
from regard.tasks.classification.labeled_text import read_labeled
from regard.tasks.net_outputs import run_network
from regard.tasks.supervised_predictor import SupervisedPredictor
from regard.testing import TaskCase


def data_of(path: Path, **keys: object) -> LabeledDataConfig:
    return LabeledDataConfig.model_validate({"train": [{"source": str(path)}], **keys})


def read(path: Path, **keys: object) -> list[tuple[tuple[str, ...], str]]:
    data = data_of(path, **keys)
    return [(each.texts, each.labels[0]) for each in read_labeled(data.train, data)]


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
        ("x\ty\na\tb\n", {"text": ["x"], "label": "z"}, "no column 'z'"),
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
        {each.texts for each in read_labeled([FilesConfig(source=path, share=share)], data)}
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


def test_rows_that_are_no_numbers_are_counted() -> None:
    """A loss that is not finite is the trainer's to tell, so that its sums must not fail before it."""
    sums = prediction_sums(torch.full((2, 3), float("nan")), torch.tensor([0, 2]))
    assert float(sums["confusion"].sum()) == 2 and float(sums["reliability"][0].sum()) == 2


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
    net = build_classifier(config, token_input(config, 9), classes=3).double().eval()
    tokens, valid = torch.tensor([[2, 5, 6, 3]]), torch.ones(1, 4, dtype=torch.bool)
    padded = torch.nn.functional.pad(tokens, (0, 2))
    with torch.no_grad():
        alone, beside = net(tokens, Span.of(valid)), net(padded, Span.of(torch.nn.functional.pad(valid, (0, 2))))
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
    assert isinstance(predictor, SupervisedPredictor) and predictor.labels == ("bad", "good")
    found = predictor(["a fine film", ""])
    told = json.loads(predictor.write(found[0], json=True))
    assert told["probabilities"].keys() == {"bad", "good"}
    assert sum(found[1].probabilities.values()) == pytest.approx(1)
    assert len(found[0].weights) == 5
    assert predictor(["a fine film"], abstain_below=1.0)[0].label is None
    assert predictor.write(predictor(["x"], abstain_below=1.0)[0], json=False).startswith("?\t")


def test_an_unknown_label_of_validation_is_named_by_line(tmp_path: Path, case: TaskCase) -> None:
    tables = dict(case.tables)
    (tmp_path / "valid.tsv").write_text("a film\tgood\na film\tstrange\n")
    tables["data"] = tables["data"] | {"valid": [{"source": str(tmp_path / "valid.tsv")}]}
    run = RunFolder.create(tmp_path / "run", load_config({"task": "classification", **tables}))
    with pytest.raises(DataError, match="strange") as caught:
        case.task.prepare(run, lambda message: None, None)
    assert str(caught.value.where).endswith("valid.tsv:2")


def test_balanced_classes_cost_alike(tmp_path: Path, case: TaskCase) -> None:
    (tmp_path / "a.tsv").write_text("a\tx\n" * 3 + "b\ty\n")
    data = {"train": [{"source": str(tmp_path / "a.tsv")}], "class_weights": "balanced"}
    run = RunFolder.create(tmp_path / "run", load_config({**case.tables, "task": "classification", "data": data}))
    train = case.task.prepare(run, lambda message: None, None).train
    batch = train.collate(train.batches(None)[0])
    assert sorted(batch.row_weights.tolist()) == pytest.approx([4 / 6] * 3 + [2.0])


def test_a_file_of_texts_and_labels_is_recognized(tmp_path: Path) -> None:
    labels, pairs = tmp_path / "labels.tsv", tmp_path / "pairs.tsv"
    labels.write_text("".join(f"text {number}\t{number % 2}\n" for number in range(40)))
    pairs.write_text("".join(f"text {number}\tein Text {number}\n" for number in range(40)))
    proposal = choose([labels], [], {})
    assert proposal is not None
    assert load_config(proposal.config).task.kind == "classification"
    assert proposal.config["data"]["tokenizer"]["kind"] == "word"
    assert choose([pairs], [], {}) is None
    molecules = tmp_path / "molecules.tsv"
    molecules.write_text("".join(f"{'ACGT' * 8}{'ACGT'[number % 4]}\t{number % 2}\n" for number in range(40)))
    proposal = choose([molecules], [], {})
    assert proposal is not None and any("character tokenizer" in reason for reason in proposal.reasons)
    config = load_config(proposal.config)
    assert config.data.tokenizer.kind == "character" and config.model.encoder.kind == "convolutional"


def test_columns_of_two_kinds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="data"):
        load_config({"task": "classification", "data": {"train": [{"source": "a.tsv"}], "text": ["a"], "label": 2}})


def trained_files(folder: Path, lines: str, tables: dict[str, object], **data: object) -> tuple[RunFolder, Any]:
    """A run over these lines, prepared, and its task."""
    (folder / "a.tsv").write_text(lines)
    corpus = [{"source": str(folder / "a.tsv")}]
    config = load_config({**tables, "task": "classification", "data": {"train": corpus, "valid": corpus, **data}})
    run = RunFolder.create(folder / "run", config)
    return run, find_task("classification").prepare(run, lambda message: None, None)


def sums_of(run: RunFolder, data: Any, net: torch.nn.Module) -> dict[str, torch.Tensor]:
    objective = find_task("classification").objective(run.config)
    parts = [objective(net.eval(), data.train.collate(each), ()).sums for each in data.train.batches(None)]
    return {name: torch.stack([part[name] for part in parts]).sum(0) for name in parts[0]}


def test_label_sets_are_read_from_cells_and_lists(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\tx, y,x\ntwo\t\n")
    data = data_of(tmp_path / "a.tsv", label_kind="several")
    assert [each.labels for each in read_labeled(data.train, data)] == [("x", "y"), ()]
    (tmp_path / "a.jsonl").write_text('{"text": "a", "label": ["x", "y"]}\n{"text": "b", "label": "y;x"}\n')
    data = data_of(tmp_path / "a.jsonl", label_kind="several", label_separator=";")
    assert [each.labels for each in read_labeled(data.train, data)] == [("x", "y"), ("y", "x")]


def test_figures_of_label_sets_by_pencil() -> None:
    told = torch.tensor([[True, False, True], [False, False, True], [False, False, False]])
    wanted = torch.tensor([[True, True, False], [False, False, True], [True, False, False]])
    found = label_set_metrics(label_set_sums(told, wanted) | {"nll": torch.tensor(6.0)})
    assert found["loss"] == 2 and found["exact_match"] == pytest.approx(1 / 3)
    assert found["micro_f1"] == pytest.approx(2 * 2 / (3 + 4))
    assert found["macro_f1"] == pytest.approx((2 / 3 + 0 + 2 / 3) / 3)
    assert found["usual_micro_f1"] == pytest.approx(2 * 2 / (3 + 4))  # "the first" three times, twice right
    rows = label_set_tables(label_set_sums(told, wanted), ["a", "b", "c"])["classes"].rows
    assert rows == (
        ("a", 1.0, 0.5, pytest.approx(2 / 3), 2),
        ("b", 0.0, 0.0, 0.0, 1),
        ("c", 0.5, 1.0, pytest.approx(2 / 3), 1),
    )


def test_figures_of_numbers_by_pencil() -> None:
    told, wanted = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([2.0, 2.0, 5.0])
    rest = number_sums(told[1:], wanted[1:])
    sums = {name: value + rest[name] for name, value in number_sums(told[:1], wanted[:1]).items()}
    found = number_metrics(sums | {"nll": torch.tensor(3.0)})
    assert (
        found["loss"] == 1 and found["mae"] == pytest.approx(2 / 3) and found["rmse"] == pytest.approx((2 / 3) ** 0.5)
    )
    assert found["mean_rmse"] == pytest.approx(2**0.5)
    assert found["pearson"] == pytest.approx(float(torch.corrcoef(torch.stack([told, wanted]))[0, 1]), abs=1e-6)
    flat = number_sums(torch.zeros(3), wanted) | {"nll": torch.tensor(0.0)}
    assert number_metrics(flat)["pearson"] == 0


def test_several_labels_are_told_apart(tmp_path: Path, case: TaskCase) -> None:
    run, data = trained_files(tmp_path, "a b\tx,y\na\tx\nc\t\n", case.tables, label_kind="several")
    batch = data.train.collate(data.train.batches(None)[0])
    assert sorted(batch.targets.tolist()) == [[0, 0], [1, 0], [1, 1]]
    net = build_classifier(run.config.model, token_input(run.config.model, len(data.codecs.tokenizer)), classes=2)
    torch.nn.init.zeros_(net.output.weight)
    net.output.bias.data = torch.tensor([2.0, -1.0])
    sums = sums_of(run, data, net)
    wanted = sum(float(torch.tensor(each).sigmoid().log()) for each in (2, 2, -2, 1, 1, -1))
    assert float(sums["nll"]) == pytest.approx(-wanted, rel=1e-5)
    assert find_task("classification").compute_metrics(sums)["exact_match"] == pytest.approx(1 / 3)
    model = SupervisedPredictor(net, data.codecs, run.config)
    (found,) = model(["a"])
    assert found.labels == ("x",) and model.write(found, json=False) == "x"
    assert found.probabilities == {"x": pytest.approx(0.880797, abs=1e-6), "y": pytest.approx(0.268941, abs=1e-6)}
    assert (
        model(["a"], threshold=0.2)[0].labels == ("x", "y")
        and model.write(model(["a"], threshold=1.0)[0], json=False) == ""
    )
    assert json.loads(model.write(found, json=True)) == {
        "labels": ["x"],
        "probabilities": {"x": 0.880797, "y": 0.268941},
    }


def test_numbers_are_told_in_the_unit_of_the_labels(tmp_path: Path, case: TaskCase) -> None:
    run, data = trained_files(tmp_path, "a\t10\nb\t14\nc\t1.2e1\n", case.tables, label_kind="number")
    scale = data.codecs.answer.scale
    assert scale.mean == 12 and scale.deviation == pytest.approx((8 / 3) ** 0.5) and data.spec["classes"] == 1
    net = build_classifier(run.config.model, token_input(run.config.model, len(data.codecs.tokenizer)), classes=1)
    torch.nn.init.zeros_(net.output.weight)
    net.output.bias.data = torch.tensor([1.0])
    model = SupervisedPredictor(net, data.codecs, run.config)
    (found,) = model(["a"])
    assert (
        found.value == pytest.approx(12 + scale.deviation) and model.write(found, json=False) == f"{found.value:.10g}"
    )
    assert json.loads(model.write(found, json=True)) == {"value": round(found.value, 6)}
    figures = find_task("classification").compute_metrics(sums_of(run, data, net))
    assert figures["mean_rmse"] == pytest.approx(scale.deviation)
    assert figures["rmse"] == pytest.approx((2 * scale.deviation**2) ** 0.5)  # one deviation off, and the spread
    assert find_task("classification").open(run).codecs.answer.scale == scale
    for damaged in (
        "{}",
        '{"mean": 1, "deviation": 0}',
        '{"mean": NaN, "deviation": 1}',
        "[",
        '{"mean": 1, "deviation": "x"}',
    ):
        (run.path / "tokenizer" / "labels.json").write_text(damaged)
        with pytest.raises(ModelError, match=r"labels\.json is damaged"):
            find_task("classification").open(run)


@pytest.mark.parametrize("label", ["many", "", "nan", "inf"])
def test_a_label_that_is_no_number_is_named_by_line(tmp_path: Path, case: TaskCase, label: str) -> None:
    with pytest.raises(DataError) as caught:
        trained_files(tmp_path, f"a\t1\nb\t{label}\n", case.tables, label_kind="number")
    assert str(caught.value.where).endswith(":2")


@pytest.mark.parametrize(
    ("data", "train", "told"),
    [
        ({"label_kind": "number", "class_weights": "balanced"}, {}, "class_weights"),
        ({"label_kind": "several"}, {"best_by": "accuracy"}, "micro_f1"),
        ({"label_kind": "number"}, {"best_by": "micro_f1"}, "rmse"),
    ],
)
def test_settings_that_do_not_fit_the_kind_of_label(data: dict[str, str], train: dict[str, str], told: str) -> None:
    corpus = [{"source": "a.tsv"}]
    tables = {"task": "classification", "data": {"train": corpus, "valid": corpus, **data}, "train": train}
    with pytest.raises(RegardError) as caught:
        load_config(tables)
    assert told in f"{caught.value} {caught.value.where} {caught.value.help}"


def test_probabilities_are_divided_by_the_temperature_of_validation(tmp_path: Path, case: TaskCase) -> None:
    """Logits that are thrice too large: validation is likeliest under a temperature of 3."""
    run, data = trained_files(tmp_path, "a\tx\n" * 150 + "a\ty\n" * 50, case.tables)
    net = build_classifier(run.config.model, token_input(run.config.model, len(data.codecs.tokenizer)), classes=2)
    torch.nn.init.zeros_(net.output.weight)
    net.output.bias.data = torch.tensor([3 * math.log(3), 0.0])  # p(x) = 3/4 under a temperature of 3
    figures = find_task("classification").compute_metrics(sums_of(run, data, net))
    assert figures["temperature"] == pytest.approx(3, rel=0.06)
    records = [
        {"step": 1, "validation": {"loss": 1.0, "temperature": 2.0}},
        {"step": 2, "validation": {"loss": 2.0, "temperature": 4.0}},
    ]
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    codec = find_task("classification").open(run).codecs
    assert codec.answer.temperature == 4  # of the last, where none is the best
    (run.path / "checkpoints").mkdir(exist_ok=True)
    best = {"checkpoint": "step-000001", "step": 1, "metric": "loss", "value": 1.0}
    (run.path / "checkpoints" / "best.json").write_text(json.dumps(best))
    codec = find_task("classification").open(run).codecs
    assert codec.answer.temperature == 2
    model = SupervisedPredictor(net, codec, run.config)
    assert model(["a"])[0].probability == pytest.approx(1 / (1 + 3**-1.5))
    (run.path / "checkpoints" / "average").mkdir()
    assert find_task("classification").open(run).codecs.answer.temperature == 4  # the nearest to an average
    codec.answer.temperature = 3.0
    scaled = SupervisedPredictor(net, codec, run.config)
    sums = scaled.measure(data.train, np.arange(200), ["scaled_calibration_error"])
    assert calibration_error(sums["scaled_reliability"]) == pytest.approx(0, abs=1e-7)
    assert figures["calibration_error"] > 0.2 and scaled.measure(data.train, np.arange(200), ["accuracy"]) == {}


def test_what_a_classifier_looked_at(case: TaskCase) -> None:
    seen = case.predictor.inspect("a fine film")
    pooling = seen.maps["pooling"]
    assert pooling.key.labels[1:4] == ("a", "fine", "film") and pooling.weights.shape == (1, 1, 5)
    assert seen.surfaces[0].pieces == pooling.key.labels and len(seen.attention) == 2
    (prediction,) = seen.predictions
    assert prediction.site == WHOLE and {each.label for each in prediction.alternatives} == {"good", "bad"}
    assert sum(math.exp(each.log_probability) for each in prediction.alternatives) == pytest.approx(1)
    with pytest.raises(RegardError, match="too long"):
        case.predictor.inspect("film " * 300)


def test_texts_apart_are_compared(tmp_path: Path, case: TaskCase) -> None:
    """Each text knows nothing of the other; which is first is told by nothing but the comparison."""
    tables = {**case.tables, "model": {**case.tables["model"], "pairs": "apart"}}
    run, data = trained_files(tmp_path, "a b c\td\tx\nc\ta b\ty\n", tables, text=[1, 2], label=3)
    batch = data.train.collate(data.train.batches(None)[0])
    assert batch.inputs[0].values.shape == (2, 2, 5) and batch.inputs[0].valid.sum(2).tolist() in (
        [[5, 3], [3, 4]],
        [[3, 4], [5, 3]],
    )
    assert batch.inputs[0].values[..., 0].eq(2).all()
    net = build_classifier(
        run.config.model, token_input(run.config.model, len(data.codecs.tokenizer)), classes=2
    ).eval()
    model = SupervisedPredictor(net, data.codecs, run.config)
    one, longer = model([("a b", "c"), ("a b", "c d a")])
    assert [piece for piece, _ in one.weights] == ["<s>", "a", "b", "</s>", "c", "</s>"]
    assert dict(one.weights[:4]) == pytest.approx(dict(longer.weights[:4])) and len(longer.weights) == 8
    seen = model.inspect(("a b", "c"))
    first, second = (each for each in seen.attention if each.part.endswith(("text 1", "text 2")))
    assert [surface.pieces for surface in seen.surfaces] == [first.key.labels, second.key.labels]
    assert first.weights.shape[1:] == (4, 4) and second.weights.shape[1:] == (3, 3)
    assert seen.maps["pooling"].weights.shape == (1, 1, 6)
    with torch.no_grad():
        rows = [padded([np.array(row)]) for row in ([2, 4, 5, 3], [2, 6, 3])]
        states = [net.encoder(tokens, Span.of(valid)).states[0] for tokens, valid in rows]
        u, v = (state.mean(0) for state in states)
        net.pooling = "mean"
        wanted = net.output(net.compare(torch.cat([u, v, (u - v).abs(), u * v])).relu())
        pair = data.codecs.fields["text"].pad([np.array([2, 4, 5, 3, 6, 3])])
        found = run_network(net, {"text": pair}).logits[0]
    torch.testing.assert_close(found, wanted)


def test_a_comparison_needs_two_texts() -> None:
    corpus = [{"source": "a.tsv"}]
    with pytest.raises(RegardError, match="pairs"):
        load_config({"task": "classification", "data": {"train": corpus}, "model": {"pairs": "apart"}})


def test_an_example_of_another_number_of_texts_is_refused_with_its_place(tmp_path: Path, case: TaskCase) -> None:
    """By Python, by a line, and by a look inside, of a model of one text and of one that compares two."""
    run, data = trained_files(tmp_path, "a b c\td\tx\nc\ta b\ty\n", dict(case.tables), text=[1, 2], label=3)
    net = build_classifier(
        run.config.model, token_input(run.config.model, len(data.codecs.tokenizer)), classes=2
    ).eval()
    pairs = SupervisedPredictor(net, data.codecs, run.config)
    for model, good, bad in ((case.predictor, ("a",), ("a", "b")), (pairs, ("a", "b"), ("a",))):
        with pytest.raises(DataError) as caught:
            model([good, bad])
        found = caught.value
        assert found.where == "input 2" and found.why and found.help
        assert found.what == f"found {pluralize(len(bad), 'text')}; the model reads {len(good)}"
        with pytest.raises(DataError, match="the model reads"):
            model.inspect(bad)
    with pytest.raises(DataError, match="by a tab"):
        pairs.read("a b")

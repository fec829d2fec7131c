"""The rows of ``regard evaluate -o``: they give the printed metrics, by libraries and for every task with answers."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics as sklearn

import regard as package
from regard.answers.spans import spans
from regard.commands.prediction_files import write_predictions
from regard.core.outcomes import MeasuredRows, OutcomeRow, TargetOutcome
from regard.core.task import Metric, find_task
from regard.core.task_table import TASKS
from regard.errors import ConfigError
from regard.metrics.error_analysis import confusions, slices, worst_rows
from regard.runs.run_folder import RunFolder
from regard.tasks.measured_outcomes import measure_outcomes, require_outcomes
from regard.testing import TaskCase
from tests.laws import frames_task

SUPERVISED = [kind for kind in TASKS if find_task(kind).outcomes is not None]
LABELS = {  # of the texts of the sample of classification, in order
    "numbers": ["1.5", "-2", "3", "0", "7", "1e1"],
    "label sets": ["red", "red,round", "large", "round,large", "red", "red,large,round"],
}
SPANS = "Ann\tB-PER\nLee\tI-PER\nsees\tO\nRome\tB-LOC\n\nRome\tB-LOC\nsleeps\tO\n\nLee\tB-PER\nsees\tO\nAnn\tB-PER\n\n"


def case_of(kind: str) -> TaskCase:
    """A task on its sample, whose answers are changed."""
    if kind == "frames":
        return TaskCase(frames_task.TASK, "classification")
    name = "tagging" if kind == "spans" else "classification"
    case = TaskCase(find_task(name), name)
    data = case.tables["data"]
    source = Path(data["train"][0]["source"])
    if kind == "spans":
        source.write_text(SPANS)
        return case
    texts = [line.split("\t")[0] for line in source.read_text().splitlines()]
    source.write_text("".join(f"{text}\t{label}\n" for text, label in zip(texts, LABELS[kind], strict=True)))
    data["label_kind"] = {"numbers": "number", "label sets": "several"}[kind]
    return case


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Runs with answers that the samples of the tasks do not have."""
    cases = {kind: case_of(kind) for kind in (*LABELS, "spans", "frames")}  # their files are removed with them
    folder = tmp_path_factory.mktemp("others")
    yield {
        kind: package.train(
            case.tables | {"train": case.tables["train"] | {"steps": 2, "shards": 1}}, folder / kind.replace(" ", "-")
        )
        for kind, case in cases.items()
    }


def files_of(run: Path) -> list[str]:
    corpus = RunFolder.open(run).config.data.train[0]
    return [str(file) for file in (corpus.source, getattr(corpus, "edges", None)) if file is not None]


def evaluated(run: Path, path: Path) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """The printed metrics, and the rows of the file."""
    has_parts = "part" in type(RunFolder.open(run).config.data).model_fields  # the sample has no test nodes
    found = package.evaluate(run, *files_of(run), outcomes=True, **({"part": "valid"} if has_parts else {}))
    assert found.outcomes is not None
    write_predictions(found.outcomes.rows, path)
    return found.figures, read(path)


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return [{name: cell for name, cell in row.items() if cell} for row in csv.DictReader(file)]


def expected(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, float]:
    """The metrics of the rows, by libraries."""
    figures: dict[str, Any] = {"loss": np.mean([float(row["loss"]) for row in rows if "loss" in row])}
    target, prediction = ([row.get(name, "") for row in rows] for name in ("target", "prediction"))
    if "accuracy" in names:
        figures["accuracy"] = sklearn.accuracy_score(target, prediction)
    if "perplexity" in names:
        figures["perplexity"] = np.exp(figures["loss"])
    if "majority" in names:
        figures["macro_f1"] = sklearn.f1_score(target, prediction, average="macro")
        figures["majority"] = max(target.count(label) for label in target) / len(target)
    if "scaled_calibration_error" in names:
        p = np.array([float(row["probability"]) for row in rows])
        right, bins = np.array(target) == np.array(prediction), (p * 15).astype(int).clip(0, 14)
        gaps = [abs(right[bins == each].sum() - p[bins == each].sum()) for each in range(15)]
        figures["scaled_calibration_error"] = sum(gaps) / len(p)
    if "rmse" in names:
        numbers = np.array([target, prediction], float)
        figures["rmse"] = sklearn.mean_squared_error(*numbers) ** 0.5
        figures["mae"] = sklearn.mean_absolute_error(*numbers)
        figures["pearson"] = stats.pearsonr(*numbers).statistic
        assert np.allclose(numbers[1] - numbers[0], [float(row["error"]) for row in rows], atol=1e-6)
    if "exact_match" in names:
        sets = [[set(filter(None, cell.split(","))) for cell in side] for side in (target, prediction)]
        figures["exact_match"] = np.mean([one == other for one, other in zip(*sets, strict=True)])
        both = sum(len(one & other) for one, other in zip(*sets, strict=True))
        figures["micro_f1"] = 2 * both / sum(len(one) for side in sets for one in side)
    if "hit_rate_10" in names:
        ranks = np.array([int(row["rank"]) for row in rows if int(row["position"]) > 1])
        figures["hit_rate_10"] = np.mean(ranks <= 10)
        figures["ndcg_10"] = np.sum(1 / np.log2(ranks[ranks <= 10] + 1)) / len(ranks)
    if "auc" in names:
        edge = [
            float(row["probability"]) if row["prediction"] == "edge" else 1 - float(row["probability"]) for row in rows
        ]
        figures["auc"] = sklearn.roc_auc_score([label == "edge" for label in target], edge)
    if "exact" in names:
        right = [row.get("output", row["prediction"]) == row["target"] for row in rows]
        sentences = [int(row["example"]) for row in rows]
        figures["exact"] = np.mean([all(np.array(right)[np.array(sentences) == each]) for each in {*sentences}])
    if "entity_f1" in names:
        sides = [
            [(n, *span) for n, tags in by_example(rows, name) for span in spans(tags)] for name in ("target", "output")
        ]
        figures["entity_f1"] = 2 * len({*sides[0]} & {*sides[1]}) / max(sum(map(len, sides)), 1)
    return figures


def by_example(rows: Sequence[Mapping[str, Any]], name: str) -> list[tuple[int, list[str]]]:
    numbers = dict.fromkeys(int(row["example"]) for row in rows)
    return [(number, [row[name] for row in rows if int(row["example"]) == number]) for number in numbers]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("kind", [*SUPERVISED, *LABELS, "spans", "frames"])
def test_rows_give_the_printed_metrics(
    runs: dict[str, Path], others: dict[str, Path], kind: str, ending: str, tmp_path: Path
) -> None:
    run = (runs | others)[kind]
    figures, rows = evaluated(run, tmp_path / f"rows{ending}")
    computed = expected(rows, [*figures])
    assert len(computed) > 1 or kind == "forecasting"  # its rows hold means over the horizon
    for name, value in computed.items():
        assert value == pytest.approx(figures[name], rel=1e-5, abs=1e-6), name
    assert all(row["location"].startswith(files_of(run)[0]) for row in rows)
    assert [int(row["example"]) for row in rows] == sorted(int(row["example"]) for row in rows)
    for row in rows if kind in ("label sets", "tagging", "spans") else ():  # without a temperature
        assert float(row["target_probability"]) == pytest.approx(np.exp(-float(row["loss"])), rel=1e-4)


@pytest.fixture(scope="module")
def tagged(runs: dict[str, Path]) -> tuple[Path, Path]:
    """A tagging run and its file."""
    return runs["tagging"], Path(files_of(runs["tagging"])[0])


def test_the_command_writes_one_row_for_each_token(regard, tagged: tuple[Path, Path], tmp_path: Path) -> None:
    run, file = tagged
    printed = regard("evaluate", run, file, "-o", tmp_path / "rows.csv")
    assert printed.exit_code == 0 and "highest losses" not in printed.stdout
    rows, lines = read(tmp_path / "rows.csv"), file.read_text().splitlines()
    words = [(number, *line.split("\t")) for number, line in enumerate(lines, 1) if line]
    assert [(row["token"], row["target"]) for row in rows] == [tuple(word[1:]) for word in words]
    for row, (number, *_) in zip(rows, words, strict=True):
        place, first = row["location"].rpartition(":")[::2]
        assert place == str(file) and int(first) + int(row["position"]) - 1 == number
        assert row["token"] in row["input"].split()


def test_the_input_of_a_next_item_is_the_items_before_it(runs: dict[str, Path], tmp_path: Path) -> None:
    _, rows = evaluated(runs["next-item"], tmp_path / "rows.jsonl")
    sessions = [line.split() for line in Path(files_of(runs["next-item"])[0]).read_text().splitlines()]
    for row in rows:
        session, place = sessions[row["example"] - 1], row["position"] - 1
        assert (row["input"], row["target"]) == (" ".join(session[:place]), session[place])


def test_an_unknown_item_is_a_miss_without_a_loss(runs: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "test.txt").write_text("i0 i9 i1\n")
    found = package.evaluate(runs["next-item"], tmp_path / "test.txt", outcomes=True)
    assert found.outcomes is not None
    first, unknown, last = found.outcomes.rows
    assert (unknown.outcome.target, unknown.loss, unknown.outcome.target_probability) == ("i9", None, None)
    assert unknown.outcome.rank == 7 and not unknown.is_right  # of six items
    assert found.figures["loss"] == pytest.approx(((first.loss or 0) + (last.loss or 0)) / 2, rel=1e-5)


def test_every_value_is_measured_once() -> None:
    """Of 40 values, group g has the values g, g + 16 and g + 32; the rows are in the order of the values."""

    class Forty:
        unit = "texts"

        def __len__(self) -> int:
            return 40

        def measure(self, values: Sequence[int], names: Sequence[str]) -> MeasuredRows:
            assert names == ["decoded"]
            return MeasuredRows([row(value + 1, "a", "a") for value in values], {"seen": torch.tensor([*values][-1])})

    metrics = {"decoded": Metric(lower_is_better=True, by_predictor=True), "other": Metric(lower_is_better=True)}
    task: Any = SimpleNamespace(metrics=metrics, outcomes=lambda predictor, examples: Forty())
    measured = measure_outcomes(task, None, None)  # type: ignore[arg-type]
    assert [each.example for each in measured.rows] == [*range(1, 41)] and measured.unit == "texts"
    assert [int(sums["seen"]) for sums in measured.groups] == [*range(32, 40), *range(24, 32)]


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_errors_are_printed_on_request_and_fit_a_terminal(regard, runs: dict[str, Path], kind: str) -> None:
    run, file = runs[kind], *files_of(runs[kind])
    printed = regard("evaluate", run, file, "--errors").stdout
    assert "highest losses" in printed and "slices" in printed
    assert ("most frequent confusions" in printed) == (package.evaluate(run, file).figures["accuracy"] < 1)
    analysis = printed[printed.index("highest losses") : printed.rindex("checkpoint")].splitlines()[:-1]
    assert max(map(len, analysis)) <= 80
    errors = json.loads(regard("evaluate", run, file, "--errors", "--json").stdout)["errors"]
    assert len(errors["worst"]) == 5 and errors["worst"][0]["loss"] >= errors["worst"][4]["loss"]
    assert (
        sum(row["n"] for row in errors["slices"] if row["slice"].startswith("length"))
        == {"classification": 6, "tagging": 24}[kind]
    )
    assert "errors" not in json.loads(regard("evaluate", run, file, "--json").stdout)


def test_what_cannot_be_analyzed_is_refused(regard, tagged, tmp_path, monkeypatch) -> None:
    run, file = tagged
    wrong = regard("evaluate", run, file, "-o", tmp_path / "rows.txt").exception
    assert isinstance(wrong, ConfigError) and ".csv or a .jsonl" in str(wrong.help)
    plain = replace(find_task("tagging"), outcomes=None)
    with pytest.raises(ConfigError, match="one by one") as caught:
        require_outcomes(plain)
    assert "no separate answers" in str(caught.value.why)
    monkeypatch.setenv("RANK", "0")
    wrong = regard("evaluate", run, file, "--errors").exception
    assert isinstance(wrong, ConfigError) and "single process" in wrong.what


def row(number: int, target: Any, prediction: Any, *, length: int = 1, loss: float | None = 1.0) -> OutcomeRow:
    return OutcomeRow("a.csv:1", number, None, None, "text", length, TargetOutcome(target, prediction, 0.5, 0.5), loss)


def test_worst_rows_confusions_and_slices_by_hand() -> None:
    labels = ["aa", "ab", "ab", "ba", "aa", "aa", "aa", "cb"]  # target and prediction of each row
    rows = [row(n, *pair, length=(n + 1) // 2, loss=float(n % 5)) for n, pair in enumerate(labels, 1)]
    assert [each.example for each in worst_rows(rows, 3)] == [4, 3, 8]
    assert confusions(rows).rows == (("a", "b", 2), ("b", "a", 1), ("c", "b", 1))
    assert slices(rows).rows == (
        ("length 1", 2, 0.5, 1.5), ("length 2", 2, 0.0, 3.5), ("length 3", 2, 1.0, 0.5), ("length 4", 2, 0.5, 2.5),
        ("rare classes (≤ 1)", 2, 0.0, 3.5), ("common classes (> 1)", 6, pytest.approx(4 / 6), pytest.approx(9 / 6)),
    )  # fmt: skip


def test_slices_of_one_part_are_omitted() -> None:
    assert slices([row(n, label, "a") for n, label in enumerate("aabb")]).rows == ()
    halves = slices([row(n, label, "a") for n, label in enumerate("aabc")]).rows
    assert halves == (("rare classes (≤ 1)", 2, 0.0, 1.0), ("common classes (> 1)", 2, 1.0, 1.0))
    numbers = [row(n, 3.0, 3.0 + n, length=n, loss=None if n else 2.0) for n in (0, 4)]
    assert slices(numbers).columns == ("slice", "n", "mae", "loss")
    assert [each[:3] for each in slices(numbers).rows] == [("length 0", 1, 0.0), ("length 4", 1, 4.0)]
    assert confusions(numbers).rows == ()


def test_a_spreadsheet_computes_no_cell(tmp_path: Path) -> None:
    texts = ["=1+1", "@sum", "-1", "+1.5e3", "-a", "\tb", 'a "b",\nc', "plain"]
    rows = [row(n, text, "x")._replace(input=text) for n, text in enumerate(texts, 1)]
    write_predictions(rows, tmp_path / "rows.csv")
    expected = ["'=1+1", "'@sum", "-1", "+1.5e3", "'-a", "'\tb", 'a "b",\nc', "plain"]
    assert [each["target"] for each in read(tmp_path / "rows.csv")] == expected
    assert [each["input"] for each in read(tmp_path / "rows.csv")] == expected
    write_predictions(rows, tmp_path / "rows.jsonl")
    assert [each["target"] for each in read(tmp_path / "rows.jsonl")] == texts


@pytest.mark.parametrize("kind", ["classification", "nodes", "links", "graphs"])
def test_probabilities_are_divided_by_the_temperature_of_validation(
    runs: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    """Of two classes, the log-odds of a prediction times the temperature are those of the network."""
    log_odds = []
    for temperature in (1.0, 2.0):
        run = Path(shutil.copytree(runs[kind], tmp_path / str(temperature)))
        step = json.loads((run / "checkpoints" / "best.json").read_text())["step"]
        validation = {"step": step, "validation": {"loss": 1.0, "temperature": temperature}}
        (run / "metrics.jsonl").write_text(json.dumps(validation) + "\n")
        model = package.load(run)
        outputs = model([model.read(line) for line in find_task(kind).sample_lines[:2]])
        _, rows = evaluated(run, tmp_path / "rows.jsonl")
        p = np.array([*(output.probability for output in outputs), *(row["probability"] for row in rows)])
        log_odds.append(temperature * np.log(p / (1 - p)))
    assert np.allclose(*log_odds, rtol=1e-4, atol=1e-5) and np.abs(log_odds[0]).max() > 0.01

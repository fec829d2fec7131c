"""The baseline of a run: fitted before the network, saved, compared with it, and named by warnings."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import regard as package
from regard.core.baseline import ARRAYS_FILE, FOLDER, SETTINGS_FILE, baseline_summary
from regard.core.task import find_task
from regard.errors import ModelError
from regard.inspection.run_history import describe_run
from regard.runs.config import load_config
from regard.runs.network_comparison import NAME as COMPARISON
from regard.runs.network_comparison import ComparedMetric, read_comparison
from regard.runs.run_folder import RunFolder
from regard.runs.shortcomings import shortcomings
from regard.tasks.evaluate import evaluate
from regard.tasks.evaluation import config_with_files, open_files
from regard.tasks.measured_outcomes import measure_values
from regard.testing import TaskCase
from regard.training.baseline import GROUPS, baseline_groups, compare, group_indices
from regard.training.progress import NullReporter
from regard.training.start import train
from tests.cli.test_outcomes import files_of


class Told(NullReporter):
    """The messages of a training."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, message: str) -> None:
        self.lines.append(message)


def films(folder: Path, *, updates: int = 2, more: Sequence[str] = ()) -> tuple[Path, Path, list[str]]:
    """A classifier of texts whose label is that of one word, trained for so many updates; its file and messages."""
    rest = ("film", "a film", "it is", "is it", "one", "the story", "a long story", "the end")
    rows = [(f"{word} {text}", label) for label, words in (("good", "fine great"), ("bad", "dull poor"))
            for word in words.split() for text in rest]  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "film.tsv").write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    corpus, told = {"source": str(folder / "film.tsv")}, Told()
    config = load_config({
        "task": "classification", "data": {"train": [corpus], "valid": [corpus]},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.0},
        "train": {"steps": updates, "batch_tokens": 64, "lr": 1e-5, "warmup": 1, "threads": 1, "baseline": True},
    }, more)  # fmt: skip
    return train(config, folder / "run", reporter=told), folder / "film.tsv", told.lines


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[str]]:
    return films(tmp_path_factory.mktemp("untrained"))


def test_a_baseline_is_fitted_first_and_told(untrained: tuple[Path, Path, list[str]]) -> None:
    run, _, lines = untrained
    (line,) = [line for line in lines if line.startswith("baseline: ")]
    assert "TF-IDF of words and characters with logistic regression: loss 0." in line and "accuracy 1" in line
    summary = baseline_summary(run / FOLDER)
    assert summary is not None and summary.figures["accuracy"] == 1


def test_evaluation_has_both_and_the_difference(untrained: tuple[Path, Path, list[str]]) -> None:
    run, file, _ = untrained
    found = evaluate(run, file)
    assert found.baseline is not None and found.baseline.figures["accuracy"] == 1
    difference, error = found.baseline.differences["accuracy"]
    assert difference == pytest.approx(found.figures["accuracy"] - 1) and difference < 0 < error
    assert found.baseline.differences["majority"] == (0, 0)


def test_it_is_in_the_output_of_commands(regard, untrained: tuple[Path, Path, list[str]]) -> None:
    run, file, _ = untrained
    told = regard("evaluate", run, file).stdout
    assert "baseline 1.0000  -" in told and "baseline: TF-IDF of words" in told
    as_json = json.loads(regard("evaluate", run, file, "--json").stdout)["baseline"]
    assert as_json["figures"]["accuracy"] == 1 and as_json["differences"]["accuracy"]["standard_error"] > 0
    assert "baseline    TF-IDF of words" in regard("info", run).stdout
    assert json.loads(regard("info", run, "--json").stdout)["baseline"]["figures"]["accuracy"] == 1
    assert "| Baseline | TF-IDF of words" in (run / "README.md").read_text()


def test_a_network_below_it_is_told(untrained: tuple[Path, Path, list[str]]) -> None:
    run, _, lines = untrained
    (found,) = [each for each in shortcomings(RunFolder.open(run)) if "below a simple baseline" in each.what]
    assert "accuracy" in found.what and "1.0000 by TF-IDF" in found.what and "regard train" in found.help
    assert any("below a simple baseline" in line for line in lines)


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    run, file, lines = films(tmp_path, more=["train.baseline=false"])
    assert not (run / FOLDER).exists() and not any(line.startswith("baseline") for line in lines)
    assert evaluate(run, file).baseline is None


def test_a_damaged_one_is_refused(tmp_path: Path) -> None:
    run, file, _ = films(tmp_path)
    settings, arrays = run / FOLDER / SETTINGS_FILE, run / FOLDER / ARRAYS_FILE
    whole = settings.read_text(), arrays.read_bytes()
    for text in ("{", "[]", '{"kind": "tokens", "settings": {}, "figures": {}}'):
        settings.write_text(text)
        with pytest.raises(ModelError):
            evaluate(run, file)
    settings.write_text(whole[0])
    for data in (b"", whole[1][:-8], whole[1][:100]):
        arrays.write_bytes(data)
        with pytest.raises(ModelError):
            evaluate(run, file)
    arrays.write_bytes(whole[1])
    assert evaluate(run, file).baseline is not None


def test_the_difference_is_kept_with_its_error(regard, untrained: tuple[Path, Path, list[str]]) -> None:
    """As evaluation computes it, since the validation data are those of the file."""
    run, file, _ = untrained
    comparison, found = read_comparison(run), evaluate(run, file)
    assert comparison is not None and found.baseline is not None
    assert "majority" in comparison.metrics and comparison.checkpoint == found.checkpoint
    for name, metric in comparison.metrics.items():
        difference, error = found.baseline.differences[name]
        assert metric.difference == pytest.approx(difference) and metric.error == pytest.approx(error)
        assert (metric.network, metric.baseline) == (
            pytest.approx(found.figures[name]), pytest.approx(found.baseline.figures[name])
        )  # fmt: skip
    lines = comparison.lines(["accuracy", "macro_f1"])
    assert [line.partition(":")[0] for line in lines] == ["loss", "accuracy"] and " ± " in lines[1]
    assert f"| Compared with the baseline | {lines[0]}<br>{lines[1]} |" in (run / "README.md").read_text()
    printed = regard("info", run).stdout
    assert all(f"compared    {line}" in printed for line in lines)
    facts = json.loads(regard("info", run, "--json").stdout)
    assert facts["comparison"]["metrics"]["accuracy"]["error"] == pytest.approx(comparison.metrics["accuracy"].error)


def test_the_page_has_it(untrained: tuple[Path, Path, list[str]], tmp_path: Path) -> None:
    run, _, _ = untrained
    comparison = read_comparison(run)
    assert comparison is not None
    described = describe_run(RunFolder.open(run), name="films", checkpoint="best")
    assert described["comparison"] == json.loads(json.dumps(comparison.as_dict()))
    parts = dict(described["parts"])
    assert parts["baseline"] == comparison.description
    assert parts["compared by accuracy"] == str(comparison.metrics["accuracy"])
    off, _, _ = films(tmp_path, more=["train.baseline=false"])
    assert read_comparison(off) is None and not (off / COMPARISON).exists()
    described = describe_run(RunFolder.open(off), name="films", checkpoint="best")
    assert described["comparison"] is None and "baseline" not in dict(described["parts"])


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 1, "checkpoint": "best", "metrics": {"loss": {}}}'])
def test_a_damaged_comparison_is_refused(text: str, untrained: tuple[Path, Path, list[str]]) -> None:
    path = untrained[0] / COMPARISON
    whole = path.read_text()
    try:
        path.write_text(text)
        with pytest.raises(ModelError, match=COMPARISON):
            read_comparison(untrained[0])
    finally:
        path.write_text(whole)


def test_one_example_has_no_error() -> None:
    metric = ComparedMetric(network=0.5, baseline=0.75, difference=-0.25)
    assert str(metric) == "network 0.5000, baseline 0.7500, difference -0.2500"


def accuracy(sums: Any) -> dict[str, float]:
    return {"accuracy": float(sums["right"] / sums["rows"])}


def test_the_standard_error_is_that_of_paired_differences() -> None:
    """With groups of equal size, that of their mean: the deviation of the groups' differences over √groups."""
    draw = np.random.default_rng(1)
    rights = draw.integers(0, 9, (2, GROUPS))
    groups = [[{"right": torch.tensor(float(n)), "rows": torch.tensor(8.0)} for n in row] for row in rights]
    found = compare(accuracy, "words", *groups)
    wanted = (rights[0] - rights[1]) / 8
    difference, error = found.differences["accuracy"]
    assert difference == pytest.approx(wanted.mean())
    assert error == pytest.approx(wanted.std(ddof=1) / math.sqrt(GROUPS))
    assert math.isnan(compare(accuracy, "words", groups[0][:1], groups[1][:1]).differences["accuracy"][1])


@pytest.mark.parametrize("kind", ["classification", "tagging"])
def test_each_example_is_in_one_group(kind: str, tmp_path: Path) -> None:
    case = TaskCase(find_task(kind), kind)
    case.tables["model"]["wide"] = False
    examples = case.data.train
    counted = np.concatenate(list(group_indices(examples).values()))
    assert sorted(counted.tolist()) == list(range(len(examples)))
    run: Any = SimpleNamespace(path=tmp_path, config=case.config)
    assert case.task.open_baseline(run, case.data.codecs) is None
    fitted = case.task.fit_baseline(run, case.data)
    assert fitted is not None
    fitted.save(run, {})
    baseline = case.task.open_baseline(run, case.data.codecs)
    assert baseline is not None
    groups = baseline_groups(baseline, examples, [])
    assert sum(float(sums["confusion"].sum()) for sums in groups) == examples.token_counts().sum()


def test_a_long_sentence_that_is_split_is_compared(tmp_path: Path) -> None:
    """Its tags are those of one value for the baseline, of several examples for the network."""
    (tmp_path / "tags.tsv").write_text(
        "".join(f"{word}\t{word[0]}\n" for word in "ab ba aa bb".split() * 4 + ["ab"] * 2)
    )
    file = {"source": str(tmp_path / "tags.tsv")}
    config = load_config({
        "task": "tagging", "data": {"train": [file] * 2, "valid": [file], "max_length": 6},
        "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2},
        "train": {"steps": 1, "batch_tokens": 64, "lr": 1e-5, "warmup": 1, "threads": 1, "baseline": True},
    })  # fmt: skip
    found = evaluate(train(config, tmp_path / "run"), tmp_path / "tags.tsv")
    assert found.baseline is not None and found.baseline.figures["accuracy"] == 1
    assert found.baseline.differences["accuracy"][0] == pytest.approx(found.figures["accuracy"] - 1)


def test_one_example_has_no_standard_error(regard, untrained: tuple[Path, Path, list[str]], tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("fine film\tgood\n")
    told = regard("evaluate", untrained[0], tmp_path / "one.tsv").stdout
    assert "baseline 1.0000" in told and "nan" not in told and "±" not in told
    as_json = json.loads(regard("evaluate", untrained[0], tmp_path / "one.tsv", "--json").stdout)
    assert as_json["baseline"]["differences"]["accuracy"]["standard_error"] is None


def test_an_equal_figure_is_printed_but_not_those_of_the_labels(regard, tmp_path: Path) -> None:
    """The share of the most frequent label is that of the data: no model has another one."""
    run, file, _ = films(tmp_path, updates=60, more=["train.lr=0.02"])
    told = regard("evaluate", run, file).stdout
    lines = {line.split()[0]: line for line in told.splitlines() if line.strip()}
    assert "baseline 1.0000" in lines["accuracy"] and "+0.0000" in lines["accuracy"]
    assert "baseline" not in lines["majority"]


@pytest.mark.parametrize("kind", ["nodes", "links"])
def test_nodes_and_links_are_compared_one_by_one(runs: dict[str, Path], kind: str) -> None:
    """The graph is one example: its nodes or pairs are the values of the jackknife, paired by their number."""
    run = RunFolder.open(runs[kind])
    files = files_of(run.path)
    found = package.evaluate(run.path, *files, part="valid", outcomes=True)
    assert found.baseline is not None and found.outcomes is not None
    config = config_with_files(run, [Path(file) for file in files], {"part": "valid"})
    with tempfile.TemporaryDirectory() as folder:
        examples: Any = open_files(run, config, Path(folder))
        baseline: Any = run.task.open_baseline(run, run.task.open(run).codecs)
        whole = baseline.sums(examples, np.zeros(1, np.int64), ())
        rows = measure_values(run.task.baseline_outcomes(baseline, examples), ()).rows
    own = found.outcomes.rows
    assert [(row.input, row.outcome.target) for row in rows] == [(row.input, row.outcome.target) for row in own]
    figures = run.task.compute_metrics(whole)
    assert found.baseline.figures == pytest.approx(figures, rel=1e-5, abs=1e-6)
    for name, (difference, _) in found.baseline.differences.items():
        assert difference == pytest.approx(found.figures.get(name, figures[name]) - figures[name], abs=1e-4), name
    losses = np.array([[row.loss, other.loss] for row, other in zip(own, rows, strict=True)], float)
    left_out = [np.delete(losses, np.s_[group::GROUPS], 0).mean(0) for group in range(min(GROUPS, len(losses)))]
    gaps = np.array([one - other for one, other in left_out])
    expected = math.sqrt((len(gaps) - 1) / len(gaps) * ((gaps - gaps.mean()) ** 2).sum())
    assert found.baseline.differences["loss"][1] == pytest.approx(expected, rel=1e-3) and expected > 0

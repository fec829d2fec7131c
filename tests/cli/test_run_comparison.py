"""``regard evaluate --against`` another run of the same task and labels, on the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scipy import stats

import regard as package
from regard.core.outcomes import OutcomeRow, TargetOutcome
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.errors import ConfigError
from regard.metrics.error_analysis import only_right, sign_flip_p
from regard.metrics.significance import OnlyRight
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.run_comparison import compare_runs, require_comparable
from tests.cli.test_outcomes import files_of

SUPERVISED = [kind for kind in TASKS if find_task(kind).outcomes is not None]


def measured(run: Path) -> tuple[Any, dict[str, str]]:
    settings = {"part": "valid"} if "part" in type(RunFolder.open(run).config.data).model_fields else {}
    return package.evaluate(run, *files_of(run), outcomes=True, **settings), settings


def trained_like(run: Path, folder: Path, *changes: str, data: Any = None) -> Path:
    """Another run with the config of a run, and these changes."""
    tables = RunFolder.open(run).config.model_dump(mode="json", exclude_none=True)
    tables["data"] |= {} if data is None else data
    return package.train(load_config(tables, ["seed=5", "train.learning_rate=0.1", *changes]), folder)


@pytest.mark.parametrize("kind", SUPERVISED)
def test_differences_are_those_of_the_metrics(runs: dict[str, Path], kind: str, tmp_path: Path) -> None:
    run = runs[kind]
    other = trained_like(run, tmp_path / "other")
    (own, settings), (others, _) = measured(run), measured(other)
    opened = RunFolder.open(run), RunFolder.open(other)
    require_comparable(*opened)
    files = [Path(file) for file in files_of(run)]
    comparison = compare_runs(opened[0], own.outcomes, opened[1], files, **settings)
    assert own.figures["loss"] != others.figures["loss"]
    slow = {name for name, metric in opened[0].task.metrics.items() if metric.slow}
    for name, value in others.figures.items():
        if name in slow:
            continue
        assert comparison.metrics.figures[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name
        assert comparison.metrics.differences[name][0] == pytest.approx(own.figures[name] - value, rel=1e-4, abs=1e-5)
    same = compare_runs(opened[0], own.outcomes, opened[0], files, **settings)
    assert {value for value, _ in same.metrics.differences.values()} == {0.0}
    if kind == "forecasting":  # numbers are not right or wrong
        assert comparison.right is None and same.right is None
        return
    assert comparison.right is not None and same.right == (0, 0)
    pairs = [(row.is_right, each.is_right) for row, each in zip(own.outcomes.rows, others.outcomes.rows, strict=True)]
    assert comparison.right == (pairs.count((True, False)), pairs.count((False, True)))
    assert comparison.exact == (own.outcomes.rows[0].position is None) and comparison.unit == own.outcomes.unit
    by_value: dict[int, list[float]] = {}
    for row, each in zip(own.outcomes.rows, others.outcomes.rows, strict=True):
        right, loss = by_value.setdefault(row.example, [0, 0]), (row.loss or 0) - (each.loss or 0)
        right[0], right[1] = right[0] + row.is_right - each.is_right, right[1] + loss
    assert comparison.values == len(by_value)
    assert comparison.loss_p == pytest.approx(sign_flip_p([loss for _, loss in by_value.values()]))
    right_p = sign_flip_p([right for right, _ in by_value.values()])
    assert comparison.p == pytest.approx(right_p, abs=0.03 if comparison.exact else 1e-9)


def test_the_command_prints_it(regard, runs: dict[str, Path], tmp_path: Path) -> None:
    run, file = runs["classification"], *files_of(runs["classification"])
    other = trained_like(run, tmp_path / "other", "train.steps=20")
    told = regard("evaluate", run, file, "--against", other).stdout
    assert f"{other}: metric, difference" in told and "McNemar's exact test: p = " in told
    assert "only this run is right: " in told and "majority" not in told[told.index("metric, difference") :]
    printed = json.loads(regard("evaluate", run, file, "--against", other, "--json").stdout)
    against, figures = printed["against"], json.loads(regard("evaluate", other, file, "--json").stdout)["figures"]
    assert against["figures"]["accuracy"] == figures["accuracy"] != printed["figures"]["accuracy"]
    difference = against["differences"]["accuracy"]
    assert difference["value"] == pytest.approx(printed["figures"]["accuracy"] - figures["accuracy"])
    assert difference["standard_error"] > 0
    right = against["only_right"]
    assert against["p"] == pytest.approx(stats.binomtest(right["this"], right["this"] + right["other"]).pvalue)
    assert right["other"] - right["this"] == pytest.approx(-6 * difference["value"])


def test_other_tasks_and_labels_are_refused(regard, runs: dict[str, Path], tmp_path: Path, monkeypatch) -> None:
    run, file = runs["classification"], Path(*files_of(runs["classification"]))
    wrong = regard("evaluate", run, file, "--against", runs["tagging"]).exception
    assert isinstance(wrong, ConfigError) and "different tasks" in wrong.what and "is tagging" in str(wrong.why)
    texts = [line.split("\t")[0] for line in file.read_text().splitlines()]
    for name, labels, more in (("labels", "good bad odd", ()), ("numbers", "1 2 3", ("data.label_kind=number",))):
        source = tmp_path / f"{name}.tsv"
        source.write_text("".join(f"{text}\t{labels.split()[n % 3]}\n" for n, text in enumerate(texts)))
        corpus = [{"source": str(source)}]
        other = trained_like(run, tmp_path / name, *more, data={"train": corpus, "valid": corpus})
        wrong = regard("evaluate", run, file, "--against", other).exception
        assert isinstance(wrong, ConfigError) and "different labels" in wrong.what
        assert ("has the label 'odd'" if name == "labels" else "predicts numbers") in str(wrong.why)
    assert "is not a run folder" in str(regard("evaluate", run, file, "--against", tmp_path / "none").exception)
    monkeypatch.setenv("RANK", "0")
    wrong = regard("evaluate", run, file, "--against", run).exception
    assert isinstance(wrong, ConfigError) and "single process" in wrong.what


def test_other_targets_are_refused(runs: dict[str, Path]) -> None:
    run = RunFolder.open(runs["tagging"])
    outcomes = measured(run.path)[0].outcomes
    first = outcomes.rows[0]
    changed = first._replace(outcome=first.outcome._replace(target="VERB"))
    for rows, why in ((outcomes.rows[1:], "23 and 24"), ([changed, *outcomes.rows[1:]], "VERB and DET")):
        with pytest.raises(ConfigError, match="different targets") as caught:
            compare_runs(run, outcomes._replace(rows=rows), run, [Path(*files_of(run.path))])
        assert why in str(caught.value.why)


def test_the_exact_test_by_hand() -> None:
    """Of 15 targets with one right model, 3 are this model's: 2 · (1 + 15 + 105 + 455) / 2¹⁵."""
    assert OnlyRight(3, 12).p_value() == pytest.approx(2 * 576 / 2**15)
    assert OnlyRight(0, 0).p_value() == 1.0 and OnlyRight(2, 2).p_value() == 1.0
    rows = [
        [
            OutcomeRow("f", n, None, None, "", 1, TargetOutcome("a", prediction), 1.0)
            for n, prediction in enumerate(text)
        ]
        for text in ("aabb", "abab")
    ]
    assert only_right(*rows) == (1, 1)

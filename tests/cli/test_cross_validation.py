"""``regard train --folds``: each fold is measured with a run that never saw it."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard as package
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.errors import ConfigError, DataError
from regard.metrics.error_analysis import worst_rows
from regard.runs.config import load_config
from regard.runs.run_folder import RunFolder
from regard.tasks.cross_validation import CrossValidation, cross_validate, fold_configs

from .test_outcomes import read

FOLDS = 3
SMALL = {
    "model": {"layers": 1, "width": 16, "feed_forward": 16, "heads": 2, "dropout": 0.0},
    "train": {"steps": 2, "batch_tokens": 256, "threads": 1, "precision": "float32", "baseline": True, "shards": 1},
}


def config_of(task: str, file: Path, *, split: bool = True) -> Any:
    """A tiny config as the automatic choice would make it: a tenth of the file is validation data."""
    parts = {"train": [0.0, 0.9], "valid": [0.9, 1.0]} if split else {"train": [0.0, 1.0]}
    data = {name: [{"source": str(file), "share": share}] for name, share in parts.items()}
    return load_config({"task": task, "data": data, **SMALL})


def reviews(folder: Path, *, rare: bool = False) -> Path:
    """Texts with two labels; with ``rare``, the last text has a label of its own."""
    lines = [f"{word} film number {n}\t{'good' if word in ('fine', 'great') else 'bad'}"
             for n, word in enumerate(["fine", "dull", "great", "poor"] * 15)]  # fmt: skip
    lines += ["an odd one\todd"] if rare else []
    path = folder / "reviews.tsv"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def validated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], tuple[Path, CrossValidation]]:
    @cache
    def trained(rare: bool) -> tuple[Path, CrossValidation]:
        folder = tmp_path_factory.mktemp("folds")
        file = reviews(folder, rare=rare)
        return file, cross_validate(config_of("classification", file), folder / "runs", FOLDS)

    return trained


def texts_of(config: Any, part: str, task: str = "classification") -> set[str]:
    corpora = getattr(config.data, part) or ()
    rows = [row for corpus in corpora for row in _supervised(task).rows(config.data, [corpus])]
    return {row.where for row in rows}


def _supervised(task: str) -> Any:
    return find_task(task).held_out.__self__  # type: ignore[union-attr]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("number", [2, 3, 5])
def test_folds_are_a_partition_that_training_and_early_stopping_never_see(
    tmp_path: Path, number: int, split: bool
) -> None:
    config, seen = config_of("classification", reviews(tmp_path), split=split), list[str]()
    for index in range(number):
        own, measured = fold_configs(config, index, number)
        train, valid, fold = texts_of(own, "train"), texts_of(own, "valid"), texts_of(measured, "train")
        assert not train & fold and not valid & fold and not train & valid
        assert len(train | valid | fold) == 60 and len(train) > len(valid)
        assert measured.data.valid is None
        seen += fold
    assert len(seen) == len({*seen}) == 60


def test_a_part_of_a_file_stays_a_part(tmp_path: Path) -> None:
    file = reviews(tmp_path)
    config = load_config({
        "task": "classification", "data": {"train": [{"source": str(file), "share": [0.2, 0.6]}]}, **SMALL
    })  # fmt: skip
    whole, seen = texts_of(config, "train"), set[str]()
    for index in range(3):
        own, measured = fold_configs(config, index, 3)
        assert texts_of(own, "train") | texts_of(own, "valid") | texts_of(measured, "train") == whole
        seen |= texts_of(measured, "train")
    assert seen == whole


def test_each_fold_is_an_evaluation_of_its_run(validated: Any) -> None:
    file, result = validated(False)
    everywhere = {row.where: row for row in result.rows}
    assert [row.where for row in result.rows] == [f"{file}:{line}" for line in range(1, 61)]
    assert [row.example for row in result.rows] == [*range(1, 61)]
    for fold in result.folds:
        found = package.evaluate(fold.run, file, outcomes=True)
        assert found.outcomes is not None
        own = {row.where for row in fold.rows}
        for row in found.outcomes.rows:
            if row.where in own:
                outcome = everywhere[row.where].outcome
                assert (row.outcome.target, row.outcome.prediction) == (outcome.target, outcome.prediction)
                assert row.outcome.probability == pytest.approx(outcome.probability, abs=1e-4)
        assert fold.evaluation.figures["accuracy"] == pytest.approx(np.mean([row.is_right for row in fold.rows]))
        assert fold.evaluation.figures["loss"] == pytest.approx(np.mean([row.loss for row in fold.rows]), rel=1e-5)
    for name in ("accuracy", "loss"):
        values = [fold.evaluation.figures[name] for fold in result.folds]
        gaps = [
            value - fold.evaluation.baseline.figures[name] for value, fold in zip(values, result.folds, strict=True)
        ]
        for found, column in ((result.figures[name], values), (result.differences[name], gaps)):
            assert found.value == pytest.approx(np.mean(column))
            assert found.standard_error == pytest.approx(np.std(column, ddof=1) / FOLDS**0.5)


def test_a_label_that_training_lacks_is_wrong(validated: Any) -> None:
    file, result = validated(True)
    assert [fold.unlearned for fold in result.folds if fold.unlearned] == [1]
    (fold,) = [fold for fold in result.folds if fold.unlearned]
    (row,) = [row for row in fold.rows if row.outcome.target == "odd"]
    assert row.where == f"{file}:61" and row.loss is None and row.outcome.target_probability is None
    assert row.outcome.prediction in ("good", "bad") and not row.is_right
    assert fold.evaluation.figures["accuracy"] == pytest.approx(np.mean([row.is_right for row in fold.rows]))
    baseline = fold.evaluation.baseline
    assert baseline is not None and baseline.figures["accuracy"] <= 1 - 1 / len(fold.rows)
    difference = fold.evaluation.figures["accuracy"] - baseline.figures["accuracy"]
    assert baseline.differences["accuracy"][0] == pytest.approx(difference)
    assert len(result.rows) == 61 and worst_rows(result.rows)[0].loss is not None


def test_a_sentence_with_a_tag_that_training_lacks_is_wrong(tmp_path: Path) -> None:
    sentences = [f"the{n}\tDET\n{word}\tNOUN\n\n" for n, word in enumerate(["cat", "dog", "hat"] * 10)]
    (tmp_path / "tags.tsv").write_text("".join(sentences) + "oh\tINTJ\nno\tNOUN\n\n")
    result = cross_validate(config_of("tagging", tmp_path / "tags.tsv"), tmp_path / "runs", 2)
    (fold,) = [fold for fold in result.folds if fold.unlearned]
    assert fold.unlearned == 2, "the whole sentence"
    right, targets = sum(row.is_right for row in fold.rows), len(fold.rows) + 2
    assert fold.evaluation.figures["accuracy"] == pytest.approx(right / targets)
    sentences_right = {row.example: True for row in fold.rows}
    for row in fold.rows:
        output = row.outcome.output or row.outcome.prediction
        sentences_right[row.example] &= output == row.outcome.target
    share = sum(sentences_right.values()) / (len(sentences_right) + 1)
    assert fold.evaluation.figures["exact"] == pytest.approx(share)


def test_finished_folds_are_not_trained_again(tmp_path: Path) -> None:
    config, trained = config_of("classification", reviews(tmp_path)), list[Path]()

    def train(own: Any, folder: Path) -> Path:
        trained.append(folder)
        return package.train(own, folder)

    first = cross_validate(config, tmp_path / "runs", 2, train_run=train)
    again = cross_validate(config, tmp_path / "runs", 2)
    assert [path.name for path in trained] == ["fold-1", "fold-2"] and again.figures == first.figures


def test_the_command_prints_the_folds(regard: Any, tmp_path: Path) -> None:
    file = reviews(tmp_path, rare=True)
    values = ("model.layers=1", "model.width=16", "model.heads=2", "train.steps=2", "train.threads=1", "seed=1")
    call = [
        "train",
        file,
        "--folds",
        2,
        "--runs",
        tmp_path / "runs",
        *(x for value in values for x in ("--set", value)),
    ]
    printed = regard(*call, "-o", tmp_path / "rows.csv")
    assert printed.exit_code == 0 and "mean ± standard error over 2 folds" in printed.stdout
    assert "1 target in values with a label" in printed.stdout and "baseline" in printed.stdout
    assert len(read(tmp_path / "rows.csv")) == 61
    assert (tmp_path / "runs" / "reviews-folds" / "fold-2" / "config.toml").exists()
    record = json.loads(regard(*call, "--json").stdout)
    assert sum(fold["targets"] for fold in record["folds"]) == 61 and [fold["fold"] for fold in record["folds"]] == [
        1,
        2,
    ]
    accuracy = [fold["figures"]["accuracy"] for fold in record["folds"]]
    assert record["figures"]["accuracy"]["value"] == pytest.approx(np.mean(accuracy))
    assert {*record["differences"]["accuracy"]} == {"value", "standard_error"}


def test_what_has_no_folds_is_refused(regard: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    file = reviews(tmp_path)
    for more in (["--resume", runs["tagging"]], ["--valid-file", file]):
        files = [] if "--resume" in more else [file]
        wrong = regard("train", *files, "--folds", 2, *more, "--runs", tmp_path / "runs").exception
        assert isinstance(wrong, ConfigError) and wrong.where == "--folds"
    for option in (["--json"], ["-o", "rows.csv"]):
        wrong = regard("train", file, *option).exception
        assert isinstance(wrong, ConfigError) and "--folds" in str(wrong.why)
    for kind in TASKS:
        config = RunFolder.open(runs[kind]).config
        if find_task(kind).held_out is None:
            with pytest.raises(ConfigError, match="does not apply"):
                fold_configs(config, 0, 2)
    (tmp_path / "two.tsv").write_text("a\tx\nb\ty\n" * 4)
    with pytest.raises((DataError, ConfigError)):
        cross_validate(config_of("classification", tmp_path / "two.tsv"), tmp_path / "small", 5)


def test_the_function_takes_data_of_the_program_and_repeats_no_fold(tmp_path: Path) -> None:
    rows = [line.split("\t") for line in reviews(tmp_path).read_text().splitlines()]
    table = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
    settings = {**SMALL, "model": {"encoder": {"kind": "transformer", **SMALL["model"]}, "wide": False}}

    def measured() -> CrossValidation:
        return package.cross_validate(table, folds=2, folder=tmp_path / "runs", **settings)

    first = measured()
    states = {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").rglob("state.json")}
    assert sorted(row.example for row in first.rows) == [*range(1, 61)] and len(states) >= 2
    assert measured().figures == first.figures
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "runs").rglob("state.json")} == states


@pytest.mark.parametrize(("folds", "message"), [(1, "at least 2, not 1"), (0, "at least 2, not 0")])
def test_the_function_refuses_too_few_folds(tmp_path: Path, folds: int, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        package.cross_validate(str(reviews(tmp_path)), folds=folds)


def test_the_function_refuses_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(ConfigError, match="ranks"):
        package.cross_validate(str(reviews(tmp_path)), folds=2)

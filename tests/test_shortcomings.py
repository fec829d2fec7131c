"""A run that diverged, is below its baseline or ends within its first epoch reports it, with a command that helps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from regard.cli import build_app
from regard.core.task import find_task
from regard.core.task_table import TASKS
from regard.runs import checkpoint
from regard.runs.config import load_config
from regard.runs.model_card import write_card
from regard.runs.run_folder import RunFolder
from regard.runs.shortcomings import shortcomings

SMALL = ("model.layers=1", "model.width=16", "model.feed_forward=16", "model.heads=2", "train.minutes=",
         "train.batch_tokens=64", "train.precision=float32", "train.early_stopping=", "train.warmup=1")  # fmt: skip


def update(step: int, nll: float, epoch: int = 1) -> dict[str, Any]:
    return {
        "step": step,
        "epoch": epoch,
        "loss": nll,
        "nll": nll,
        "rate": 0.1,
        "norm": 1.0,
        "tokens": 8,
        "seconds": 1.0,
    }


def validation(step: int, **figures: float) -> dict[str, Any]:
    return {"step": step, "validation": figures}


def made(
    folder: Path, records: list[Mapping[str, Any]], task: str = "classification", best: int | None = None
) -> RunFolder:
    corpus = str(folder / "data.csv")
    config = {"task": task, "data": {"train": [{"source": corpus}], "valid": [{"source": corpus}]}}
    run = RunFolder.create(folder / "run", load_config(config))
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    run.checkpoints.mkdir()
    if best is not None:
        checkpoint.mark_best(run.checkpoints, best, "loss", 0.1)
    return run


GOOD = {"loss": 0.2, "accuracy": 0.9, "majority": 0.6}


@pytest.mark.parametrize(
    ("records", "best", "expected"),
    [
        ([], None, []),
        ([update(1, 0.7), validation(1, **GOOD)], 1, []),
        ([update(1, 0.7, epoch=0), validation(1, **GOOD)], 1, ["within its first epoch"]),
        ([update(1, 0.7), validation(1, **GOOD | {"accuracy": 0.6})], 1, ["baseline majority 0.6000"]),
        ([update(1, 0.7), validation(1, **GOOD | {"accuracy": 0.59})], 1, ["accuracy 0.5900"]),
        ([update(1, 0.7), validation(1, **GOOD | {"accuracy": 1.0, "majority": 1.0})], 1, []),
        ([update(1, 0.7), validation(1, **GOOD | {"loss": 1077725.0})], 1, ["diverged: validation loss 1,077,725"]),
        ([update(1, 0.7), validation(1, **GOOD), validation(9, **GOOD | {"loss": 1.5})], 1, ["0.2000 at step 1"]),
        ([update(1, 0.7), validation(1, **GOOD), validation(9, **GOOD | {"loss": 1.3})], 1, []),
        (
            [update(1, 0.7), validation(1, **GOOD), update(2, 0.1), validation(2, **GOOD | {"loss": 1.5})], 1,
            ["the model overfits: validation loss 1.5000, 0.2000 at step 1, the best checkpoint; use more data"],
        ),
        ([update(1, 0.7), validation(1, **GOOD | {"loss": 0.7})], 1, ["nothing was learned"]),
        ([validation(0, **GOOD), update(1, 0.7), validation(1, **GOOD | {"loss": 0.19})], 1, []),
        ([validation(0, **GOOD), update(1, 0.7), validation(1, **GOOD | {"loss": 0.3})], 0, ["nothing was learned"]),
        ([update(1, 0.7), update(2, 0.6)], None, []),
        ([update(1, 0.7), update(2, 0.7)], None, ["nothing was learned: training loss"]),
        ([update(1, 0.7), update(2, 70.0)], None, ["diverged: training loss"]),
        (
            [update(1, 0.7, epoch=0), validation(1, **GOOD | {"loss": 5.0, "accuracy": 0.5})], 1,
            ["diverged", "baseline", "first epoch"],
        ),
    ],
)  # fmt: skip
def test_each_shortcoming_is_one_line(
    tmp_path: Path, records: list[Mapping[str, Any]], best: int | None, expected: list[str]
) -> None:
    run = made(tmp_path, records, best=best)
    found = [str(each) for each in shortcomings(run)]
    assert len(found) == len(expected)
    for line, part in zip(found, expected, strict=True):
        assert part in line and "regard train" in line and "\n" not in line
    card = write_card(run, parameters=1, updates=1, seconds=1.0)
    assert ("| Shortcomings |" in card) == bool(expected)


def test_a_figure_whose_lower_values_are_better(tmp_path: Path) -> None:
    for number, (rmse, short) in enumerate([(0.9, False), (1.1, True)]):
        (folder := tmp_path / str(number)).mkdir()
        found = shortcomings(
            made(folder, [update(1, 2.0), validation(1, loss=0.5, rmse=rmse, mean_rmse=1.0)], "graphs")
        )
        assert [each.what for each in found] == (
            ["the model is no better than its baseline: rmse 1.1000 (baseline mean_rmse 1.0000)"] if short else []
        )


def test_every_named_baseline_is_a_metric_of_its_task() -> None:
    """A misspelled name would be a baseline that nothing is ever compared with."""
    counts = {}
    for kind in TASKS:
        metrics = find_task(kind).metrics
        names = [metric.baseline for metric in metrics.values() if isinstance(metric.baseline, str)]
        assert set(names) <= set(metrics), kind
        counts[kind] = sum(metric.baseline is not None for metric in metrics.values())
    assert {kind for kind, count in counts.items() if not count} == {"translation", "language-model", "recognition"}


def regard(*arguments: object) -> Result:
    return CliRunner().invoke(build_app(), [str(each) for each in arguments])


def review_table(folder: Path) -> Path:
    """Thirty reviews, whose first word decides the label."""
    words = ("good", "bad")
    rows = [f"{words[n % 2]} film number {n % 7},{words[n % 2]}" for n in range(60)]
    (folder / "reviews.csv").write_text("text,label\n" + "".join(f"{row}\n" for row in rows))
    return folder / "reviews.csv"


# The rate rises until the end.
SLOW = ("train.schedule=inverse-sqrt", "train.warmup=100", "train.batch_tokens=2048", "train.weight_decay=0")


def settings(*more: str) -> list[str]:
    return [part for each in (*SMALL, "train.baseline=false", *more) for part in ("--set", each)]


def test_the_commands_of_a_diverged_run_train_one_that_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last loss of such a training is huge or zero, by chance: of eight seeds, some end with a huge one."""
    monkeypatch.chdir(tmp_path)
    table, lines = review_table(tmp_path), list[str]()
    for seed in range(8):
        given = settings("train.epochs=6", "train.lr=100", f"seed={seed}", *SLOW)
        result = regard("train", table, *given, "--name", f"hot-{seed}")
        assert result.exit_code == 0, result.output
        lines = [line for line in result.stderr.splitlines() if line.startswith("warning: training diverged")]
        if lines:
            break
    (line,) = lines
    assert line in regard("info", f"runs/hot-{seed}").stdout
    again = regard(*shlex.split(line.partition("regard ")[2]))
    assert again.exit_code == 0, again.output
    assert "diverged" not in again.stderr and Path(f"runs/hot-{seed}-2/config.toml").is_file()


def test_the_command_of_a_run_that_overfits_stops_earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "regard.runs.shortcomings.DIVERGED", 1.5
    )  # the loss ends near 2, by the rounding of the machine
    monkeypatch.chdir(tmp_path)
    rows = [f"word{n} word{n + 1} word{n + 2},{'odd' if n * n % 7 % 2 else 'even'}" for n in range(60)]
    (tmp_path / "noise.csv").write_text("text,label\n" + "".join(f"{row}\n" for row in rows))
    result = regard("train", "noise.csv", *settings("train.epochs=30", "train.lr=0.1", *SLOW), "--name", "noise")
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("warning: the model overfits")]
    again = regard(*shlex.split(line.partition("regard ")[2]))
    assert again.exit_code == 0, (again.output, again.exception)
    assert "overfits" not in again.stderr and "diverged" not in again.stderr


def test_the_command_of_a_run_within_its_first_epoch_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = regard("train", review_table(tmp_path), *settings("train.steps=1"), "--name", "short")
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    (line,) = [line for line in lines if "within its first epoch, after 1 update" in line]
    again = regard(*shlex.split(line.partition("regard ")[2]))
    assert again.exit_code == 0, (again.output, again.exception)
    assert "within its first epoch" not in again.stderr and "finished (epochs)" in again.stderr


@pytest.mark.parametrize("resumed", [False, True])
def test_the_command_of_a_schedule_with_an_end_trains_it_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    """A language model of ``train.steps`` has the linear schedule, which epochs alone do not end."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book.txt").write_text("one more word after another\n" * 100)
    result = regard("train", "book.txt", *settings("train.steps=1", "train.schedule=linear"), "--name", "short")
    if resumed:
        result = regard("train", "--resume", "runs/short")
    begin = "the run is already finished" if resumed else "warning: training ended within its first epoch"
    (line,) = [line for line in result.stderr.splitlines() if line.startswith(begin)]
    again = regard(*shlex.split(line.partition("regard ")[2]))
    assert again.exit_code == 0, (again.output, again.exception)
    assert "resuming at step 1" in again.stderr


def test_the_command_of_a_run_at_its_baseline_trains_it_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "noise.csv"
    rows = [f"review number {n % 7} of {n % 5},{'often' if n % 3 else 'rare'}" for n in range(120)]
    table.write_text("text,label\n" + "".join(f"{row}\n" for row in rows))
    result = regard("train", table, *settings("train.epochs=1", "train.lr=1e-9"), "--name", "low")
    (line,) = [line for line in result.stderr.splitlines() if "no better than its baseline" in line]
    again = regard(*shlex.split(line.partition("regard ")[2].partition(", or")[0]))
    assert again.exit_code == 0, (again.output, again.exception)
    assert "resuming at step" in again.stderr

"""A finished run trained longer: the bits of one long training, in a new folder, with commands that work."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from regard.core.tensors import digest
from regard.errors import ConfigError
from regard.runs import checkpoint
from regard.runs.run_folder import RunFolder
from regard.training.longer import longer_run
from regard.training.progress import saved_progress
from tests.test_shortcomings import regard, review_table, settings

CONSTANT = ("train.schedule=constant", "train.warmup=3", "train.ema=0.9", "train.threads=1")


def trained(folder: Path, name: str, *more: str) -> Path:
    arguments = settings(*CONSTANT, *more)
    result = regard("train", folder / "reviews.csv", *arguments, "--runs", folder / "runs", "--name", name)
    assert result.exit_code == 0, result.output
    return folder / "runs" / name


def longer(run: Path, *more: str, name: str | None = None) -> tuple[Path, str]:
    changes = [part for each in more for part in ("--set", each)]
    named = ("--name", name) if name else ()
    result = regard("train", "--continue", run, *changes, "--runs", run.parent, *named)
    assert result.exit_code == 0, (result.output, result.exception)
    return run.parent / (name or f"{run.name}-continued"), result.stderr


def state(run: Path) -> tuple[str, int, int]:
    found = checkpoint.load_latest(run / "checkpoints", pytest.fail)
    assert found is not None
    progress = saved_progress(found.state)
    return digest(found.groups), progress.step, progress.epoch


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reviews")
    review_table(folder)
    return trained(folder, "short", "train.epochs=2")


@pytest.mark.parametrize("end", ["epochs=4", "steps=19", "tokens=140"])
def test_a_run_in_two_parts_has_the_bits_of_one(short: Path, end: str) -> None:
    """Weights, their average and the optimizer state; the end may be in the middle of an epoch."""
    whole = trained(short.parent.parent, f"whole-{end}", f"train.{end}")
    before = state(short)
    again, _ = longer(short, f"train.{end}", name=f"again-{end}")
    assert state(again) == state(whole) and state(again)[1] > before[1]
    assert state(short) == before
    steps = [json.loads(line)["step"] for line in (again / "metrics.jsonl").read_text().splitlines() if '"nll"' in line]
    assert steps == list(range(1, state(again)[1] + 1))


def test_the_source_is_not_needed_again(short: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(short, tmp_path / "runs" / "copy"))
    again, said = longer(copy, "train.epochs=3")
    assert "with its optimizer state" in said
    shutil.rmtree(copy)
    assert regard("train", "--resume", again).exit_code == 0
    assert "| Started from |" in (again / "README.md").read_text()


def test_minutes_count_from_the_beginning(short: Path) -> None:
    found = checkpoint.load_latest(short / "checkpoints", pytest.fail)
    assert found is not None
    spent = saved_progress(found.state).seconds / 60
    again, _ = longer(short, f"train.minutes={3 * spent:.6f}", name="minutes")
    plan = RunFolder.open(again).read_plan()
    assert plan is not None and plan.steps == pytest.approx(3 * found.step, abs=1)
    assert RunFolder.open(again).config.train.epochs is None  # the new end takes the place of the other


def test_a_run_that_stopped_early_gets_its_patience_again(short: Path) -> None:
    run = trained(short.parent.parent, "patient", "train.lr=1e-9", "train.early_stopping=1", "train.validate_every=1",
                  "train.epochs=2", "train.best_by=accuracy")  # fmt: skip
    again, _ = longer(run, "train.epochs=3")
    assert state(again)[1] > state(run)[1]


def test_the_best_checkpoint_comes_along(short: Path) -> None:
    run = Path(shutil.copytree(short, short.parent / "best"))
    first, *_ = checkpoint.list_steps(run / "checkpoints")
    checkpoint.mark_best(run / "checkpoints", first, "loss", -1.0)
    path = checkpoint.step_path(run / "checkpoints", state(run)[1])
    found = checkpoint.load(path)
    progress = {**found.state, "best_step": first, "best_value": -1.0}
    checkpoint.save(run / "checkpoints", found.step, found.groups, progress, keep=10)
    again, _ = longer(run, "train.epochs=3", "train.keep=1")
    assert RunFolder.open(again).weights_path("best").steps == [first]


def test_the_warmup_is_that_of_the_first_run(short: Path) -> None:
    """By itself it would be a tenth of the updates of the longer run."""
    run = trained(short.parent.parent, "unwarmed", "train.epochs=2", "train.warmup=", "train.schedule=inverse-sqrt")
    again, _ = longer(run, "train.steps=60")
    plans = [RunFolder.open(each).read_plan() for each in (run, again)]
    assert plans[0] is not None and plans[1] is not None and plans[0].fit is not None and plans[1].fit is not None
    assert plans[0].fit.warmup == plans[1].fit.warmup


def command_of(help: str | None) -> list[str]:
    assert help is not None
    return shlex.split(help.partition("regard ")[2])


@pytest.mark.parametrize(
    "arguments",
    [
        ("--resume", "RUN", "--set", "train.epochs=5"),
        ("--continue", "RUN"),
        ("--continue", "RUN", "--set", "train.epochs=2"),
        ("--continue", "RUN", "--set", "train.steps=3"),
        ("--continue", "RUN", "--set", "train.minutes=0.000001"),
        ("--continue", "RUN", "--set", "train.epochs=5", "--set", "train.batch_tokens=32"),
        ("--continue", "RUN", "--set", "train.optimizer=adamw"),
        ("--continue", "RUN", "--set", "model.width=8"),
    ],
)
def test_the_command_in_the_help_trains(
    short: Path, tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = regard("train", *[str(short) if each == "RUN" else each for each in arguments]).exception
    assert error is not None and not list(tmp_path.iterdir())
    result = regard(*command_of(getattr(error, "help", None)))
    assert result.exit_code == 0, (result.output, result.exception)
    (made,) = (tmp_path / "runs").iterdir()
    assert state(made)[1] > 0 and ("--resume" not in arguments or state(made)[2] == 5)


def test_a_run_without_checkpoints_is_resumed_instead(short: Path) -> None:
    run = Path(shutil.copytree(short, short.parent / "begun"))
    shutil.rmtree(run / "checkpoints")
    error = regard("train", "--continue", run, "--set", "train.epochs=3", "--runs", run.parent).exception
    assert regard(*command_of(getattr(error, "help", None))).exit_code == 0


def test_a_failure_leaves_no_folder(short: Path, tmp_path: Path) -> None:
    result = regard("train", "--continue", short, "--set", "train.tokens=3", "--runs", tmp_path / "runs")
    assert "already trained" in str(result.exception) and not list((tmp_path / "runs").iterdir())


def test_a_finished_run_that_is_resumed_names_the_command(short: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(short, tmp_path / "runs" / "done"))
    result = regard("train", "--resume", run)
    line = next(line for line in result.stderr.splitlines() if "already finished" in line)
    again = regard(*command_of(line), "--runs", tmp_path / "runs")
    assert again.exit_code == 0 and state(tmp_path / "runs" / "done-continued")[2] == 4


def test_a_resumed_run_whose_model_is_to_change_is_resumed_as_it_is(short: Path) -> None:
    error = regard("train", "--resume", short, "--set", "model.width=8").exception
    assert command_of(getattr(error, "help", None)) == ["train", "--resume", str(short)]


@pytest.mark.parametrize("end", [f"steps={10**20}", "minutes=1e300", f"epochs={10**20}", f"tokens={10**13}"])
def test_an_end_that_no_training_reaches_is_refused_by_its_key(short: Path, tmp_path: Path, end: str) -> None:
    key = f"train.{end.partition('=')[0]}"
    table, runs = short.parent.parent / "reviews.csv", tmp_path / "runs"
    for begin in (["--continue", short], [table]):
        result = regard("train", *begin, "--runs", runs, "--set", f"train.{end}")
        assert isinstance(result.exception, ConfigError) and key in str(result.exception), result.exception
        assert not runs.exists() or not list(runs.iterdir())


def test_a_run_whose_clock_never_moved_is_trained_for_minutes(short: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(short, run)
    source = longer_run(RunFolder.open(run), ["train.minutes=1000"], pytest.fail)
    source.progress.seconds = 0.0
    plan = source.begin(tmp_path / "longer", lambda message: None).read_plan()
    assert plan is not None and plan.steps == 6 * 10**13

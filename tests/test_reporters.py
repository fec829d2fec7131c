"""Reporters: the order of their calls, stops, errors, and that they change no bit of a training."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import regard
from regard import cli
from regard.config.settings import TrainConfig
from regard.core.installation import PURPOSES, extra_command
from regard.errors import ConfigError
from regard.runs import checkpoint
from regard.runs.config import dump_config, load_config
from regard.training import trainer
from regard.training.display import NotebookDisplay
from regard.training.progress import NullReporter, Outcome, TrainingProgress, TrainingStart, Validation
from regard.training.reporters import REPORTERS, make_reporters
from regard.training.trackers import Tracker, hyperparameters, identity


class Recorder(NullReporter):
    """Records the calls; requests a stop in the calls ``stop``."""

    def __init__(self, *stop: str) -> None:
        self.calls: list[str] = []
        self.lines: list[str] = []
        self.stop = stop
        self.begun: TrainingStart | None = None

    def started(self, start: TrainingStart) -> None:
        self.begun = start
        self.calls.append(f"started {start.step}")

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> bool:
        return self._record(f"updated {progress.step}")

    def validated(self, progress: TrainingProgress, validation: Validation, best: bool) -> bool:
        return self._record(f"validated {progress.step}")

    def log(self, message: str) -> None:
        self.lines.append(message)

    def finished(self, outcome: Outcome) -> None:
        self.calls.append(f"finished {outcome.progress.step}: {outcome.reason}")

    def _record(self, call: str) -> bool:
        self.calls.append(call)
        return call in self.stop


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    texts = tmp_path / "texts.tsv"
    texts.write_text("text\tlabel\n" + "".join(f"a {word} day\t{word}\n" for word in ("good", "bad") * 8))
    train = {"steps": 4, "validate_every": 2, "precision": "float32", "threads": 1, "shards": 1, "baseline": False}
    corpus = [{"source": str(texts)}]
    model = {"encoder": {"layers": 1, "width": 8, "heads": 1}}
    return {"task": "classification", "data": {"train": corpus, "valid": corpus}, "model": model, "train": train}


def files(run: Path) -> list[bytes]:
    """Return the weights and states of all checkpoints."""
    return [path.read_bytes() for path in sorted((run / "checkpoints").rglob("*.safetensors"))]


def test_calls_are_in_order_and_change_no_bit(config: dict[str, Any], tmp_path: Path) -> None:
    first, second = Recorder(), Recorder()
    run = regard.train(config, tmp_path / "run", reporter=[first, second])
    assert first.calls == second.calls == [
        "started 0", "updated 1", "updated 2", "validated 2", "updated 3", "updated 4", "validated 4",
        "finished 4: steps",
    ]  # fmt: skip
    assert first.begun is not None and first.begun.folder == run and first.begun.config == load_config(config)
    assert first.begun.parameters == sum(net.numel() for net in regard.load(run).net.parameters())
    assert files(run) == files(regard.train(config, tmp_path / "alone")) != []


@pytest.mark.parametrize("call", ["updated 1", "updated 3", "validated 2"])
def test_a_reporter_stops_and_the_same_call_resumes(call: str, config: dict[str, Any], tmp_path: Path) -> None:
    whole, run = regard.train(config, tmp_path / "whole"), tmp_path / "run"
    stopping, step = Recorder(call), int(call[-1])
    regard.train(config, run, reporter=[Recorder(), stopping])
    assert stopping.calls[-2:] == [call, f"finished {step}: stopped by a reporter"]
    assert max(checkpoint.list_steps(run / "checkpoints")) == step
    resumed = Recorder()
    regard.train(config, run, reporter=resumed)
    assert resumed.calls[0] == f"started {step}" and resumed.calls[-1] == "finished 4: steps"
    assert checkpoint_bytes(run) == checkpoint_bytes(whole)


def checkpoint_bytes(run: Path) -> list[bytes]:
    """Return the weights of the last checkpoint."""
    return [path.read_bytes() for path in sorted(checkpoint.step_path(run / "checkpoints", 4).glob("*.safetensors"))]


def test_a_stop_at_the_last_update_is_the_end(config: dict[str, Any], tmp_path: Path) -> None:
    last = Recorder("validated 4")
    regard.train(config, tmp_path / "run", reporter=last)
    assert last.calls[-1] == "finished 4: steps"


class Failing(Recorder):
    """Fails in one call."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "__dict__").get("method"):
            raise OSError("no connection")
        return super().__getattribute__(name)


@pytest.mark.parametrize("method", ["started", "updated", "validated", "log", "finished"])
def test_an_error_is_logged_once_and_the_training_continues(
    method: str, config: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    failing, other = Failing(method), Recorder()
    with caplog.at_level(logging.WARNING, "regard.training"):
        regard.train(config, tmp_path / "run", reporter=[failing, other])
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == f"Failing.{method} failed and is no longer called: OSError: no connection"
    assert other.calls[-1] == "finished 4: steps"
    assert "updated 4" not in failing.calls or method == "finished"


def test_an_exception_of_the_training_is_reported_as_failed(config: dict[str, Any], tmp_path: Path) -> None:
    class Interrupts(NullReporter):
        def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> None:
            raise KeyboardInterrupt

    other = Recorder()
    with pytest.raises(KeyboardInterrupt):
        regard.train(config, tmp_path / "run", reporter=[other, Interrupts()])
    assert other.calls == ["started 0", "updated 1", "finished 1: failed"]


def test_other_ranks_stop_with_rank_0(config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here rank 0, which has the reporter, requests a stop after two updates, and this rank has none."""
    monkeypatch.setattr(trainer, "on_any_rank", lambda strategy, flag: len(progress.calls) > 2)
    progress = Recorder()
    regard.train(config, tmp_path / "run", reporter=progress)
    assert progress.calls == ["started 0", "updated 1", "updated 2", "finished 2: stopped by a reporter"]


def test_a_config_names_reporters_of_one_table(config: dict[str, Any]) -> None:
    (allowed,) = {get_args(get_args(TrainConfig.model_fields["report"].annotation)[0])}
    assert set(allowed) == set(REPORTERS) and set(REPORTERS) <= set(PURPOSES)
    assert load_config(config, ['train.report=["mlflow"]']).train.report == ("mlflow",)
    assert load_config(config, ["train.report=mlflow,wandb"]).train.report == ("mlflow", "wandb")
    for name in ("os:system", "regard.training.progress:NullReporter", "unknown"):
        with pytest.raises(ConfigError):
            load_config(config, [f'train.report=["{name}"]'])


def test_the_command_line_adds_reporters_once(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Recorder] = []

    def make() -> Recorder:
        made.append(Recorder())
        return made[-1]

    for name in ("tensorboard", "mlflow"):
        monkeypatch.setitem(REPORTERS, name, make)
    (tmp_path / "config.toml").write_text(dump_config(load_config(config)))
    options = ["--name", "run", "--runs", str(tmp_path), "--set", "train.report=mlflow,tensorboard", "--tensorboard"]
    assert cli.run(["train", str(tmp_path / "config.toml"), *options]) == 0
    assert len(made) == 2 and all(reporter.calls[-1] == "finished 4: steps" for reporter in made)


MODULES = {"mlflow": "mlflow", "tensorboard": "torch.utils.tensorboard", "trackio": "trackio", "wandb": "wandb"}


@pytest.mark.parametrize("name", REPORTERS)
def test_a_missing_library_is_an_error_before_the_training(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULES[name], None)
    with pytest.raises(ConfigError) as caught:
        make_reporters([name])
    assert caught.value.help == extra_command(name)


def test_libraries_of_trackers_are_not_imported_without_need() -> None:
    code = "import sys, regard.training.start; print([name for name in sys.argv[1:] if name in sys.modules])"
    command = [sys.executable, "-c", code, "mlflow", "tensorboard", "trackio", "wandb", "IPython"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "[]\n"


class Kernel:
    """Stands for the shell of a notebook."""

    kernel = object()


def test_a_notebook_shows_a_bar_and_a_plain_program_shows_nothing(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ipython = pytest.importorskip("IPython", reason="IPython is not installed")
    regard.train(config, tmp_path / "plain")
    assert capfd.readouterr() == ("", "")
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, content: dict[str, str], **options: object) -> None:
            shown.append(content)

    def display(content: dict[str, str], **options: object) -> Handle:
        shown.append(content)
        return Handle()

    monkeypatch.setattr(ipython, "get_ipython", Kernel)
    monkeypatch.setattr("IPython.display.display", display)
    regard.train(config, tmp_path / "notebook")
    assert shown[-1]["text/plain"].startswith("training 4/4 epoch ")
    assert shown[-1]["text/html"].startswith('<progress value="4" max="4"></progress> training 4/4')
    lines = capfd.readouterr().out.splitlines()
    assert any(line.startswith("step 4 · validation loss ") for line in lines)
    assert [line for line in lines if line.startswith("finished (steps): 4 updates in ")]
    regard.train(config, tmp_path / "quiet", reporter=[])
    assert capfd.readouterr() == ("", "")


def test_a_stopped_training_names_the_call_in_a_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    NotebookDisplay().finished(Outcome(TrainingProgress(step=3), "stopped by a reporter"))
    assert (
        capsys.readouterr().out == "stopped by a reporter and saved at step 3; to continue: call regard.train again\n"
    )


@pytest.mark.parametrize(("every", "steps"), [(1, [1, 2, 3, 4]), (3, [1, 3]), (10, [1])])
def test_a_tracker_records_some_updates_and_all_validations(
    every: int, steps: list[int], config: dict[str, Any], tmp_path: Path
) -> None:
    class Records(Tracker):
        def __init__(self) -> None:
            super().__init__(every)
            self.records: list[tuple[int, set[str]]] = []

        def record(self, figures: dict[str, float], step: int) -> None:
            self.records.append((step, set(figures)))

    tracker = Records()
    regard.train(config, tmp_path / "run", reporter=tracker)
    names = {f"train/{name}" for name in ("loss", "nll", "rate", "norm")}
    assert [step for step, figures in tracker.records if figures == names] == steps
    validations = [step for step, figures in tracker.records if {"validation/loss", "validation/accuracy"} <= figures]
    assert validations == [2, 4]


def test_a_training_keeps_its_identity(config: dict[str, Any], tmp_path: Path) -> None:
    run = regard.train(config, tmp_path / "run", reporter=Recorder("updated 1"))
    other, before = regard.train(config, tmp_path / "other"), identity(run)
    regard.train(config, run)
    assert identity(run) == before != identity(other)
    parameters = hyperparameters(TrainingStart(run, load_config(config), 7, 0))
    assert parameters["train.steps"] == 4 and parameters["parameters"] == 7 and parameters["train.report"] == "[]"
    assert all(isinstance(value, str | int | float) for value in parameters.values())

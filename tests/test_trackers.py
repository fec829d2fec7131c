"""Experiment trackers, with their real libraries and local stores: what a training writes to each."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.training.progress import NullReporter, TrainingProgress
from regard.training.trackers import MLflowReporter, TensorBoardReporter, WandbReporter

from .test_reporters import config  # noqa: F401 - a fixture

# Libraries of others may warn about each other's versions.
pytestmark = [pytest.mark.filterwarnings("default")]
SCALARS = {"train/loss", "train/nll", "train/rate", "train/norm", "validation/loss", "validation/accuracy"}


class StopAt(NullReporter):
    """Stops after an update."""

    def __init__(self, step: int) -> None:
        self.step = step

    def updated(self, progress: TrainingProgress, steps: int | None, figures: dict[str, float]) -> bool:
        return progress.step == self.step


def train_in_two_sessions(config: dict[str, Any], run: Path, make: Any) -> None:  # noqa: F811
    regard.train(config, run, reporter=[make(), StopAt(3)])
    regard.train(config, run, reporter=make())


def test_tensorboard_has_metrics_and_hyperparameters(config: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train_in_two_sessions(config, tmp_path / "run", TensorBoardReporter)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert set(events.Tags()["scalars"]) >= SCALARS
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4]
    assert [event.step for event in events.Scalars("validation/accuracy")] == [2, 4]
    start = events.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    assert b"train.learning_rate" in start and b"parameters" in start


def test_mlflow_has_one_run_for_all_sessions(config: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    train_in_two_sessions(config, tmp_path / "run", lambda: MLflowReporter(tracking_uri=store, every=1))
    client = mlflow.MlflowClient(tracking_uri=store)
    (run,) = client.search_runs([client.get_experiment_by_name("regard").experiment_id])
    assert run.info.status == "FINISHED" and run.info.run_name == "run"
    assert run.data.params["train.steps"] == "4" and int(run.data.params["parameters"]) > 0
    assert set(run.data.metrics) >= SCALARS and run.data.tags["regard.outcome"] == "steps"
    assert [each.step for each in client.get_metric_history(run.info.run_id, "train/loss")] == [1, 2, 3, 4]


def test_wandb_writes_offline(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    pytest.importorskip("wandb", reason="wandb is not installed")
    monkeypatch.setenv("WANDB_SILENT", "true")
    regard.train(config, tmp_path / "run", reporter=WandbReporter(mode="offline", every=1))
    (written,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    assert all(name.encode() in written.read_bytes() for name in (*SCALARS, "outcome", "train.steps"))


def test_trackio_writes_to_this_machine(config: dict[str, Any], tmp_path: Path) -> None:  # noqa: F811
    """In a process of its own, since Trackio reads its folder when it is imported."""
    pytest.importorskip("trackio", reason="trackio is not installed")
    code = (
        "import json, sys, regard; from regard.training.trackers import TrackioReporter\n"
        "regard.train(json.loads(sys.argv[1]), sys.argv[2], reporter=TrackioReporter(every=1))"
    )
    command = [sys.executable, "-c", code, json.dumps(config), str(tmp_path / "run")]
    environment = {**os.environ, "TRACKIO_DIR": str(tmp_path / "trackio")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    with closing(sqlite3.connect(tmp_path / "trackio" / "regard.db")) as store:
        rows = store.execute("SELECT step, metrics FROM metrics").fetchall()
    figures = {name: step for step, text in rows for name in json.loads(text)}
    assert set(figures) >= SCALARS and figures["train/loss"] == 4
